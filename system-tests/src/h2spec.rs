//! Conformance to HTTP/2: h2spec against a real server, on files and through the
//! proxy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::hosting::{Host, Hosting, Kind, Upstream};

/// Which server, and behind what.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// The suite's binary, which tools/h2spec/build makes
    #[arg(long, value_name = "FILE", default_value = "target/h2spec")]
    h2spec: PathBuf,

    /// Server part that answers the requests; all if none is named
    #[arg(long, value_enum, value_name = "SITE", value_delimiter = ',')]
    sites: Vec<Answering>,
}

/// Server part that answers the requests of the suite.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Answering {
    Files,
    Nginx,
    Node,
}

impl Answering {
    const ALL: [Self; 3] = [Self::Files, Self::Nginx, Self::Node];
}

pub(crate) fn run(options: &Options) -> Result<()> {
    crate::block_on(conform(options))
}

async fn conform(options: &Options) -> Result<()> {
    let sites = match options.sites.is_empty() {
        true => Answering::ALL.to_vec(),
        false => options.sites.clone(),
    };
    let mut sum = Counts::default();
    for site in sites {
        let counts = suite(options, site).await?;
        println!("{site:?}: {}", counts.line());
        sum.tests += counts.tests;
        sum.passed += counts.passed;
    }
    println!("{}", sum.line());
    ensure!(sum.passed == sum.tests, "not all cases passed");
    Ok(())
}

/// Runs all cases against a server of its own.
async fn suite(options: &Options, site: Answering) -> Result<Counts> {
    let hosting = Hosting::new(&options.sekisho).await?;
    let upstream = match site {
        Answering::Files => None,
        Answering::Nginx => Some(Kind::Nginx),
        Answering::Node => Some(Kind::Node),
    };
    let upstream = match upstream {
        Some(kind) => Some(Upstream::start(kind, &hosting.upstreams()).await?),
        None => None,
    };
    let site = document(&hosting, upstream.as_ref())?;
    let host = Host {
        name: NAME.to_owned(),
        tenant: String::new(),
        site,
        also: Vec::new(),
    };
    hosting.put(&[host]).await?;
    let server = hosting.serve("workers = 1").await?;
    let (address, _) = server.serving().context("it serves")?;
    let suite = Command::new(&options.h2spec)
        .args(["--host", NAME, "--port", &address.port().to_string()])
        .args(["--tls", "--insecure", "--strict", "--timeout", PATIENCE])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(DEADLINE, suite).await.context("it hangs")?;
    let output = output.with_context(|| show(&options.h2spec))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = Counts::parse(&text).with_context(|| format!("no counts:\n{text}"))?;
    if counts.passed < counts.tests {
        let failures = text.find("Failures:").unwrap_or(0);
        println!("{}", &text[failures..]);
    }
    ensure!(counts.tests >= CASES, "h2spec has {CASES} cases:\n{text}");
    server.tell_to_end()?;
    server.ended().await?;
    Ok(counts)
}

/// Returns the site: the upstream, or a page.
fn document(hosting: &Hosting, upstream: Option<&Upstream>) -> Result<Value> {
    if let Some(upstream) = upstream {
        return Ok(json!({ "upstream": format!("http://{}", upstream.address) }));
    }
    fs::write(hosting.pages().join("index.html"), "here\n".repeat(20))?;
    Ok(json!({ "root": hosting.pages() }))
}

fn show(suite: &Path) -> String {
    format!("{}: tools/h2spec/build makes it", suite.display())
}

#[derive(Debug, Default, Eq, PartialEq)]
struct Counts {
    tests: usize,
    passed: usize,
}

impl Counts {
    /// Parses the suite's last line: `146 tests, 146 passed, 0 skipped, 0 failed`.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().rfind(|line| line.contains(" tests, "))?;
        let mut numbers = line.split(", ").map(|part| part.split_once(' '));
        let mut number = || numbers.next()??.0.parse().ok();
        Some(Self {
            tests: number()?,
            passed: number()?,
        })
    }

    fn line(&self) -> String {
        let Self { tests, passed } = self;
        format!("{tests} cases, {passed} passed, {} failed", tests - passed)
    }
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Runs all cases, strict ones too, over TLS. What is skipped counts as failed.

Examples:
  tools/h2spec/build && sekisho-system-tests h2spec
  sekisho-system-tests h2spec --sites files
";

/// Name of the host, which the system resolves: the suite connects to it.
const NAME: &str = "localhost";
/// Cases of h2spec 2.2.1.
const CASES: usize = 146;
/// Seconds that a case waits for a frame.
const PATIENCE: &str = "5";
/// All cases, even if each waits.
const DEADLINE: Duration = Duration::from_secs(900);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_counts() {
        let text = "Finished in 2.2 seconds\n146 tests, 144 passed, 1 skipped, 1 failed\n";
        let counts = Counts::parse(text).unwrap();
        assert_eq!(counts.line(), "146 cases, 144 passed, 2 failed");
        assert_eq!(Counts::parse("Error: no connection"), None);
    }
}
