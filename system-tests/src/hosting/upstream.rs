//! Upstreams that note each request that they parse: nginx, and Node twice.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sekisho_testkit::services::free_ports;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// Server behind ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Nginx,
    Node,
    /// Node that takes what it would refuse: bare LF, folded lines, both lengths
    LenientNode,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Nginx, Self::Node, Self::LenientNode];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Node => "node",
            Self::LenientNode => "node-lenient",
        }
    }
}

/// Process of an upstream; it ends when this is dropped.
pub(crate) struct Upstream {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    log: PathBuf,
    _child: Child,
}

/// Request, or what was none, as an upstream noted it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Seen {
    /// Request line and fields; empty for bytes that were no head.
    pub(crate) head: String,
    /// Body; None if the request ended before it.
    pub(crate) body: Option<Vec<u8>>,
    /// Status or error of the upstream.
    pub(crate) said: String,
}

impl Upstream {
    pub(crate) async fn start(kind: Kind, folder: &Path) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let [port] = free_ports();
            let started = Self::start_at(kind, folder, port).await?;
            if let Some(upstream) = started {
                return Ok(upstream);
            }
        }
        bail!("{} does not start in {}", kind.name(), folder.display())
    }

    /// Starts it; None if it ended at once, since another process took the port.
    async fn start_at(kind: Kind, folder: &Path, port: u16) -> Result<Option<Self>> {
        let folder = folder.join(kind.name());
        fs::create_dir_all(&folder)?;
        let log = folder.join("seen.log");
        File::create(&log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        match kind {
            Kind::Nginx => {
                let config = folder.join("nginx.conf");
                let text = include_str!("upstream/nginx.conf");
                let text = text.replace("PORT", &port.to_string());
                fs::write(&config, text.replace("FOLDER", &folder.to_string_lossy()))?;
                command.args(["/usr/sbin/nginx", "-e", "stderr", "-p"]);
                command.arg(&folder).arg("-c").arg(config);
            }
            Kind::Node | Kind::LenientNode => {
                let script = folder.join("upstream.js");
                fs::write(&script, include_str!("upstream/node.js"))?;
                command.arg("node").arg(script);
                command.args([&port.to_string(), &*log.to_string_lossy()]);
                command.args((kind == Kind::LenientNode).then_some("lenient"));
            }
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("error.log"))?)
            .kill_on_drop(true)
            .spawn()
            .context("setpriv, of util-linux")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let begun = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            if child.try_wait()?.is_some() {
                return Ok(None);
            }
            ensure!(begun.elapsed() < START, "{} does not listen", kind.name());
            sleep(POLL).await;
        }
        let (log, _child) = (folder.join("seen.log"), child);
        Ok(Some(Self {
            kind,
            address,
            log,
            _child,
        }))
    }

    /// Returns what it has noted.
    pub(crate) fn seen(&self) -> Result<Vec<Seen>> {
        let text = fs::read_to_string(&self.log)?;
        text.lines().map(Seen::parse).collect()
    }
}

impl Seen {
    /// Parses a line: status, head and body as hexadecimal digits, and text.
    ///
    /// A head `-` and a body `-` are missing; `.` is an empty body.
    fn parse(line: &str) -> Result<Self> {
        let mut parts = line.splitn(4, ' ');
        let mut part = || parts.next().unwrap_or_default();
        let (status, head, body, text) = (part(), part(), part(), part());
        let body = match body {
            "" | "-" => None,
            "." => Some(Vec::new()),
            digits => Some(bytes(digits)?),
        };
        let head = match head {
            // nginx knows the method, and refuses it before it notes the head.
            "" if status == "405" => text.as_bytes().to_vec(),
            "" | "-" => Vec::new(),
            digits => bytes(digits)?,
        };
        Ok(Self {
            // Each byte is one character.
            head: head.into_iter().map(char::from).collect(),
            body,
            said: format!("{status} {text}"),
        })
    }

    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &str {
        let line = self.head.lines().next().unwrap_or_default();
        line.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the values of a field, whose name is given in lower case.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.fields().filter(move |(one, _)| one == name);
        fields.map(|(_, value)| value)
    }

    /// Returns the fields, with names in lower case.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (String, &str)> {
        let lines = self.head.split("\r\n").skip(1);
        lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim()))
        })
    }
}

fn bytes(digits: &str) -> Result<Vec<u8>> {
    ensure!(digits.len().is_multiple_of(2), "half a byte: {digits:?}");
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| {
            let pair = digits.get(at..at + 2).context("no digits")?;
            Ok(u8::from_str_radix(pair, 16)?)
        })
        .collect()
}

const ATTEMPTS: usize = 5;
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_are_parsed() {
        let hex = |text: &str| -> String { text.bytes().map(|b| format!("{b:02x}")).collect() };
        let head = "GET /a HTTP/1.1\r\nHost: a.test\r\nX: 1\r\nX: 2\r\n\r\n";
        let line = format!("200 {} {} /a", hex(head), hex("hello"));
        let seen = Seen::parse(&line).unwrap();
        assert_eq!((seen.method(), seen.target()), ("GET", "/a"));
        assert_eq!(seen.values("x").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(seen.body.as_deref(), Some(&b"hello"[..]));
        let cut = Seen::parse("400   garbage of a client").unwrap();
        assert_eq!((cut.head.as_str(), cut.body), ("", None));
        assert_eq!(cut.said, "400 garbage of a client");
        assert_eq!(Seen::parse("200 - . /").unwrap().body, Some(Vec::new()));
    }
}
