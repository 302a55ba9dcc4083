//! Error of binding an address, with a hint.

use std::io::ErrorKind;

use anyhow::anyhow;
use sekisho_server::Error;

/// Adds a hint to the error of binding a low port.
pub(super) fn with_hint(error: Error) -> anyhow::Error {
    match &error {
        Error::Bind { address, source }
            if source.kind() == ErrorKind::PermissionDenied && address.port() < FIRST_FREE_PORT =>
        {
            anyhow!(
                "{error}; a port below {FIRST_FREE_PORT} needs root or CAP_NET_BIND_SERVICE: \
                 AmbientCapabilities= in a systemd unit, or 'setcap cap_net_bind_service=+ep' on \
                 the binary; or listen on another port, such as 8443"
            )
        }
        _ => error.into(),
    }
}

/// First port for all users, unless `net.ipv4.ip_unprivileged_port_start` is
/// changed.
const FIRST_FREE_PORT: u16 = 1024;

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_port_that_needs_root_says_what_to_do() {
        let describe = |address: &str, kind: ErrorKind| {
            let address = address.parse().expect("an address");
            let source = io::Error::from(kind);
            with_hint(Error::Bind { address, source }).to_string()
        };
        let denied = describe("0.0.0.0:443", ErrorKind::PermissionDenied);
        assert!(denied.contains("0.0.0.0:443") && denied.contains("CAP_NET_BIND_SERVICE"));
        for (address, kind) in [
            ("0.0.0.0:443", ErrorKind::AddrInUse),
            ("0.0.0.0:8443", ErrorKind::PermissionDenied),
        ] {
            assert!(!describe(address, kind).contains("CAP_NET_BIND_SERVICE"));
        }
    }
}
