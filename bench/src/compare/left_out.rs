//! Cases that a peer can't run here.

use std::fmt::{self, Display, Formatter};
use std::io::ErrorKind;
use std::process::Command;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::measure::namespace;
use super::options::Binary;
use super::rows::{Case, Measure, Row, Setup};
use super::setup::{HYBRID, Place, launch};
use sekisho_bench::tls::Group;

/// Case that a peer can't run.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) case: String,
    pub(crate) peer: PeerKind,
    pub(crate) lack: Lack,
}

/// Program that may be missing: a server beside which sekisho is measured, or a client.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub(crate) enum PeerKind {
    Apache,
    Caddy,
    HaProxy,
    Nginx,
    /// nginx with what came after Debian's: `ssl_certificate_cache`, and OpenSSL 3.6.
    #[serde(rename = "nginx-1.28")]
    #[value(name = "nginx-1.28")]
    NginxNext,
    Siege,
    Wrk,
}

/// What a peer lacks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lack {
    Program,
    /// The program, or a namespace for it.
    Namespace,
    Group,
}

impl LeftOut {
    /// Returns None if the case can run.
    pub(crate) fn find(place: Place<'_>, row: &Row, case: &Case) -> Option<Self> {
        let client = PeerKind::of_client(row.measure);
        if let Some((peer, program)) = client.filter(|(_, program)| !namespace::has(program)) {
            return Some(Self {
                case: format!("{program} for {}", case.label),
                peer,
                lack: Lack::Namespace,
            });
        }
        let peer = PeerKind::of(case.setup)?;
        let lack = if !peer.is_installed(place) {
            Lack::Program
        } else if lacks_group(place, row, case) {
            Lack::Group
        } else {
            return None;
        };
        let case = case.label.to_owned();
        Some(Self { case, peer, lack })
    }
}

impl Display for LeftOut {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let lack = match self.lack {
            Lack::Program => "it is not installed",
            Lack::Namespace => "it is not installed, or may have no namespace",
            Lack::Group => "its OpenSSL has no such group",
        };
        write!(formatter, "{}: {lack}", self.case)
    }
}

impl PeerKind {
    fn of(setup: Setup) -> Option<Self> {
        match setup {
            Setup::Nginx { .. } | Setup::NginxLua | Setup::NginxCosocket { .. } => {
                Some(Self::Nginx)
            }
            Setup::NginxNext { .. } => Some(Self::NginxNext),
            Setup::Apache => Some(Self::Apache),
            Setup::HaProxy => Some(Self::HaProxy),
            Setup::Caddy | Setup::CaddyHttp => Some(Self::Caddy),
            Setup::Sekisho { .. } | Setup::RedisClient | Setup::Cache(_) => None,
        }
    }

    /// Returns the client of a row that is not the harness's own, with its program.
    fn of_client(measure: Measure) -> Option<(Self, &'static str)> {
        match measure {
            Measure::Siege { .. } => Some((Self::Siege, "siege")),
            Measure::Wrk { .. } => Some((Self::Wrk, "wrk")),
            _ => None,
        }
    }

    fn is_installed(self, place: Place<'_>) -> bool {
        let program = match self {
            Self::Apache => &place.options.apache,
            Self::Caddy => &place.options.caddy,
            Self::HaProxy => &place.options.haproxy,
            Self::Nginx => &place.options.nginx,
            Self::NginxNext => &place.options.nginx_next,
            Self::Siege => return namespace::has("siege"),
            Self::Wrk => return namespace::has("wrk"),
        };
        let run = Command::new(program).arg("-v").output();
        !run.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

/// Whether nginx has a key exchange group depends on its OpenSSL. It reads its configuration,
/// and says what it refuses.
fn lacks_group(place: Place<'_>, row: &Row, case: &Case) -> bool {
    if !matches!(case.setup, Setup::Nginx { .. }) || case.group != Group::X25519mlkem768 {
        return false;
    }
    let name = format!("{}-peer", row.id);
    let launch = launch(place, row, case, Binary::Measured, &name, None, 1);
    let said = launch.ok().and_then(|launch| {
        let mut test = Command::new(&launch.program);
        test.arg("-t").args(&launch.arguments).output().ok()
    });
    said.is_some_and(|said| {
        !said.status.success() && String::from_utf8_lossy(&said.stderr).contains(HYBRID)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_one_name_on_command_lines_and_in_results() {
        for peer in PeerKind::value_variants() {
            let value = peer.to_possible_value().unwrap();
            assert_eq!(serde_json::to_value(peer).unwrap(), value.get_name());
        }
        assert_eq!(
            PeerKind::from_str("nginx-1.28", false),
            Ok(PeerKind::NginxNext)
        );
    }
}
