//! Compressed pages and placeholders: lengths that must tell no secret, codings that are not
//! what they say, and tenants whose names are no value of a field.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::attack::Attacker;
use super::lies::read_head;
use crate::hosting::Host;
use crate::hosting::answers::Answer;

/// Upstream of this process.
pub(super) struct Secrets {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// Path, fields of the request, and what is wrong with its answer.
struct Entry {
    name: &'static str,
    host: &'static str,
    path: &'static str,
    fields: &'static str,
    complaint: fn(&Answer) -> Option<String>,
}

impl Secrets {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(async move { answer(socket).await.ok() });
            }
        });
        Ok(Self { address, accepting })
    }

    /// Returns hosts before the upstream: one compresses, one has a tenant whose name is no
    /// value of a field.
    pub(super) fn hosts(&self) -> [Host; 2] {
        let upstream = format!("http://{}", self.address);
        let host = |name: &str, tenant: &str, site| Host {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            site,
            also: Vec::new(),
        };
        let words = json!({ "X-Tenant": "{tenant}", "X-Name": "{host}" });
        [
            host(
                PAGES,
                "a",
                json!({ "upstream": upstream, "compress": { "upstream": true } }),
            ),
            host(
                WORDS,
                // As long as a tenant's name may be.
                &"é".repeat(64),
                json!({ "upstream": upstream, "request": { "set": words } }),
            ),
        ]
    }

    /// Runs all cases; returns how many, and how many of them told what they must not.
    pub(super) async fn run(&self, attacker: &Attacker, only: &str) -> Result<(usize, usize)> {
        let (mut count, mut wrong) = (0, 0);
        for entry in ENTRIES.iter().filter(|entry| entry.name.contains(only)) {
            count += 1;
            let answer = attacker.ask(entry.host, entry.path, entry.fields).await;
            let answer = answer.with_context(|| entry.name)?.unwrap_or_default();
            if let Some(complaint) = (entry.complaint)(&answer) {
                wrong += 1;
                println!("desync: {}: {complaint}", entry.name);
            }
        }
        let name = "secrets: guesses of one length";
        if name.contains(only) {
            count += 1;
            let mut lengths = Vec::new();
            for guess in ["/cookie/token-4711", "/cookie/token-0815"] {
                let answer = attacker.ask(PAGES, guess, GZIP).await?;
                lengths.push(answer.unwrap_or_default().body.len());
            }
            if lengths[0] != lengths[1] {
                wrong += 1;
                println!("desync: {name}: pages of {lengths:?} bytes");
            }
        }
        Ok((count, wrong))
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers requests of a connection.
async fn answer(mut socket: TcpStream) -> Result<()> {
    let mut held = Vec::new();
    while let Some(head) = read_head(&mut socket, &mut held).await? {
        let head = head.to_ascii_lowercase();
        let target = head.split(' ').nth(1).unwrap_or_default();
        let page = format!("<p>You asked for {target}.</p>{}", page());
        let (fields, body) = match target.split('/').nth(1).unwrap_or_default() {
            "cookie" => ("Set-Cookie: a=b\r\n", page),
            "gzip" => ("Content-Encoding: gzip\r\n", page),
            "twice" => ("Content-Encoding: gzip\r\nContent-Encoding: br\r\n", page),
            "head" => ("", head.clone()),
            _ => ("", page),
        };
        let is_short = target.starts_with("/short");
        let length = if is_short { 2 * body.len() } else { body.len() };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}Content-Length: {length}\r\n\
             \r\n{body}"
        );
        socket.write_all(answer.as_bytes()).await?;
        if is_short {
            break;
        }
    }
    Ok(())
}

/// Returns a page with a secret.
fn page() -> String {
    let lines = (0..100).map(|number| format!("<p>Line {number} of a page.</p>\n"));
    format!("<input value=token-4711>{}", lines.collect::<String>())
}

fn is_gzip(answer: &Answer) -> bool {
    answer.body.starts_with(&[0x1f, 0x8b])
}

/// Says what is wrong with an answer that must come as the upstream sent it.
fn unlike_page(answer: &Answer) -> Option<String> {
    let is_page = answer.complete && answer.body.ends_with(page().as_bytes());
    (!is_page).then(|| format!("not as it was sent, but {} bytes", answer.body.len()))
}

fn has(answer: &Answer, text: &str) -> bool {
    String::from_utf8_lossy(&answer.body).contains(text)
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "secrets: a page without a cookie",
        host: PAGES,
        path: "/open",
        fields: GZIP,
        // Without it, a server that compresses nothing would pass.
        complaint: |answer| (!is_gzip(answer)).then(|| "not compressed".to_owned()),
    },
    Entry {
        name: "secrets: a page that sets a cookie",
        host: PAGES,
        path: "/cookie",
        fields: GZIP,
        complaint: unlike_page,
    },
    Entry {
        name: "secrets: gzip that is none",
        host: PAGES,
        path: "/gzip",
        fields: GZIP,
        complaint: unlike_page,
    },
    Entry {
        name: "secrets: two codings",
        host: PAGES,
        path: "/twice",
        fields: GZIP,
        complaint: unlike_page,
    },
    Entry {
        name: "secrets: a page that is cut",
        host: PAGES,
        path: "/short",
        fields: GZIP,
        complaint: |answer| {
            let is_whole = answer.complete && answer.status == 200;
            is_whole.then(|| format!("whole, with {} bytes", answer.body.len()))
        },
    },
    Entry {
        name: "secrets: a list of codings without end",
        host: PAGES,
        path: "/open",
        fields: "Accept-Encoding: gzip;q=0,,,;q=,*;q=2,\tx;;;q=1, identity;q=0.0001\r\n",
        complaint: unlike_page,
    },
    Entry {
        name: "secrets: a tenant that is no value",
        host: WORDS,
        path: "/head",
        fields: "X-Tenant: of-the-client\r\n",
        complaint: |answer| {
            let is_right = has(answer, "x-name: words.test") && !has(answer, "x-tenant");
            (!is_right).then(|| String::from_utf8_lossy(&answer.body).into_owned())
        },
    },
    Entry {
        name: "secrets: a placeholder of the client",
        host: WORDS,
        path: "/head",
        fields: "X-Name: {tenant}\r\nX-Other: {host}\r\n",
        complaint: |answer| {
            let is_right = has(answer, "x-name: words.test") && has(answer, "x-other: {host}");
            (!is_right).then(|| String::from_utf8_lossy(&answer.body).into_owned())
        },
    },
];

/// Host that compresses, and one of the tenant with a long name.
const PAGES: &str = "pages.test";
const WORDS: &str = "words.test";
const GZIP: &str = "Accept-Encoding: gzip\r\n";
