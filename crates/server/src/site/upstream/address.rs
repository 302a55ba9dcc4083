//! Addresses of upstream servers, with their placeholders.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use sekisho_certs::HostName;

/// Address of an upstream server. A site's may hold `{tenant}` and `{host}`, which are
/// replaced before it is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// A host with a port.
    Tcp {
        /// Name in lower case without a dot at its end, or the canonical text
        /// of an IP address. IPv6 addresses have no brackets.
        host: Box<str>,
        /// Port, never 0.
        port: u16,
    },
    /// A Unix socket, by its absolute path without `.` and `..`.
    Unix(Box<Path>),
}

impl Address {
    /// Returns the host or path.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            // Documents are UTF-8.
            Self::Unix(path) => path.to_str().unwrap_or_default(),
        }
    }

    /// Returns whether a name is that of the socket or of its folder, or the first part of
    /// the host.
    pub(in crate::site) fn is_named_by(&self, name: &str) -> bool {
        match self {
            Self::Tcp { host, .. } => host.split('.').next() == Some(&*name.to_ascii_lowercase()),
            Self::Unix(path) => {
                let folder = path.parent().and_then(Path::file_name);
                let is_named = |part: Option<&OsStr>| part == Some(OsStr::new(name));
                is_named(path.file_stem()) || is_named(path.file_name()) || is_named(folder)
            }
        }
    }

    /// Replaces a placeholder by a name that is one plain segment of a path. None if the
    /// result is no host.
    pub(super) fn fill(&self, placeholder: &str, value: &str) -> Option<Self> {
        let text = self.text().replace(placeholder, value);
        Some(match self {
            Self::Unix(_) => Self::Unix(Path::new(&text).into()),
            Self::Tcp { port, .. } => Self::Tcp {
                host: host_text(&text)?,
                port: *port,
            },
        })
    }
}

/// Returns the one text of a host: the canonical one of an IP address, or a name in lower
/// case. None if it is neither. Some resolvers take names like `0x7f.1` for addresses.
pub(in crate::site) fn host_text(host: &str) -> Option<Box<str>> {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => Some(host.into()),
        Ok(address) => Some(address.to_canonical().to_string().into()),
        Err(_) => {
            let name = HostName::parse(host).ok()?;
            let last = name.as_str().rsplit('.').next()?;
            let hex = last.strip_prefix("0x");
            let is_number =
                hex.is_some_and(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
            (!is_number).then(|| name.as_str().into())
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.parse::<Ipv6Addr>().is_ok() => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_is_written() {
        let tcp = |host: &str| Address::Tcp {
            host: host.into(),
            port: 80,
        };
        assert_eq!(tcp("a.example").to_string(), "a.example:80");
        assert_eq!(tcp("127.0.0.1").to_string(), "127.0.0.1:80");
        assert_eq!(tcp("::1").to_string(), "[::1]:80");
        let unix = Address::Unix(Path::new("/run/a.sock").into());
        assert_eq!(unix.to_string(), "unix:/run/a.sock");
    }
}
