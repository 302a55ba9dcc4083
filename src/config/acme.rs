//! `[acme]`: what an issuer works with.

mod ca;
mod check;
mod dns;
mod raw;
mod serve;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use sekisho_certs::{Clock, HostName, Secret};
use sekisho_dns::Resolver;
use sekisho_issuance::acme::ExternalAccount;
use sekisho_issuance::settings::{DnsZone, Served, SettingError, Settings};
use sekisho_issuance::solver::dns01::{self, Exec, Rfc2136, TsigKey, Webhook, Writer};

pub(super) use check::{check, waits};
pub(super) use raw::RawAcme;

use super::SecretSource;
use serve::Serve;

/// Checked `[acme]`, without its secrets.
#[derive(Clone, Debug)]
pub(crate) struct Acme {
    /// Settings without external accounts and zones.
    pub(crate) settings: Settings,
    /// External account of each CA in `settings`.
    external: Vec<Option<External>>,
    zones: Vec<Zone>,
    /// Zone that every server of the catalog answers for.
    pub(crate) serve: Option<Serve>,
}

/// `eab_id` and `eab_key` of a CA.
#[derive(Clone, Debug)]
struct External {
    id: String,
    key: SecretSource,
}

/// `[acme.dns."ZONE"]`.
#[derive(Clone, Debug)]
struct Zone {
    zone: HostName,
    method: DnsMethod,
    /// Bound of the wait for a record.
    wait: Duration,
    check: dns01::Check,
}

/// Method by which the records of a zone are written.
#[derive(Clone, Debug)]
enum DnsMethod {
    Exec(PathBuf),
    Webhook {
        url: String,
        root: Option<PathBuf>,
        login: Option<(String, SecretSource)>,
    },
    Rfc2136 {
        server: SocketAddr,
        tsig: SecretSource,
    },
}

impl Acme {
    /// Reads the secrets, and the roots of webhooks. The programs of zones don't inherit the variables of
    /// `hidden`.
    ///
    /// # Errors
    /// [`SettingError`] names the key of a secret that can't be used.
    pub(super) fn with_secrets(&self, hidden: &[String]) -> Result<Settings, SettingError> {
        let mut settings = self.settings.clone();
        for (options, external) in settings.cas.iter_mut().zip(&self.external) {
            let name = format!("ca.{}.eab_key", options.ca.name);
            let read = |External { id, key }: &External| {
                secret(key, name, |text| {
                    let (id, key) = (id.clone(), bytes(text));
                    let account = ExternalAccount { id, key };
                    account.check().map(|()| account)
                })
            };
            options.external = external.as_ref().map(read).transpose()?;
        }
        let resolver = Resolver::new(&settings.admission.resolvers);
        for one in &self.zones {
            let mut solver = dns01::Settings::new(one.method.writer(&one.zone, hidden)?);
            solver.resolver = resolver.clone();
            solver.propagation = one.wait;
            solver.check = one.check.clone();
            let zone = one.zone.clone();
            settings.dns.push(DnsZone { zone, solver });
        }
        settings.served = self.serve.as_ref().map(|serve| Served {
            zone: serve.zone.clone(),
            resolver,
        });
        Ok(settings)
    }

    /// Lists the name servers that are asked, and those that records are written to.
    pub(super) fn name_servers(&self) -> impl Iterator<Item = SocketAddr> {
        let asked = self.settings.admission.resolvers.iter().copied();
        asked.chain(self.zones.iter().filter_map(|zone| match &zone.method {
            DnsMethod::Rfc2136 { server, .. } => Some(*server),
            DnsMethod::Exec(_) | DnsMethod::Webhook { .. } => None,
        }))
    }

    /// Lists the hosts and ports of the CAs, of webhooks and of `ask`.
    pub(super) fn servers(&self) -> impl Iterator<Item = (String, u16)> {
        let cas = self.settings.cas.iter();
        let cas = cas.map(|options| options.ca.directory.as_str());
        let webhooks = self.zones.iter().filter_map(|zone| match &zone.method {
            DnsMethod::Webhook { url, .. } => Some(url.as_str()),
            DnsMethod::Exec(_) | DnsMethod::Rfc2136 { .. } => None,
        });
        let ask = self.settings.admission.ask.as_deref();
        cas.chain(webhooks).chain(ask).filter_map(|url| {
            let url: Uri = url.parse().ok()?;
            let host = url.host()?.trim_matches(['[', ']']).to_owned();
            let usual = if url.scheme_str() == Some("http") {
                80
            } else {
                443
            };
            Some((host, url.port_u16().unwrap_or(usual)))
        })
    }

    /// Lists the sources of secrets.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        let accounts = self.external.iter().flatten().map(|external| &external.key);
        accounts.chain(self.zones.iter().filter_map(|zone| match &zone.method {
            DnsMethod::Exec(_) => None,
            DnsMethod::Webhook { login, .. } => login.as_ref().map(|(_, password)| password),
            DnsMethod::Rfc2136 { tsig, .. } => Some(tsig),
        }))
    }
}

impl DnsMethod {
    fn writer(&self, zone: &HostName, hidden: &[String]) -> Result<Writer, SettingError> {
        let key = |name| format!("dns.\"{zone}\".{name}");
        Ok(match self {
            Self::Exec(program) => Writer::Exec(Exec::new(program.clone(), hidden.to_vec())),
            Self::Webhook { url, root, login } => {
                let read = |(user, source): &(String, SecretSource)| {
                    let password = secret(source, key("password"), |text| Ok(bytes(text)));
                    password.map(|password| (user.clone(), password))
                };
                let login = login.as_ref().map(read).transpose()?;
                let webhook = Webhook::new(url, root.as_deref(), login.as_ref());
                let webhook = webhook.map_err(|fault| SettingError::of_zone(zone, fault))?;
                Writer::Webhook(Arc::new(webhook))
            }
            Self::Rfc2136 { server, tsig } => Writer::Rfc2136(Box::new(Rfc2136 {
                server: *server,
                key: secret(tsig, key("tsig"), TsigKey::parse)?,
                clock: Clock::System,
            })),
        })
    }
}

/// Reads a secret, without the line break at its end.
fn secret<T>(
    source: &SecretSource,
    key: String,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, SettingError> {
    let read = || {
        let text = source.read(MAX_SECRET + 1).map_err(|why| why.to_string())?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(format!("{source}: it is empty")),
            text if text.len() > MAX_SECRET => {
                Err(format!("{source}: it is over {MAX_SECRET} bytes"))
            }
            text => parse(text).map_err(|why| format!("{source}: {why}")),
        }
    };
    read().map_err(|why| SettingError { key, why })
}

fn bytes(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

/// Far more than any key has.
const MAX_SECRET: usize = 4096;
