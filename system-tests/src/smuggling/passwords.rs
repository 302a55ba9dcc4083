//! Requests to hosts whose users have passwords: none is let in that carries no user's.

mod paths;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::attack::{Attack, Attacker, Told, source};
use super::case::{Case, Expect, LOCKED, Request, Stream, id};
use super::judge::id_in;
use super::scripts::{Kind, Scripts};
use crate::hosting::{Host, Seen};

/// Hosts with passwords, and the FastCGI server of some.
pub(super) struct Passwords {
    scripts: Scripts,
    files: PathBuf,
}

/// Request, the host of its connection, and whether a user's password is in it.
#[derive(Clone)]
struct Entry {
    host: &'static str,
    case: Case,
    is_user: IsUser,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum IsUser {
    Yes,
    No,
    /// The password is there, in a form that the server may refuse
    Perhaps,
}

impl Passwords {
    /// Starts the FastCGI server, and writes pages below a folder.
    pub(super) async fn start(folder: &Path) -> Result<Self> {
        let files = folder.join("locked");
        std::fs::create_dir_all(files.join("private"))?;
        std::fs::create_dir_all(files.join("open"))?;
        std::fs::write(files.join("private/page"), PRIVATE)?;
        let scripts = Scripts::start(Kind::Honest, folder, &["REMOTE_USER", "AUTH_TYPE"]);
        Ok(Self {
            scripts: scripts.await?,
            files,
        })
    }

    /// Returns hosts whose pages, all or some, are for users alone.
    pub(super) fn hosts(&self) -> [Host; 4] {
        let host = |name: &str, tenant: &str, site: Value| Host {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            site,
            also: Vec::new(),
        };
        let users = json!({ "users": { "ann": SECRET } });
        let locked = with(self.scripts.site(), "auth", users.clone());
        let guests = json!({
            "status": 404,
            "auth": { "users": { "ann": OTHER, "eve": SECRET } },
        });
        let private = with(self.scripts.site(), "path", json!("/private"));
        let private = with(private, "auth", users.clone());
        let front = with(self.scripts.site(), "paths", json!([private]));
        let files = json!({
            "root": self.files,
            "paths": [
                { "path": "/private", "root": self.files.join("private"), "strip": true, "auth": users },
                { "path": "/open", "root": self.files.join("open"), "strip": true },
            ],
        });
        [
            host(LOCKED, "a", locked),
            // Its certificate also covers a host of another tenant.
            Host {
                also: vec![LOCKED.to_owned()],
                ..host(GUESTS, "b", guests)
            },
            host(FRONT, "a", front),
            host(FILES, "a", files),
        ]
    }

    /// Runs all cases; returns how many, and how many were let in without a password.
    pub(super) async fn run(
        &self,
        attacker: &Attacker,
        first: usize,
        only: &str,
    ) -> Result<(usize, usize)> {
        let mut entries = [table::entries(), paths::entries()].concat();
        entries.retain(|entry| entry.case.name.contains(only));
        // The passwords of all users are remembered, each at its host.
        for (host, pair) in [(LOCKED, ANN), (GUESTS, EVE), (GUESTS, OTHER_ANN)] {
            attacker.visit(host, pair).await?;
        }
        let mut told = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let id = id(first + number);
            let attack = Attack {
                case: &entry.case,
                id: &id,
                host: entry.host,
                // A network of its own, in which no password was wrong.
                from: source(first + number * 250)?,
                cut: usize::MAX,
                alone: None,
            };
            let answers = attacker.attack(attack).await;
            let answers = answers.with_context(|| entry.case.name.clone())?;
            told.push((entry, id, answers));
        }
        let seen = self.scripts.seen();
        let mut wrong = 0;
        for fault in self.scripts.faults() {
            wrong += 1;
            println!("desync: FastCGI got {fault}");
        }
        for (entry, id, told) in told {
            let seen = seen.iter().filter(|seen| id_in(seen.target()) == Some(&id));
            if let Some(complaint) = entry.complaint(&told, &seen.collect::<Vec<_>>()) {
                wrong += 1;
                println!("desync: {} at {}: {complaint}", entry.case.name, entry.host);
            }
        }
        Ok((entries.len(), wrong))
    }

    /// Returns the requests that came although no framing case has a password.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.scripts.seen()
    }
}

impl Entry {
    fn new(host: &'static str, what: &str, request: Request, is_user: IsUser) -> Self {
        let case = Case {
            name: format!("password: {}", what.escape_debug()),
            request,
            method: "POST",
            expect: Expect::Refused,
            demand: None,
        };
        Self {
            host,
            case,
            is_user,
        }
    }

    /// Says who was let in that must not be, or was not though a user.
    fn complaint(&self, told: &Told, seen: &[&Seen]) -> Option<String> {
        let case = told.case.as_ref();
        let status = case.map_or(0, |answer| answer.status);
        if case.is_some_and(|answer| has(&answer.body, PRIVATE.as_bytes())) {
            return Some("told the private page".to_owned());
        }
        let mut entered = seen.iter().filter(|seen| self.is_private(seen));
        let is_let_in = entered.next().is_some();
        match self.is_user {
            IsUser::No if is_let_in || self.host == LOCKED && status == 200 => {
                return Some(format!("told {status}, seen {seen:?}"));
            }
            IsUser::Yes if status != 200 => return Some(format!("told {status} with a password")),
            _ => {}
        }
        let canary = match self.host {
            LOCKED | GUESTS => 401,
            FILES => 404,
            _ => 200,
        };
        let other = told.other.as_ref().map(|answer| answer.status);
        let same = told.same.as_ref().map(|answer| answer.status);
        if canary != 200 && same == Some(200) || other != Some(canary) {
            return Some(format!(
                "the next requests were told {same:?} and {other:?}"
            ));
        }
        None
    }

    /// Returns whether a request needs a password: as a script may read it, too.
    fn is_private(&self, seen: &Seen) -> bool {
        match self.host {
            FRONT => {
                paths::is_private(seen.target()) && seen.values("authorization").next().is_none()
            }
            _ => true,
        }
    }
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

fn with(mut site: Value, key: &str, value: Value) -> Value {
    site[key] = value;
    site
}

/// Host of another tenant with users of its own.
const GUESTS: &str = "guest.test";
/// Host whose script gets all paths, those below `/private` with a password.
const FRONT: &str = "front.test";
/// Host with files, those below `/private` with a password.
const FILES: &str = "paths.test";
const PRIVATE: &str = "the private page";

/// Hash of `secret`: bcrypt with cost 4.
const SECRET: &str = "$2y$04$QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq";
/// Hash of `x` by `openssl passwd -apr1 -salt 8sFt66rZ x`.
const OTHER: &str = "$apr1$8sFt66rZ$j2BEVt9a8XrdWkzTR5wQ5/";
/// `ann:secret`, of the locked host's user.
const ANN: &str = "YW5uOnNlY3JldA==";
/// `eve:secret` and `ann:x`, of the guests' host.
const EVE: &str = "ZXZlOnNlY3JldA==";
const OTHER_ANN: &str = "YW5uOng=";
