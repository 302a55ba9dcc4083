//! What sekisho says of itself.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A reading of `/metrics`.
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn read(admin: SocketAddr) -> Result<Self> {
        let read = async {
            let mut stream = TcpStream::connect(admin).await?;
            stream
                .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
                .await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            anyhow::Ok(Self(text))
        };
        timeout(BOUND, read)
            .await
            .context("the metrics do not come")?
    }

    pub(crate) fn value(&self, name: &str) -> Result<f64> {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("there is no metric {name}"))?;
        Ok(value.trim().parse()?)
    }

    /// Lookups that the Redis cache answered, and all that came to it.
    pub(crate) fn redis_cache_reads(&self) -> Result<(f64, f64)> {
        let value = |outcome: &str| {
            let [name, former] =
                REDIS_CACHE_READS.map(|name| format!("{name}{{outcome=\"{outcome}\"}}"));
            self.value(&name).or_else(|_| self.value(&former))
        };
        let hits = value("hit")?;
        Ok((hits, hits + value("miss")? + value("passed_over")?))
    }

    /// Calls of the store, and the seconds that they took all in all.
    pub(crate) fn store_calls(&self) -> Result<(f64, f64)> {
        Ok((
            self.value("sekisho_store_call_seconds_count")?,
            self.value("sekisho_store_call_seconds_sum")?,
        ))
    }
}

/// In this version, and in those before the cache had its name.
const REDIS_CACHE_READS: [&str; 2] = [
    "sekisho_redis_cache_reads_total",
    "sekisho_redis_cache_reads_total",
];
const BOUND: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_name() {
        let metrics = Metrics("# TYPE a counter\na_total 1\na 2.5\n".to_owned());
        assert_eq!(metrics.value("a").unwrap(), 2.5);
        assert!(metrics.value("b").is_err());
    }

    #[test]
    fn reads_of_the_redis_cache_are_found_by_either_name() {
        for name in REDIS_CACHE_READS {
            let outcomes = [("hit", 5), ("miss", 2), ("passed_over", 1)];
            let lines =
                outcomes.map(|(outcome, n)| format!("{name}{{outcome=\"{outcome}\"}} {n}\n"));
            assert_eq!(
                Metrics(lines.concat()).redis_cache_reads().unwrap(),
                (5.0, 8.0)
            );
        }
        assert!(Metrics(String::new()).redis_cache_reads().is_err());
    }
}
