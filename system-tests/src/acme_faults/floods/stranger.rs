//! Client that asks for names which nobody has.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;

use crate::acme::Setting;
use sekisho_bench::tls::{Group, Offer, Trust, Version};

/// Way to ask for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TLS, as browsers do.
    Hello,
    /// TLS as CAs do that validate TLS-ALPN-01.
    Challenge,
    /// Plain HTTP as CAs do that validate HTTP-01.
    Token,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Hello, Self::Challenge, Self::Token];

    /// Tells whether a stranger may get this answer.
    pub(super) fn may_be_told(self, told: &str) -> bool {
        match self {
            Self::Hello => told.contains("UnrecognisedName") || told.contains("InternalError"),
            Self::Challenge => {
                told.contains("NoApplicationProtocol") || told.contains("InternalError")
            }
            // An unknown token is redirected to HTTPS.
            Self::Token => told == "308",
        }
    }
}

/// Clients of one network, /24, that ask for random names.
pub(super) struct Stranger {
    kind: Kind,
    https: SocketAddr,
    http: SocketAddr,
    net: u8,
}

impl Stranger {
    pub(super) fn new(setting: &Setting, kind: Kind, net: u8) -> Self {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            kind,
            https: at(setting.https),
            http: at(setting.http),
            net,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Asks for so many names at a steady rate; returns how often which answer came.
    pub(super) async fn flood(
        &self,
        names: usize,
        over: Duration,
    ) -> Result<BTreeMap<String, usize>> {
        let mut ticks = interval(over / u32::try_from(names).unwrap_or(u32::MAX).max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let way = match self.kind {
            Kind::Hello => Way::Tls(self.https, connector(b"http/1.1")?),
            Kind::Challenge => Way::Tls(self.https, connector(b"acme-tls/1")?),
            Kind::Token => Way::Plain(self.http),
        };
        let mut told = BTreeMap::new();
        let mut asking = JoinSet::new();
        for number in 0..names {
            ticks.tick().await;
            let from = Ipv4Addr::new(127, self.net, 0, (number % 250) as u8 + 1);
            let name = format!("r{}x{number}.faults.example", self.net);
            let way = way.clone();
            asking.spawn_local(async move {
                let answer = timeout(PATIENCE, way.ask(from, &name)).await;
                answer.unwrap_or_else(|_| Ok("nothing".to_owned()))
            });
            while let Some(answer) = asking.try_join_next() {
                *told.entry(answer??).or_default() += 1;
            }
        }
        while let Some(answer) = asking.join_next().await {
            *told.entry(answer??).or_default() += 1;
        }
        Ok(told)
    }
}

#[derive(Clone)]
enum Way {
    Tls(SocketAddr, TlsConnector),
    Plain(SocketAddr),
}

impl Way {
    /// Returns the alert or the status.
    async fn ask(self, from: Ipv4Addr, name: &str) -> Result<String> {
        let told = match self {
            Self::Tls(server, tls) => {
                let socket = connect(from, server).await?;
                let name = ServerName::try_from(name.to_owned())?;
                let ended = tls.connect(name, socket).await;
                ended.map_or_else(|error| error.to_string(), |_| "a certificate".to_owned())
            }
            Self::Plain(server) => {
                let mut socket = connect(from, server).await?;
                let token = name.replace('.', "-");
                let request = format!(
                    "GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {name}\r\n\
                     Connection: close\r\n\r\n"
                );
                socket.write_all(request.as_bytes()).await?;
                let mut answer = Vec::new();
                socket.read_to_end(&mut answer).await?;
                let answer = String::from_utf8_lossy(&answer);
                let status = answer.split(' ').nth(1);
                status.context("an answer without a status")?.to_owned()
            }
        };
        Ok(told)
    }
}

/// Connects as [`sekisho_bench::load::client::Client`] does, and leaves no TIME_WAIT either.
async fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let stream = socket.connect(to).await?;
    stream.set_zero_linger()?;
    Ok(stream)
}

fn connector(protocol: &[u8]) -> Result<TlsConnector> {
    let offer = Offer {
        version: Version::Tls13,
        group: Group::X25519,
        trust: Trust::Anyone,
        resume: None,
    };
    let mut config = offer.config()?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Longer than a handshake may take.
const PATIENCE: Duration = Duration::from_secs(15);
