//! Load generator as a child process on its own core.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::server::{LARGE_FILE, PROGRAM};
use super::tied;
use sekisho_bench::accounting::own_cpu;
use sekisho_bench::load::Outcome;
use sekisho_bench::load::gate::READY;
use sekisho_bench::tls::{Group, Version};

/// Load of a client. All other parameters are the same in all measurements.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) version: Version,
    pub(crate) group: Group,
    /// Pattern of the host names, by number.
    pub(crate) pattern: String,
    /// Number of hosts to request in order, beginning with number `start`.
    pub(crate) hosts: usize,
    pub(crate) start: usize,
    pub(crate) warmup: u64,
    /// Field of each request beside its host, if there is one.
    pub(crate) field: Option<&'static str>,
    /// Path of requests, unless the work has one of its own.
    pub(crate) page: &'static str,
    pub(crate) work: Work,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Handshakes {
        count: u64,
        resumed: bool,
    },
    /// Handshakes for hosts by Zipf's law.
    Popular {
        count: u64,
        exponent: f64,
    },
    Requests {
        connections: usize,
        each: u64,
    },
    AnyHost {
        connections: usize,
        each: u64,
    },
    Streams {
        streams: usize,
        count: u64,
    },
    Downloads {
        count: u64,
    },
    Echoes {
        connections: usize,
        each: u64,
    },
    /// Requests for a CGI program, one after the other.
    FirstByte {
        count: u64,
    },
    Idle {
        connections: usize,
        http2: bool,
    },
    /// Connections that send a ClientHello, whole or its first half, and wait.
    Hellos {
        connections: usize,
        whole: bool,
    },
    /// Open-loop connections at a fixed rate, which may fail.
    Paced {
        rate: u32,
        seconds: u32,
        deadline: u32,
    },
    /// Open-loop connections at a fixed rate, every second one to one of the first hosts.
    Loaded {
        rate: u32,
        seconds: u32,
        first: usize,
    },
    /// Connections to one host, all at the same time.
    Herd {
        connections: usize,
    },
    /// Connections with a request for a CGI program each, always some at a time or at a rate.
    /// Their handshakes are resumed: a full one would be much of a program's time.
    Programs {
        count: u64,
        rate: Option<u32>,
    },
}

impl Load {
    pub(crate) fn operations(&self) -> u64 {
        match self.work {
            Work::Handshakes { count, .. }
            | Work::Popular { count, .. }
            | Work::Streams { count, .. }
            | Work::Downloads { count }
            | Work::FirstByte { count }
            | Work::Programs { count, .. } => count,
            Work::Requests { connections, each }
            | Work::AnyHost { connections, each }
            | Work::Echoes { connections, each } => connections as u64 * each,
            Work::Idle { connections, .. }
            | Work::Hellos { connections, .. }
            | Work::Herd { connections } => connections as u64,
            Work::Paced { rate, seconds, .. } | Work::Loaded { rate, seconds, .. } => {
                u64::from(rate) * u64::from(seconds)
            }
        }
    }

    pub(crate) fn arguments(&self, target: SocketAddr) -> Vec<String> {
        let version = match self.version {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        };
        let mut arguments = vec![
            "load".to_owned(),
            format!("--target={target}"),
            format!("--name-pattern={}", self.pattern),
            format!("--count={}", self.hosts),
            format!("--start={}", self.start),
            format!("--warmup={}", self.warmup),
            format!("--tls={version}"),
            format!("--group={}", self.group.name()),
            format!("--request={}", self.path()),
            format!("--deadline={}", self.deadline()),
            "--no-verify".to_owned(),
        ];
        let field = self.field.map(|field| format!("--field={field}"));
        arguments.extend(field);
        arguments.extend(self.work.arguments());
        arguments
    }

    fn path(&self) -> &'static str {
        match self.work {
            Work::Downloads { .. } => LARGE_FILE,
            Work::Echoes { .. } => "/ws",
            Work::FirstByte { .. } | Work::Programs { .. } => PROGRAM,
            _ => self.page,
        }
    }

    fn deadline(&self) -> u32 {
        match self.work {
            Work::Paced { deadline, .. } => deadline,
            _ => DEADLINE_SECONDS,
        }
    }
}

impl Work {
    /// Returns the arguments that tell this work from others.
    fn arguments(self) -> Vec<String> {
        match self {
            Self::Handshakes { count, resumed } => vec![
                format!("--handshakes={count}"),
                format!("--concurrency={CONCURRENCY}"),
                format!("--resume={}", if resumed { "resumed" } else { "full" }),
            ],
            Self::Popular { count, exponent } => vec![
                format!("--handshakes={count}"),
                format!("--concurrency={CONCURRENCY}"),
                format!("--order=zipf:{exponent}"),
            ],
            Self::Requests { connections, each } => vec![
                format!("--keepalive={each}"),
                format!("--concurrency={connections}"),
            ],
            Self::AnyHost { connections, each } => vec![
                "--any-host".into(),
                format!("--keepalive={each}"),
                format!("--concurrency={connections}"),
            ],
            Self::Streams { streams, count } => vec![
                format!("--http2={streams}"),
                format!("--keepalive={count}"),
                "--concurrency=1".into(),
            ],
            Self::Downloads { count } => {
                vec![format!("--keepalive={count}"), "--concurrency=1".into()]
            }
            Self::Echoes { connections, each } => vec![
                "--websocket".into(),
                format!("--keepalive={each}"),
                format!("--concurrency={connections}"),
            ],
            Self::FirstByte { count } => vec![
                "--first-byte".into(),
                format!("--pause={PAUSE_SECONDS}"),
                format!("--keepalive={count}"),
                "--concurrency=1".into(),
            ],
            Self::Idle { connections, http2 } => {
                let http2 = http2.then(|| "--http2=1".to_owned());
                let idle = ["--idle".into(), format!("--concurrency={connections}")];
                idle.into_iter().chain(http2).collect()
            }
            // 250 connections per network: `absent_per_prefix` bounds the lookups of each.
            Self::Hellos { connections, whole } => vec![
                format!("--hellos={}", if whole { "whole" } else { "half" }),
                format!("--concurrency={connections}"),
                format!("--sources={connections}"),
            ],
            Self::Paced { rate, seconds, .. } => vec![
                format!("--rate={rate}"),
                format!("--seconds={seconds}"),
                format!("--concurrency={MAX_OPEN}"),
            ],
            Self::Loaded {
                rate,
                seconds,
                first,
            } => vec![
                format!("--rate={rate}"),
                format!("--seconds={seconds}"),
                format!("--concurrency={MAX_OPEN}"),
                format!("--order=half:{first}"),
            ],
            Self::Herd { connections } => vec![
                format!("--handshakes={connections}"),
                format!("--concurrency={connections}"),
            ],
            Self::Programs { count, rate } => {
                let open = rate.map_or(CONCURRENCY, |_| MAX_OPEN);
                let all = ["--resume=resumed".into(), format!("--handshakes={count}")];
                let rate = rate.map(|rate| format!("--rate={rate}"));
                let all = all.into_iter().chain(rate);
                all.chain([format!("--concurrency={open}")]).collect()
            }
        }
    }
}

/// Client between two steps of its gate.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    bound: Duration,
}

impl Client {
    /// Starts the client and waits until its warm-up is over.
    pub(crate) async fn start(
        arguments: &[String],
        core: usize,
        log: &Path,
        bound: Duration,
    ) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::from(tied::command_on(core))
            .arg(std::env::current_exe()?)
            .args(arguments)
            .args(["--json", "--gate"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot run setpriv")?;
        let input = child.stdin.take().context("the client has no input")?;
        let output = child.stdout.take().context("the client has no output")?;
        let mut client = Self {
            child,
            input,
            lines: BufReader::new(output).lines(),
            bound,
        };
        let line = client.line().await?;
        if line != READY {
            bail!("the client said {line:?} instead of {READY:?}");
        }
        Ok(client)
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the client has ended")
    }

    /// Runs the measured part, in which connections may fail. Kept connections
    /// stay open after it.
    pub(crate) async fn attempt(&mut self) -> Result<Outcome> {
        let pid = self.pid()?;
        let before = own_cpu(pid)?;
        self.input.write_all(b"\n").await?;
        let line = self.line().await?;
        let mut outcome: Outcome = serde_json::from_str(&line)
            .with_context(|| format!("cannot read the client's result {line:?}"))?;
        let used = own_cpu(pid)?.saturating_sub(before).as_secs_f64();
        outcome.core_percent = 100.0 * used / outcome.seconds.max(1e-9);
        Ok(outcome)
    }

    /// Runs the measured part, in which no connection may fail.
    pub(crate) async fn go(&mut self) -> Result<Outcome> {
        let outcome = self.attempt().await?;
        if outcome.failed > 0 {
            let all = outcome.failed + outcome.operations;
            bail!("{} of {all} failed: {:?}", outcome.failed, outcome.errors);
        }
        Ok(outcome)
    }

    /// Lets the client close its connections, and waits for its end.
    pub(crate) async fn finish(mut self) -> Result<()> {
        drop(self.input);
        timeout(self.bound, self.child.wait())
            .await
            .context("the client does not end")??;
        Ok(())
    }

    async fn line(&mut self) -> Result<String> {
        let bound = self.bound;
        timeout(bound, self.lines.next_line())
            .await
            .with_context(|| format!("the client said nothing for {} s", bound.as_secs()))??
            .context("the client ended early")
    }
}

/// Concurrency that keeps a server busy; nginx takes the same CPU time from 8
/// to 64.
pub(crate) const CONCURRENCY: usize = 16;
/// Connections that may wait for a paused server.
const MAX_OPEN: usize = 2_000;
/// Rest between requests for a program. Apache waits 47 ms for a program that has not ended
/// right after its answer, and answers nothing else on the connection meanwhile.
const PAUSE_SECONDS: f64 = 0.06;
const DEADLINE_SECONDS: u32 = 20;
