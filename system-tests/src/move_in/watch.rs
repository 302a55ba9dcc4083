//! Import that goes on while certbot renews.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use sekisho_bench::load::client::Client;
use tokio::time::{Instant, sleep};

use super::commands::{Commands, below};
use super::tools::Tools;
use crate::leaf;
use crate::server::Server;

/// Runs the documented command on certbot's folder below `root`, beside our server, and lets
/// certbot renew a lineage. Prints how long after certbot's end the new leaf was served.
pub(super) async fn run(
    tools: &Tools<'_>,
    commands: &mut Commands,
    root: &Path,
    store: &Path,
) -> Result<()> {
    let server = Server::new(&tools.setting.binary, store.to_owned());
    server.start().await?;
    let (address, _) = server.serving().context("it serves")?;
    let client = tools.setting.client_of(address)?;
    let command = commands.command("While the old server runs", 0);
    let command = command.context("the document has a command that watches")?;
    let text = format!("exec {}", below(command, root, None));
    let mut shell = tools.shell(&text, root, store).into_std();
    let watcher = shell.stdin(Stdio::null()).spawn().context("bash")?;
    let watcher = Watcher(watcher);
    // The watcher is up once it takes what changes: certbot itself takes longer to start.
    let before = leaf::shown(&client, HOST).await?;
    tools.renew_by_certbot(root, HOST).await?;
    let took = served_after(&client, &before).await?;
    println!(
        "watch: certbot's renewal was served {:.1} s after its end",
        took.as_secs_f64()
    );
    watcher.end()?;
    server.tell_to_end()?;
    server.ended().await?;
    ensure!(took <= MOST, "{took:.1?} is more than {MOST:?}");
    Ok(())
}

/// Waits until another leaf is served.
async fn served_after(client: &Client, before: &str) -> Result<Duration> {
    let begun = Instant::now();
    while leaf::shown(client, HOST).await? == before {
        ensure!(begun.elapsed() < PATIENCE, "{HOST} is not renewed");
        sleep(PAUSE).await;
    }
    Ok(begun.elapsed())
}

/// Process that watches; it is killed when this is dropped.
struct Watcher(Child);

impl Watcher {
    /// Ends it as systemd does.
    fn end(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = self.0.wait()?;
        // Within a round it says by 130 that it was interrupted.
        let is_ended = matches!(status.code(), Some(0 | 130));
        ensure!(is_ended, "the watcher ended with {status}");
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lineage of certbot, and its host.
const HOST: &str = "shop.certbot.example";
/// Bound of the time from the last write to the first handshake.
const MOST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
