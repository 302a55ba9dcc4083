//! Metrics of a sekisho server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Scrape of `/metrics`.
pub struct Metrics(String);

impl Metrics {
    pub async fn read(admin: SocketAddr) -> Result<Self> {
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

    pub fn value(&self, name: &str) -> Result<f64> {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("there is no metric {name}"))?;
        Ok(value.trim().parse()?)
    }

    /// Returns the lookups that the Redis cache answered, and all that it
    /// received.
    pub fn redis_cache_reads(&self) -> Result<(f64, f64)> {
        let value =
            |outcome: &str| self.value(&format!("{REDIS_CACHE_READS}{{outcome=\"{outcome}\"}}"));
        let hits = value("hit")?;
        Ok((hits, hits + value("miss")? + value("passed_over")?))
    }

    /// Returns the lookups that the memory cache answered with a record, and all that found
    /// or awaited one.
    pub fn cache_lookups(&self) -> Result<(f64, f64)> {
        let hits = self.value("sekisho_cache_hits_total")?;
        let joined = self.value("sekisho_cache_joined_total")?;
        let loaded = self.value("sekisho_loads_total{outcome=\"found\"}")?;
        Ok((hits, hits + joined + loaded))
    }

    /// Returns the bytes that a cached record is charged with, on average.
    pub fn record_weight(&self) -> Result<f64> {
        let records = self.value("sekisho_cache_records")?;
        Ok(self.value("sekisho_cache_bytes")? / records.max(1.0))
    }

    /// Returns the reads of the catalog for challenges.
    pub fn challenge_reads(&self) -> Result<f64> {
        let reads = ["absent", "failed", "found"].map(|outcome| {
            self.value(&format!(
                "sekisho_challenge_reads_total{{outcome=\"{outcome}\"}}"
            ))
        });
        reads.into_iter().sum()
    }

    /// Returns the number of store calls, and the seconds that they took
    /// together.
    pub fn store_calls(&self) -> Result<(f64, f64)> {
        Ok((
            self.value("sekisho_store_call_seconds_count")?,
            self.value("sekisho_store_call_seconds_sum")?,
        ))
    }
}

const REDIS_CACHE_READS: &str = "sekisho_redis_cache_reads_total";
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
    fn reads_of_the_redis_cache_are_found_by_outcome() {
        let outcomes = [("hit", 5), ("miss", 2), ("passed_over", 1)];
        let lines = outcomes
            .map(|(outcome, n)| format!("{REDIS_CACHE_READS}{{outcome=\"{outcome}\"}} {n}\n"));
        assert_eq!(
            Metrics(lines.concat()).redis_cache_reads().unwrap(),
            (5.0, 8.0)
        );
        assert!(Metrics(String::new()).redis_cache_reads().is_err());
    }

    #[test]
    fn all_lookups_of_a_record_are_counted() {
        let text = "sekisho_cache_hits_total 5\nsekisho_cache_joined_total 1\n\
                    sekisho_loads_total{outcome=\"found\"} 2\n\
                    sekisho_loads_total{outcome=\"absent\"} 9\n";
        let lookups = Metrics(text.to_owned()).cache_lookups().unwrap();
        assert_eq!(lookups, (5.0, 8.0));
    }
}
