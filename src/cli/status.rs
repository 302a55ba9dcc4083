//! `sekisho status`

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{Method, StatusCode};
use serde_json::Value;

use crate::cli::admin::Admin;
use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// As a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(config: Option<&Path>, args: &Args) -> Result<Ended> {
    let config = configuration::load_listener(config)?;
    let admin = Admin::of(&config)?;
    let answer = open::runtime()?.block_on(admin.ask(Method::GET, "/status", LIMIT))?;
    if answer.status != StatusCode::OK {
        bail!("{}", answer.text);
    }
    let mut output = Output::new();
    if args.json {
        writeln!(output, "{}", answer.text)?;
        return Ok(Ended::Done);
    }
    let status: Value = serde_json::from_str(&answer.text).context("the server's answer")?;
    for (name, text) in lines(&status) {
        writeln!(output, "{name:<14}{text}")?;
    }
    Ok(Ended::Done)
}

/// Returns a line of each part, for people.
fn lines(status: &Value) -> Vec<(&'static str, String)> {
    let (text, number) = (|path| text(status, path), |path| number(status, path));
    let (version, pid, service) = (text("/version"), number("/pid"), service(status));
    let up = duration(number("/uptime_seconds"));
    let (open, limit) = (number("/connections/open"), number("/connections/limit"));
    let records = number("/cache/records");
    let [used, capacity] = ["/cache/bytes", "/cache/capacity_bytes"].map(|path| number(path) >> 20);
    let (url, state) = (text("/store/url"), text("/store/state"));
    let (errors, loads) = (number("/store/errors"), number("/store/loads_in_flight"));
    let (feed, position) = (text("/feed/state"), number("/feed/position"));
    let mut lines = vec![
        (
            "version",
            format!("{version}, process {pid}, up {up}{service}"),
        ),
        ("config", text("/config")),
        ("workers", text("/workers")),
        ("connections", format!("{open} of {limit}")),
        (
            "cache",
            format!("{records} hosts, {used} of {capacity} MiB"),
        ),
        (
            "store",
            format!("{url}: {state}, {errors} errors, {loads} loads in flight"),
        ),
        ("feed", format!("{feed}, at change {position}")),
    ];
    certificates(status, &mut lines);
    handovers(status, &mut lines);
    lines
}

/// Returns since when the service runs, if that is longer than its newest process.
fn service(status: &Value) -> String {
    match number(status, "/handovers/count") {
        0 => String::new(),
        _ => match text(status, "/handovers/service_began") {
            began if began.is_empty() => began,
            began => format!(", the service since {began}"),
        },
    }
}

fn certificates(status: &Value, lines: &mut Vec<(&'static str, String)>) {
    let part = &status["certificates"];
    if part.is_null() {
        return;
    }
    if let Some(error) = part["error"].as_str() {
        lines.push(("certificates", error.to_owned()));
        return;
    }
    let count = |name: &str, more: &str| {
        let more = if part[more] == true { " or more" } else { "" };
        format!("{}{more}", part[name])
    };
    let due = count("due", "due_is_more");
    let failing = count("failing", "failing_is_more");
    lines.push(("certificates", format!("{due} due, {failing} failing")));
    for name in part["failing_names"].as_array().into_iter().flatten() {
        lines.push((
            "",
            format!("failing: {}", name.as_str().unwrap_or_default()),
        ));
    }
}

fn handovers(status: &Value, lines: &mut Vec<(&'static str, String)>) {
    let (text, number) = (|path| text(status, path), |path| number(status, path));
    let (count, cut) = (
        number("/handovers/count"),
        number("/handovers/connections_cut"),
    );
    lines.push(("hand-overs", format!("{count}, {cut} connections cut off")));
    if !status["handovers"]["last"].is_null() {
        let (kind, at) = (text("/handovers/last/kind"), text("/handovers/last/at"));
        let changed = status["handovers"]["last"]["changed"].as_array();
        let changed: Vec<_> = changed.into_iter().flatten().collect();
        let what = match changed.is_empty() {
            true => "the configuration is as before",
            false => "the configuration changed:",
        };
        lines.push(("", format!("last: {kind} at {at}, {what}")));
        for line in changed {
            lines.push(("", format!("  {}", line.as_str().unwrap_or_default())));
        }
    }
    if !status["handovers"]["failed"].is_null() {
        let (kind, at) = (text("/handovers/failed/kind"), text("/handovers/failed/at"));
        let error = text("/handovers/failed/error");
        lines.push(("", format!("failed: {kind} at {at}: {error}")));
    }
    for older in status["handovers"]["older"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let state = older["state"].as_str().unwrap_or_default();
        let (pid, connections) = (&older["pid"], &older["connections"]);
        let since = older["since"].as_str().unwrap_or_default();
        let line = format!("process {pid}: {state}, {connections} connections, since {since}");
        lines.push(("", line));
    }
}

/// Returns a text, or the number as one; empty if it is missing.
fn text(status: &Value, path: &str) -> String {
    match status.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn number(status: &Value, path: &str) -> u64 {
    let value = status.pointer(path).and_then(Value::as_u64);
    value.unwrap_or_default()
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// The server waits for its store at most 2 s.
const LIMIT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Asks the server over [listen] admin. Over a Unix socket it also names hosts
whose certificates fail, and what the last reload changed.

Examples:
  sekisho status
  sekisho status --json | jq .connections.open
  sekisho status --config /etc/sekisho/sekisho.toml";
