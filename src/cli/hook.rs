//! `sekisho hook`: tries the script of `[hook]` without a server.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Subcommand;
use sekisho_certs::hook::ClientFacts;
use sekisho_certs::{Clock, HostName, Outcome};
use sekisho_hook::{Answer, Choice, Hello, Report, Source};
use tokio::time::Instant;

use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;
use crate::wiring::hook::{self, Opened, Served};
use crate::wiring::open;

/// Commands on the handshake hook.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Run the script for a made-up client, with the real stores
    Test(Test),
}

#[derive(Debug, clap::Args)]
#[command(after_help = TEST_EXAMPLES)]
pub(crate) struct Test {
    /// Server name that the client asks for; none if it is left out
    #[arg(long, value_name = "HOST", value_parser = HostName::parse)]
    name: Option<HostName>,
    /// Address of the client
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.1")]
    client: IpAddr,
    /// Address that the client connects to
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "192.0.2.2:443")]
    local: SocketAddr,
    /// Protocols that the client offers (ALPN)
    #[arg(
        long,
        value_name = "PROTOCOL,…",
        value_delimiter = ',',
        default_value = "h2,http/1.1"
    )]
    alpn: Vec<String>,
    /// Runs, one after the other: later ones meet what `tls:cached` kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
}

pub(super) fn run(config: Option<&Path>, command: &Command) -> Result<Ended> {
    let Command::Test(test) = command;
    let config = configuration::load(config)?;
    if config.hook.is_none() {
        bail!(
            "{}: there is no [hook]; write [hook] and script = \"handshake.luau\"",
            config.file.display()
        );
    }
    open::runtime()?.block_on(async {
        let opened = open::serving(&config, open::Disk::Without).await?;
        let hook = hook::open_alone(&config, opened.store as _)?;
        let hook = hook.ok_or_else(|| anyhow!("there is no [hook]"))?;
        test.run(&hook).await
    })
}

impl Test {
    async fn run(&self, hook: &Opened) -> Result<Ended> {
        let hello = Arc::new(self.hello());
        let mut output = Output::new();
        let mut failed = None;
        for number in 1..=self.times {
            if self.times > 1 {
                writeln!(output, "run {number}")?;
            }
            let (answer, report) = hook.report(&hello).await;
            write_report(&mut output, &report)?;
            let chose = self.describe(hook, &answer).await;
            writeln!(output, "chose   {chose}")?;
            failed = failed.or(report.error);
        }
        output.flush()?;
        match failed {
            Some(error) => bail!("the script failed: {error}"),
            None => Ok(Ended::Done),
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            server_name: self.name.clone(),
            facts: Arc::new(ClientFacts {
                client: SocketAddr::new(self.client, PORT),
                local: self.local,
                alpn: self
                    .alpn
                    .iter()
                    .map(|name| name.as_bytes().into())
                    .collect(),
                signature_schemes: SCHEMES.into(),
                cipher_suites: SUITES.into(),
                named_groups: GROUPS.into(),
            }),
        }
    }

    /// Says what the handshake would get, and where that comes from.
    async fn describe(&self, hook: &Opened, answer: &Answer<Served>) -> String {
        let chosen = match &answer.choice {
            Choice::Lookup => match &self.name {
                Some(name) => format!("the ordinary lookup: {}", self.looked_up(hook, name).await),
                None => "the ordinary lookup: the default of the address".into(),
            },
            Choice::Use(name) => format!("host {}", self.looked_up(hook, name).await),
            Choice::Default => "the default of the address".into(),
            Choice::Refuse(alert) => format!("alert {alert} ({})", alert_name(*alert)),
            Choice::Made(made) => certificate(made),
        };
        let from = match answer.source {
            Source::Script => "the script",
            Source::Region => "tls:cached",
            Source::Stale => "tls:cached, past its limit",
            Source::Failed => return format!("{chosen} (by [hook] on_error)"),
        };
        let holds = answer.until.saturating_duration_since(Instant::now());
        // A part of the time has passed by now.
        let holds = holds.as_secs_f64().round();
        format!("{chosen} (by {from}; a connection keeps it for {holds} s)")
    }

    async fn looked_up(&self, hook: &Opened, name: &HostName) -> String {
        match hook.clients.lookup(name, self.client).await {
            Outcome::Found(served) => format!("{name}: {}", certificate(&served)),
            Outcome::Absent(_) => format!("{name}: not there, or without a certificate"),
            Outcome::Failed(error) => format!("{name}: {error}"),
        }
    }
}

fn write_report(output: &mut Output, report: &Report) -> Result<()> {
    for line in &report.log {
        writeln!(output, "log     {line}")?;
    }
    for call in &report.calls {
        let took = shown(call.took);
        writeln!(output, "call    {}: {}, {took}", call.what, call.answer)?;
    }
    for (key, used) in &report.region {
        writeln!(output, "cached  {key:?}: {}", used.as_str())?;
    }
    let (took, cpu, memory) = (shown(report.took), shown(report.cpu), report.memory >> 10);
    writeln!(
        output,
        "cost    {took}, of it {cpu} CPU; {memory} KiB in the state"
    )?;
    Ok(())
}

fn certificate(served: &Served) -> String {
    let host = served.host();
    let now = Clock::System.now();
    let credentials = host.credentials.iter().map(|credential| {
        let word = if credential.not_after < now {
            ", expired"
        } else {
            ""
        };
        format!("{:?}{word}", credential.certified().key.algorithm())
    });
    let types: Vec<_> = credentials.collect();
    let tenant = match host.record.tenant.as_str() {
        "" => "the operator".to_owned(),
        tenant => format!("tenant {tenant}"),
    };
    format!("a certificate ({}) of {tenant}", types.join(", "))
}

/// Returns the name of an alert (RFC 8446, section 6).
fn alert_name(alert: u8) -> String {
    format!("{:?}", rustls::AlertDescription::from(alert))
}

fn shown(time: Duration) -> String {
    match time < Duration::from_millis(1) {
        true => format!("{} µs", time.as_micros()),
        false => format!("{:.3} ms", time.as_secs_f64() * 1e3),
    }
}

/// Port of the made-up client.
const PORT: u16 = 49152;
/// Schemes, suites and groups that current browsers offer.
const SCHEMES: [u16; 8] = [
    0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
];
const SUITES: [u16; 9] = [
    0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8,
];
const GROUPS: [u16; 4] = [0x11ec, 0x001d, 0x0017, 0x0018];

const EXAMPLES: &str = "\
Example:
  sekisho hook test --name shop.example";

const TEST_EXAMPLES: &str = "\
It prints the script's log, its calls, what it chose and what that cost. Nothing is
served, and no certificate is ordered. It ends with 1 if the script fails.

Examples:
  sekisho hook test --name shop.example
  sekisho hook test --name shop.example --client 2001:db8::7 --alpn http/1.1
  sekisho hook test --name shop.example --times 2    see what tls:cached keeps";
