//! Addresses of a name, both of IPv4 and IPv6.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use hickory_proto::rr::{RData, RecordType};
use tokio::time::timeout;

use crate::resolver::{Found, ResolveError, Resolver};

/// Addresses that a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The addresses, those of IPv4 first, at most 32. None if the name has none.
    pub ips: Vec<IpAddr>,
    /// Smallest TTL of the records; zero if there are none.
    pub ttl: Duration,
}

impl Resolver {
    /// Returns the addresses of a name or of the end of its CNAMEs.
    ///
    /// Asks for A and AAAA at once. Once one of them has addresses, the other has
    /// [`OTHER_KIND`] left: some name servers drop questions for AAAA. Without an
    /// answer to the other, the TTL is [`HALF_TTL`] at most.
    ///
    /// # Errors
    /// [`ResolveError`] if there is no address, and an answer is missing.
    pub async fn addresses(&self, name: &str) -> Result<Addresses, ResolveError> {
        let mut v4 = pin!(self.found(name, RecordType::A));
        let mut v6 = pin!(self.found(name, RecordType::AAAA));
        let (v4, v6) = tokio::select! {
            v4 = &mut v4 => { let v6 = other(&v4, v6).await; (v4, v6) }
            v6 = &mut v6 => (other(&v6, v4).await, v6),
        };
        merge(v4, v6)
    }
}

type Half = Result<Found, ResolveError>;

/// Awaits the second answer.
async fn other(first: &Half, second: impl Future<Output = Half>) -> Half {
    match first {
        Ok(found) if !found.data.is_empty() => timeout(OTHER_KIND, second)
            .await
            .unwrap_or_else(|_| Err(ResolveError::NoAnswer("no answer in time".into()))),
        _ => second.await,
    }
}

fn merge(v4: Half, v6: Half) -> Result<Addresses, ResolveError> {
    let halves: Vec<_> = [&v4, &v6].into_iter().flatten().collect();
    let data = halves.iter().flat_map(|half| &half.data);
    let ips: Vec<_> = data.filter_map(RData::ip_addr).take(MAX).collect();
    let ttl = halves.iter().filter(|half| !half.data.is_empty());
    let ttl = ttl.filter_map(|half| half.ttl).min().unwrap_or(0);
    let ttl = Duration::from_secs(ttl.into());
    match (v4, v6) {
        (Ok(_), Ok(_)) => Ok(Addresses { ips, ttl }),
        // The missing half may hold the addresses.
        (Err(why), _) | (_, Err(why)) if ips.is_empty() => Err(why),
        _ => Ok(Addresses {
            ips,
            ttl: ttl.min(HALF_TTL),
        }),
    }
}

/// Most addresses of one name; more would not fit into a datagram's answer.
const MAX: usize = 32;
/// Wait for the second answer, once the first has addresses.
pub const OTHER_KIND: Duration = Duration::from_secs(1);
/// Longest TTL if one of the two questions had no answer.
pub const HALF_TTL: Duration = Duration::from_secs(30);
