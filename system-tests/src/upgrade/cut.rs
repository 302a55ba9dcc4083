//! WebSockets that stay until the third hand-over, when their process is the oldest of three.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use sekisho_bench::load::Failure;
use sekisho_bench::load::client::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::field::{Field, Kind};
use super::load::SOCKETS_NET;
use super::plan::Change;
use super::setting::Setting;
use super::sockets::Socket;

/// Opens WebSockets on a server of their own and never renews them.
pub(super) async fn run(field: &Field, setting: &Setting) -> Result<()> {
    let mut configuration = setting.configuration();
    configuration.drain_seconds = DRAIN;
    setting.configure(configuration)?;
    setting.server.start().await?;
    let client = setting.client(SOCKETS_NET)?;
    let open = async || {
        let socket = Socket::open(&client).await;
        socket.map_err(|failure| anyhow!("no WebSocket: {}", failure.kind()))
    };
    let mut sockets = Vec::new();
    for _ in 0..COUNT {
        sockets.push(open().await?);
    }
    let mut younger = Vec::new();
    for handover in 1..=HANDOVERS {
        let next = setting.configuration().with(Change::Redirect);
        setting.configure(next)?;
        let output = setting.command(&["reload"]).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "reload {handover}: {said}");
        if handover < HANDOVERS {
            echo(field, &client, &mut sockets).await;
            // A process without connections ends, and counts no more.
            sleep(ACCEPTING).await;
            younger.push(open().await?);
        }
    }
    for socket in &mut sockets {
        let due = Instant::now();
        let cut = timeout(CUT, socket.ended()).await;
        let cut = cut.map_err(|_| Failure::Response("not cut at the third hand-over"));
        field.record(Kind::Cut, due, cut);
    }
    echo(field, &client, &mut younger).await;
    counted(setting).await?;
    drop(younger);
    setting.end().await
}

async fn echo(field: &Field, client: &Client, sockets: &mut [Socket]) {
    for socket in sockets {
        let due = Instant::now();
        let echoed = socket.echo(client).await;
        field.record(Kind::Cut, due, echoed);
    }
}

/// Waits until the server says that it has cut them, in its metrics and its status.
async fn counted(setting: &Setting) -> Result<()> {
    let begun = Instant::now();
    loop {
        let answer = setting.ask("/metrics").await?;
        let value = answer
            .lines()
            .find_map(|line| line.strip_prefix(CUT_METRIC)?.strip_prefix(' '))
            .with_context(|| format!("there is no metric {CUT_METRIC}"))?;
        let value: f64 = value.trim().parse()?;
        if value == COUNT as f64 {
            break;
        }
        ensure!(
            begun.elapsed() < COUNTED,
            "{CUT_METRIC} is {value} instead of {COUNT}"
        );
        sleep(POLL).await;
    }
    let status = setting.command(&["status", "--json"]).await?;
    let status: Value = serde_json::from_slice(&status.stdout)?;
    let cut = &status["handovers"]["connections_cut"];
    ensure!(*cut == COUNT, "the status counts {cut} instead of {COUNT}");
    Ok(())
}

const CUT_METRIC: &str = "sekisho_handover_connections_cut_total";
const COUNT: usize = 3;
const HANDOVERS: u32 = 3;
/// Seconds that an oldest process has to drain.
const DRAIN: u32 = 2;
const CUT: Duration = Duration::from_secs(15);
/// Longest time in which the old process may still accept.
const ACCEPTING: Duration = Duration::from_millis(500);
const COUNTED: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);
