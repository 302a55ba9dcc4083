//! Checks `[listen]` and `[default]`.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;

use sekisho_certs::HostName;
use sekisho_server::Defaults;
use sekisho_server::admin::Address;
use sekisho_server::network::Network;
use sekisho_stores::url::path_below;

use super::Listen;
use super::keys::key;
use super::locate::Problem;
use super::problems::Problems;
use super::raw::RawListen;
use super::secret::SecretSource;

/// Checks `[listen]`.
pub(super) fn check(raw: &RawListen, base: &Path, problems: &mut Problems) -> Listen {
    let https: Vec<_> = problems.list("listen", "https", &raw.https, address);
    if raw.https.is_empty() {
        let text = "is missing; write https = [\"0.0.0.0:443\", \"[::]:443\"]";
        problems.add_missing(&["listen", "https"], text);
    }
    let http: Vec<_> = problems.list("listen", "http", &raw.http, address);
    let plain = raw.plain == Some(true);
    if plain && raw.http.is_empty() {
        let text = "is of use with http alone; write http = [\"0.0.0.0:80\"]";
        let problem = Problem::at(&["listen", "plain"], text);
        problems.add_lack(&["listen", "http"], problem);
    }
    let token = ["listen", "admin_token"];
    let admin_token = problems.parsed(&token, raw.admin_token.as_ref(), |text| {
        SecretSource::parse(text, base)
    });
    let admin = problems.parsed(&["listen", "admin"], raw.admin.as_ref(), |text| {
        admin(text, base)
    });
    if raw.admin_token.is_none() {
        open_admin(admin.as_ref(), problems);
    }
    distinct(&https, &http, admin.as_ref(), problems);
    let port = |number| {
        let port = key("listen", "public_port").count(Some(number))?;
        Ok(u16::try_from(port).expect("the range fits"))
    };
    Listen {
        https,
        http,
        plain,
        public_port: problems.or_default(raw.public_port.map(port).transpose()),
        admin,
        admin_token,
        trusted: problems.list("listen", "trusted", &raw.trusted, network),
        proxy: problems.list("listen", "proxy", &raw.proxy, network),
    }
}

/// Checks `[default]`.
pub(super) fn defaults(
    raw: &BTreeMap<String, String>,
    https: &[SocketAddr],
    problems: &mut Problems,
) -> Defaults {
    let mut defaults = Defaults::default();
    for (key, name) in raw {
        let place = ["default", key.as_str()];
        let host = problems.parsed(&place, Some(name), |name| {
            HostName::parse(name).map_err(|error| format!("{name:?} is no host name: {error}"))
        });
        let Some(host) = host else {
            continue;
        };
        if key == "*" {
            defaults.any = Some(host);
            continue;
        }
        let Some(address) = problems.parsed(&place, Some(key), address) else {
            continue;
        };
        if !https.contains(&address) {
            let text =
                format!("{address} does not stand in [listen] https; write one of those, or \"*\"");
            problems.add_lack(&["listen", "https"], Problem::at(&place, text));
        }
        defaults.by_address.insert(address, host);
    }
    defaults
}

/// Refuses an admin listener without a token that others can reach.
fn open_admin(admin: Option<&Address>, problems: &mut Problems) {
    if let Some(Address::Tcp(address)) = admin
        && !address.ip().to_canonical().is_loopback()
    {
        let text = format!(
            "{address} can be reached from elsewhere; use 127.0.0.1, or write \
             admin_token = \"file:PATH\" or \"env:NAME\""
        );
        let problem = Problem::at(&["listen", "admin"], text);
        problems.add_lack(&["listen", "admin_token"], problem);
    }
}

fn network(text: &str) -> Result<Network, String> {
    Network::parse(text).map_err(|error| error.to_string())
}

fn admin(text: &str, base: &Path) -> Result<Address, String> {
    match text.strip_prefix("unix:") {
        Some(path) => Ok(Address::Unix(path_below(base, path)?)),
        None => Ok(Address::Tcp(address(text)?)),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no address with a port; write \"127.0.0.1:8443\" or \"[::1]:8443\"")
    })
}

/// Port 0 means any free port, and therefore may repeat.
fn distinct(
    https: &[SocketAddr],
    http: &[SocketAddr],
    admin: Option<&Address>,
    problems: &mut Problems,
) {
    let mut seen = HashMap::new();
    let https = https.iter().map(|address| ("https", address));
    let http = http.iter().map(|address| ("http", address));
    let admin = admin.and_then(|admin| match admin {
        Address::Tcp(address) => Some(("admin", address)),
        Address::Unix(_) => None,
    });
    for (key, address) in https.chain(http).chain(admin) {
        if address.port() == 0 {
            continue;
        }
        if let Some(first) = seen.insert(*address, key) {
            let text = format!("{address} already stands in {first}; an address can be taken once");
            problems.add(Problem::at(&["listen", key], text));
        }
    }
}
