//! Problem documents (RFC 7807) of CAs, and what their types mean.

use std::fmt;

use sekisho_certs::printable;
use serde::Deserialize;

use super::error::Blame;

/// Error of a CA, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// Type without `urn:ietf:params:acme:error:`, such as `rateLimited` (RFC 8555,
    /// section 6.7); empty if there is none.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Explanation for people.
    #[serde(default)]
    pub detail: String,
    /// Name that it concerns.
    #[serde(default)]
    pub identifier: Option<Identifier>,
    /// Problems of single names (RFC 8555, section 6.7.1).
    #[serde(default)]
    pub subproblems: Vec<Problem>,
}

/// Name inside a problem.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Identifier {
    /// The name as the CA writes it.
    pub value: String,
}

impl Problem {
    /// Reads a problem document; none if the bytes are something else.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let mut problem: Self = serde_json::from_slice(json).ok()?;
        problem.shorten();
        (!problem.kind.is_empty() || !problem.detail.is_empty()).then_some(problem)
    }

    /// Returns the problem as one of this name.
    pub(super) fn with_name(self, name: &str) -> Self {
        let identifier = Some(Identifier { value: name.into() });
        Self { identifier, ..self }
    }

    /// Joins the problems of several names.
    pub(super) fn join(mut problems: Vec<Self>) -> Self {
        match problems.len() {
            1 => problems.remove(0),
            _ => Self {
                kind: "compound".into(),
                subproblems: problems,
                ..Self::default()
            },
        }
    }

    /// Returns who must change something, as the type says.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self.kind.as_str() {
            "compound" => {
                let first = self.subproblems.first();
                first.map_or(Blame::Ca, Self::blame)
            }
            "caa"
            | "connection"
            | "dns"
            | "incorrectResponse"
            | "tls"
            | "rejectedIdentifier"
            | "unsupportedIdentifier" => Blame::Host,
            "accountDoesNotExist"
            | "badSignatureAlgorithm"
            | "externalAccountRequired"
            | "invalidContact"
            | "invalidProfile"
            | "unauthorized"
            | "unsupportedContact"
            | "userActionRequired" => Blame::Operator,
            _ => Blame::Ca,
        }
    }

    /// Tells whether it names nobody: it is then about all names of its order.
    pub(crate) fn is_bare(&self) -> bool {
        self.identifier.is_none() && self.subproblems.iter().all(Self::is_bare)
    }

    /// Tells whether it, or a problem in it, is about this name. A wildcard's problem may
    /// have the name below it.
    pub(crate) fn names(&self, name: &str) -> bool {
        let bare = name.strip_prefix("*.").unwrap_or(name);
        let is_it = |one: &Identifier| one.value == name || one.value == bare;
        self.identifier.as_ref().is_some_and(is_it)
            || self.subproblems.iter().any(|one| one.names(name))
    }

    /// Tells whether the same request may be answered otherwise some time later, although
    /// nobody has changed anything at the CA.
    pub(super) fn may_pass(&self) -> bool {
        let is_final = matches!(
            self.kind.as_str(),
            "alreadyReplaced"
                | "alreadyRevoked"
                | "badCSR"
                | "badPublicKey"
                | "badRevocationReason"
                | "malformed"
                | "rejectedIdentifier"
                | "unsupportedIdentifier"
        );
        !is_final && self.blame() != Blame::Operator
    }

    fn shorten(&mut self) {
        if let Some(short) = self.kind.strip_prefix(PREFIX) {
            self.kind = short.to_owned();
        }
        self.subproblems.iter_mut().for_each(Self::shorten);
    }
}

impl From<&instant_acme::Problem> for Problem {
    fn from(problem: &instant_acme::Problem) -> Self {
        let sub = |sub: &instant_acme::Subproblem| {
            let identifier = sub.identifier.as_ref().map(|name| Identifier {
                value: name.authorized(false).to_string(),
            });
            Self {
                kind: sub.r#type.clone().unwrap_or_default(),
                detail: sub.detail.clone().unwrap_or_default(),
                identifier,
                subproblems: Vec::new(),
            }
        };
        let mut own = Self {
            kind: problem.r#type.clone().unwrap_or_default(),
            detail: problem.detail.clone().unwrap_or_default(),
            identifier: None,
            subproblems: problem.subproblems.iter().map(sub).collect(),
        };
        own.shorten();
        own
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.identifier.as_ref().map(|name| name.value.as_str());
        let parts = [name.unwrap_or(""), &self.kind, &self.detail];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        // Details quote what a validated host answered.
        let text = printable(&parts.join(": "));
        let end = text.floor_char_boundary(MAX_TEXT);
        f.write_str(&text[..end])?;
        for sub in self.subproblems.iter().take(MAX_SHOWN) {
            write!(f, "; {sub}")?;
        }
        match self.subproblems.len().checked_sub(MAX_SHOWN) {
            Some(more @ 1..) => write!(f, "; and {more} more"),
            _ => Ok(()),
        }
    }
}

const PREFIX: &str = "urn:ietf:params:acme:error:";
/// Bytes that are shown of a problem's own text.
const MAX_TEXT: usize = 500;
/// Problems of single names that are shown.
const MAX_SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const COMPOUND: &str = r#"{
        "type": "urn:ietf:params:acme:error:compound",
        "detail": "Errors during validation",
        "subproblems": [
            {"type": "urn:ietf:params:acme:error:dns", "detail": "no A\nrecord",
             "identifier": {"type": "dns", "value": "a.example"}},
            {"type": "urn:ietf:params:acme:error:caa", "detail": "forbidden",
             "identifier": {"type": "dns", "value": "b.example"}}
        ]
    }"#;

    #[test]
    fn problems_are_shown_in_words_with_their_names() {
        let problem = Problem::parse(COMPOUND.as_bytes()).unwrap();
        assert_eq!(
            problem.to_string(),
            "compound: Errors during validation; a.example: dns: no A\\nrecord; \
             b.example: caa: forbidden"
        );
        assert_eq!(problem.blame(), Blame::Host);
        assert!(problem.may_pass());
    }

    #[test]
    fn long_problems_are_cut() {
        let part = Problem {
            kind: "dns".into(),
            detail: "ü".repeat(2000),
            ..Problem::default()
        };
        let text = Problem::join(vec![part; 40]).to_string();
        assert!(text.len() < 3000, "{}", text.len());
        assert!(text.ends_with("; and 35 more"), "{text}");
    }

    #[test]
    fn other_json_is_no_problem() {
        for json in ["", "[]", "{}", "<html>", r#"{"status": 503}"#] {
            assert_eq!(Problem::parse(json.as_bytes()), None, "{json}");
        }
        let foreign = Problem::parse(br#"{"type": "about:blank", "detail": "x"}"#).unwrap();
        assert_eq!(foreign.to_string(), "about:blank: x");
        assert_eq!(foreign.blame(), Blame::Ca);
    }

    #[test]
    fn types_say_who_must_change_something() {
        for (kind, blame, may_pass) in [
            ("rateLimited", Blame::Ca, true),
            ("serverInternal", Blame::Ca, true),
            ("badCSR", Blame::Ca, false),
            ("connection", Blame::Host, true),
            ("rejectedIdentifier", Blame::Host, false),
            ("externalAccountRequired", Blame::Operator, false),
        ] {
            let problem = Problem {
                kind: kind.into(),
                ..Problem::default()
            };
            assert_eq!(
                (problem.blame(), problem.may_pass()),
                (blame, may_pass),
                "{kind}"
            );
        }
    }
}
