//! Scripts of the rows with a handshake hook.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::rows::{Case, Goal, Measure, Row, Scale, figure};
use super::sekisho::{Copies, Store};
use super::table::{BASE, FULL, SEKISHO, cold_from, sekisho};
use crate::fixtures::Folder;

/// Rows whose stores are local. Their goals are what a hook costs.
pub(crate) const HOOK: Row = Row {
    id: "hook",
    title: "Handshake with a hook that calls tls:lookup, credential cached",
    measure: FULL,
    cases: &[SEKISHO, HOOKED],
    goals: &[over_no_hook(HOOKED.label, 5.0)],
    ..BASE
};

pub(crate) const HOOK_CACHED: Row = Row {
    id: "hook-cached",
    title: "Handshake with a hook that gives files, cached by tls:cached",
    measure: FULL,
    cases: &[SEKISHO, hooked("sekisho, tls:cached", CACHED)],
    goals: &[over_no_hook("sekisho, tls:cached", 8.0)],
    ..BASE
};

pub(crate) const HOOK_STUCK: Row = Row {
    id: "hook-stuck",
    title: "Cached hosts while 20 handshakes per second wait 1 s in the hook",
    measure: Measure::HookStuck {
        seconds: 4,
        rate: 1_000,
    },
    cases: &[hooked("sekisho, http.get without an answer", WAITING)],
    goals: &[
        Goal {
            figure: figure::STUCK_P99,
            scale: Scale::Near(figure::WELL_P99, 1.5),
            must: 5_000.0,
            aim: None,
            case: None,
        },
        Goal {
            figure: figure::LOST,
            scale: Scale::Absolute,
            must: 1.0,
            aim: None,
            case: None,
        },
    ],
    ..BASE
};

/// The papers' script against the store that does the same.
pub(crate) const HOOK_REDIS: Row = Row {
    id: "hook-redis",
    title: "Handshake with the papers' Redis hook, never cached, and from redis://",
    measure: FULL,
    cases: &[
        cold_from("sekisho, redis://", Store::Redis(Copies::None)),
        HOOKED_REDIS,
    ],
    goals: &[Goal {
        figure: figure::CPU,
        scale: Scale::Ratio,
        must: 1.15,
        aim: None,
        case: Some(HOOKED_REDIS.label),
    }],
    ..BASE
};

/// Memory of handshakes that wait in a script, less that of others that wait for their
/// client.
pub(crate) const HOOK_MEMORY: Row = Row {
    id: "hook-memory",
    title: "Memory per handshake that waits in the hook, and without one for its client",
    measure: Measure::WaitingMemory { connections: 2_000 },
    cases: &[
        sekisho(HALF, Store::Sqlite, "64MiB"),
        hooked(GETS, WAITING_LONG),
        hooked(JOINS, WAITING_TOGETHER),
    ],
    goals: &[over_half(GETS), over_half(JOINS)],
    ..BASE
};

/// Memory of a worker's state, less that of a worker without one.
pub(crate) const HOOK_STATE: Row = Row {
    id: "hook-state",
    title: "Memory of each of four more workers, with a hook and without",
    measure: Measure::WorkerMemory { workers: 5 },
    cases: &[SEKISHO, HOOKED],
    goals: &[Goal {
        figure: figure::EACH,
        scale: Scale::Over(&[(1.0, SEKISHO.label)]),
        must: 1024.0,
        aim: None,
        case: Some(HOOKED.label),
    }],
    ..BASE
};

/// Writes the script of a case; returns the section of the configuration. REDIS in the
/// script stands for the store's URL, and SILENT for a server that never answers.
pub(crate) fn section(
    script: &str,
    scratch: &Path,
    fixture: Folder<'_>,
    redis: Option<&str>,
) -> Result<String> {
    let text = script
        .replace("REDIS", redis.unwrap_or_default())
        .replace("SILENT", &silent()?.to_string());
    let file = scratch.join("handshake.luau");
    fs::write(&file, text)?;
    Ok(format!(
        "[hook]\nscript = \"{}\"\nfolders = [\"{}\"]\n",
        file.display(),
        fixture.hosts().display()
    ))
}

/// Returns the address of a new listener that accepts nothing. It stays for the whole run.
/// Connections of an earlier case would fill the queue of a shared one, and those of the next
/// would wait for it instead.
fn silent() -> Result<SocketAddr> {
    static LISTENERS: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot bind a listener")?;
    let address = listener.local_addr()?;
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    listeners.push(listener);
    Ok(address)
}

/// Credential that the hook lets the lookup find.
pub(crate) const HOOKED: Case = hooked("sekisho, tls:lookup", LOOKUP);

/// The papers' script, which reads another host's pair for each handshake.
pub(crate) const HOOKED_REDIS: Case = Case {
    hook: Some(REDIS),
    ..cold_from("sekisho, hook on Redis", Store::Redis(Copies::None))
};

const fn hooked(label: &'static str, script: &'static str) -> Case {
    Case {
        hook: Some(script),
        ..sekisho(label, Store::Sqlite, "64MiB")
    }
}

const fn over_no_hook(case: &'static str, micros: f64) -> Goal {
    Goal {
        figure: figure::CPU,
        scale: Scale::Over(const { &[(1.0, SEKISHO.label)] }),
        must: micros,
        aim: None,
        case: Some(case),
    }
}

const fn over_half(case: &'static str) -> Goal {
    Goal {
        figure: figure::EACH,
        scale: Scale::Over(const { &[(1.0, HALF)] }),
        must: HELLO + 2.0,
        aim: None,
        case: Some(case),
    }
}

/// KiB of a parsed ClientHello (rustls 0.23), which each waiting handshake holds: counted by
/// allocations, with DHAT.
const HELLO: f64 = 2.6;
const HALF: &str = "sekisho, half a ClientHello";
const GETS: &str = "sekisho, waits for its turn of http.get";
const JOINS: &str = "sekisho, one load of tls:cached without an answer";

/// Bounds of the hook where many handshakes wait.
pub(crate) const PLACES: &str = "timeout = \"1m\"\nwaiting = 10000\n";

const LOOKUP: &str = r#"
function handshake(tls)
    local name = tls.server_name
    if not name or tls:lookup(name) == "failed" then
        tls:refuse("internal_error")
    end
end
"#;

const CACHED: &str = r#"
function handshake(tls)
    local name = tls.server_name
    tls:cached(name, 3600, function()
        tls:certificate(name .. ".crt")
        tls:certificate_key(name .. ".key")
    end)
end
"#;

const REDIS: &str = r#"
local certificates = redis("REDIS")

function handshake(tls)
    local name = tls.server_name
    local certificate, key = certificates:mget(name .. ".crt", name .. ".key")
    if certificate and key then
        tls:certificate(certificate)
        tls:certificate_key(key)
    end
end
"#;

/// Hosts from 100 on wait.
const WAITING: &str = r#"
function handshake(tls)
    local number = tonumber(string.match(tls.server_name, "%d+"))
    if number >= 100 then
        pcall(http.get, "http://SILENT/", {timeout = 1})
    end
end
"#;

const WAITING_LONG: &str = r#"
function handshake(tls)
    local number = tonumber(string.match(tls.server_name, "%d+"))
    if number >= 100 then
        http.get("http://SILENT/", {timeout = 60})
    end
end
"#;

const WAITING_TOGETHER: &str = r#"
function handshake(tls)
    local number = tonumber(string.match(tls.server_name, "%d+"))
    if number >= 100 then
        tls:cached("all", 60, function()
            http.get("http://SILENT/", {timeout = 60})
        end)
    end
end
"#;
