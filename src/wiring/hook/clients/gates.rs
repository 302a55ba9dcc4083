//! Permits of `http.get`, by client prefix and by server.

use std::net::IpAddr;

use http::Uri;
use http::uri::{Authority, Scheme};
use sekisho_certs::Prefix;
use sekisho_gate::{Denied, Gate, Permit, Sharing};

/// Bounds on the requests of one client prefix and to one server. Each is less than
/// all requests of the client: the others get through.
pub(super) struct Gates {
    prefixes: Gate<Option<Prefix>>,
    servers: Gate<Server>,
}

type Server = (Option<Scheme>, Option<Authority>);

impl Gates {
    pub(super) fn new() -> Self {
        let of_prefix = Sharing::AtMost(|_| PER_PREFIX);
        let of_server = Sharing::AtMost(|_| PER_SERVER);
        Self {
            prefixes: Gate::new(usize::MAX, of_prefix, WAITING),
            servers: Gate::new(usize::MAX, of_server, WAITING),
        }
    }

    /// Waits for a permit of the client's prefix, then for one of the server. Whoever has
    /// none of the prefix keeps none of the server.
    pub(super) async fn enter(
        &self,
        client: Option<IpAddr>,
        to: &Uri,
    ) -> Result<(Permit<Option<Prefix>>, Permit<Server>), Denied> {
        let prefix = self.prefixes.enter(client.map(Prefix::from)).await?;
        let server = (to.scheme().cloned(), to.authority().cloned());
        Ok((prefix, self.servers.enter(server).await?))
    }
}

/// A quarter of the client's requests.
const PER_PREFIX: usize = 16;
/// Half of them.
const PER_SERVER: usize = 32;
/// The runs that wait are bounded by `[hook] waiting`.
const WAITING: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn enter(gates: &Gates, client: &str, to: &'static str) -> impl Send + use<> {
        let client = client.parse().unwrap();
        let permits = gates.enter(Some(client), &Uri::from_static(to)).await;
        permits.expect("it may wait")
    }

    #[tokio::test(start_paused = true)]
    async fn permits_are_bounded_by_prefix_and_by_server() {
        let gates = Gates::new();
        let soon = Duration::from_millis(1);
        let mut kept = Vec::new();
        for host in 0..PER_PREFIX {
            kept.push(enter(&gates, &format!("192.0.2.{host}"), "https://slow/a").await);
        }
        let more = timeout(soon, enter(&gates, "192.0.2.99", "https://other/")).await;
        assert!(more.is_err(), "the prefix has a quarter");
        for host in 0..PER_SERVER - PER_PREFIX {
            kept.push(enter(&gates, &format!("198.51.{host}.1"), "https://slow/b").await);
        }
        let more = timeout(soon, enter(&gates, "203.0.113.1", "https://slow/c")).await;
        assert!(more.is_err(), "the server has half");
        let other = timeout(soon, enter(&gates, "203.0.113.1", "https://other/")).await;
        assert!(other.is_ok());
        drop((kept, more, other));
        assert_eq!((gates.prefixes.used(), gates.servers.used()), (0, 0));
    }
}
