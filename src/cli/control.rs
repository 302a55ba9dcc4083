//! `sekisho reload` and `sekisho upgrade`

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use http::{Method, StatusCode};
use tokio::time::{Instant, sleep};

use crate::cli::admin::{Admin, Answer};
use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;
use crate::wiring::open;

/// Asks the server to begin anew with the configuration as it is now.
pub(super) fn reload(config: Option<&Path>) -> Result<Ended> {
    run(config, "/reload", "SIGHUP")
}

/// Asks the server to begin the program that is on the disk.
pub(super) fn upgrade(config: Option<&Path>) -> Result<Ended> {
    run(config, "/upgrade", "SIGUSR2")
}

fn run(config: Option<&Path>, path: &str, signal: &str) -> Result<Ended> {
    // A mistake is found here first, with its line.
    let config = configuration::load(config)?;
    let admin = Admin::over_unix(&config, signal)?;
    let answer = open::runtime()?.block_on(asked(&admin, path))?;
    if answer.status != StatusCode::OK {
        bail!("{}", answer.text);
    }
    let mut output = Output::new();
    writeln!(output, "{}", answer.text)?;
    Ok(Ended::Done)
}

/// Asks again while another hand-over is under way: this one's change may be newer.
async fn asked(admin: &Admin<'_>, path: &str) -> Result<Answer> {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = admin.ask(Method::POST, path, LIMIT).await?;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE || end < Instant::now() {
            return Ok(answer);
        }
        sleep(PAUSE).await;
    }
}

/// A hand-over gives up after 30 s.
const LIMIT: Duration = Duration::from_secs(45);
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Help of `sekisho reload`.
pub(super) const RELOAD: &str = "\
A new process of the running program reads the configuration, takes over the
listening sockets and answers new connections. Open connections stay with the
old process until they end, at the latest after [server] handover_timeout. If
the new process can't serve, nothing changes, and this command says why.

Needs [listen] admin = \"unix:PATH\". Without it, send SIGHUP to the server and
read its log.

Examples:
  sekisho reload
  sekisho reload --config /etc/sekisho/sekisho.toml";

/// Help of `sekisho upgrade`.
pub(super) const UPGRADE: &str = "\
Does what `sekisho reload` does, with the program that is now at the path that
the server was started by.

Needs [listen] admin = \"unix:PATH\". Without it, send SIGUSR2 to the server and
read its log.

Examples:
  sekisho upgrade
  sekisho upgrade --config /etc/sekisho/sekisho.toml";
