//! Judgement: what upstreams saw of a case, beside what its client was told.

use std::net::Ipv4Addr;

use super::attack::Told;
use super::case::{Case, Expect, PLAIN, fill};
use crate::hosting::Seen;
use crate::hosting::answers::Answer;

/// Case that was run against one host.
pub(super) struct Run<'a> {
    pub(super) case: &'a Case,
    pub(super) id: String,
    pub(super) host: &'a str,
    pub(super) from: Ipv4Addr,
    pub(super) told: Told,
}

impl Run<'_> {
    /// Says what servers understood differently; nothing if all agree.
    pub(super) fn complaints(&self, seen: &[&Seen]) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut requests = Vec::new();
        for one in seen {
            complaints.extend(self.wrong_fields(one));
            let target = one.target();
            if target.contains("/smuggled/") {
                complaints.push(format!("the upstream saw {}", line(one)));
            } else if target == self.canary("same") || target == self.canary("other") {
                if one.method() != "GET" || one.body.as_ref().is_some_and(|body| !body.is_empty()) {
                    complaints.push(format!("a canary came as {}", line(one)));
                }
            } else {
                requests.push(*one);
            }
        }
        complaints.extend(self.wrong_requests(&requests));
        complaints.extend(self.wrong_answers(&requests));
        complaints
    }

    fn canary(&self, which: &str) -> String {
        format!("/canary/{}.{which}", self.id)
    }

    /// Compares the requests that the upstream saw with what they may be.
    fn wrong_requests(&self, seen: &[&Seen]) -> Option<String> {
        if seen.len() > 1 {
            let lines: Vec<_> = seen.iter().map(|one| line(one)).collect();
            return Some(format!("the upstream saw {}", lines.join(" and ")));
        }
        let whole = seen.iter().find_map(|one| Some((one, one.body.as_ref()?)));
        let bodies: Vec<_> = match &self.case.expect {
            Expect::Refused => Vec::new(),
            Expect::Served(body) => vec![body],
            Expect::Either(bodies) => bodies.iter().collect(),
        };
        let Some((one, body)) = whole else {
            let served = matches!(self.case.expect, Expect::Served(_));
            return served.then(|| format!("not served, but {}", told(self.told.case.as_ref())));
        };
        let known = bodies
            .iter()
            .any(|text| fill(text, &self.id, self.host) == *body);
        let right = known && one.method() == self.case.method;
        (!right).then(|| format!("the upstream saw {}", line(one)))
    }

    /// Compares the answers with the requests that they belong to.
    fn wrong_answers(&self, seen: &[&Seen]) -> Vec<String> {
        let mut wrong = Vec::new();
        let answered = self.told.case.as_ref().map_or(0, |answer| answer.status);
        let whole = seen.iter().any(|one| one.body.is_some());
        if answered == 200 && !whole && !seen.iter().any(|one| one.said.starts_with("405")) {
            wrong.push("answered 200 without a request".to_owned());
        }
        let body = |which| format!("GET {} 0\n", self.canary(which)).into_bytes();
        if let Some(same) = &self.told.same
            && same.status == 200
            && same.body != body("same")
        {
            wrong.push(format!("the next request was {}", told(Some(same))));
        }
        match &self.told.other {
            Some(other) if other.status == 200 && other.body == body("other") => {}
            other => wrong.push(format!("another client was {}", told(other.as_ref()))),
        }
        wrong
    }

    /// Looks for fields that a server behind a proxy must never see.
    fn wrong_fields(&self, seen: &Seen) -> Vec<String> {
        if seen.fields().next().is_none() {
            return Vec::new();
        }
        let values = |name| seen.values(name).collect::<Vec<_>>();
        let mut wrong = Vec::new();
        let hosts = values("host");
        if hosts.len() != 1 || without_port(hosts[0]) != self.host {
            wrong.push(format!("Host {hosts:?}"));
        }
        let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
        if lengths.len() + codings.len() > 1 || codings.iter().any(|one| *one != "chunked") {
            wrong.push(format!(
                "Content-Length {lengths:?}, Transfer-Encoding {codings:?}"
            ));
        }
        let clients = values("x-forwarded-for");
        if clients != [self.from.to_string()] {
            wrong.push(format!("X-Forwarded-For {clients:?}"));
        }
        let scheme = if self.host == PLAIN { "http" } else { "https" };
        if values("x-forwarded-proto") != [scheme] || values("cdn-loop").is_empty() {
            wrong.push("no X-Forwarded-Proto or no CDN-Loop".to_owned());
        }
        for (name, value) in seen.fields() {
            if is_unwanted(&name, value) {
                wrong.push(format!("{name}: {value}"));
            }
        }
        if let Some((name, want)) = self.case.demand
            && seen.target().contains("/case/")
            && values(name) != [want]
        {
            wrong.push(format!("{name} {:?}", values(name)));
        }
        let told = |what| format!("the upstream saw {what} in {}", line(seen));
        wrong.into_iter().map(told).collect()
    }
}

/// Returns whether a field belongs to the client's connection, was hidden in another one,
/// or claims another client. Cases write such claims as 6.6.6.6.
fn is_unwanted(name: &str, value: &str) -> bool {
    let hop = [
        "keep-alive",
        "proxy-connection",
        "http2-settings",
        "x-named",
    ];
    let allowed = ["close", "keep-alive", "te", "upgrade"];
    let mut tokens = value
        .split(',')
        .map(|token| token.trim().to_ascii_lowercase());
    hop.contains(&name)
        || name.contains('_')
        || name.contains("injected")
        || name.starts_with(|first: char| !first.is_ascii_alphanumeric())
        || value.contains("6.6.6.6")
        || value.contains(['\r', '\n', '\0'])
        || (name == "te" && value != "trailers")
        || (name == "connection" && !tokens.all(|token| allowed.contains(&token.as_str())))
}

fn without_port(host: &str) -> &str {
    let name = host.split(':').next().unwrap_or_default();
    name.trim_end_matches('.')
}

fn line(seen: &Seen) -> String {
    let first = seen.head.lines().next().unwrap_or_default();
    let body = match &seen.body {
        Some(body) => format!("a body of {} bytes", body.len()),
        None => "no end".to_owned(),
    };
    format!("{first:?} with {body} ({})", seen.said.trim_end())
}

fn told(answer: Option<&Answer>) -> String {
    let Some(answer) = answer else {
        return "told nothing".to_owned();
    };
    let text = String::from_utf8_lossy(&answer.body);
    let text: String = text.chars().take(80).collect();
    let reset = if answer.reset { ", reset" } else { "" };
    format!("told {} {text:?}{reset}", answer.status)
}

/// Returns the id in a text.
pub(super) fn id_in(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let is_id = |at: usize| {
        let digits = bytes.get(at + 1..at + 6);
        bytes[at] == b'c'
            && digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
            && bytes.get(at + 6) == Some(&b'x')
    };
    let at = (0..bytes.len()).find(|&at| is_id(at))?;
    text.get(at..at + 7)
}
