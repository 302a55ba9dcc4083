//! Answers that are remembered, each until its end, in a bounded number of bytes.

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sekisho_certs::cache::bounded;
use sekisho_certs::{HostPattern, Tenant};
use tokio::time::Instant;

use super::caa::Issuers;
use super::decision::No;

/// Scan-resistant cache (S3-FIFO) with singleflight: a pattern is examined once at
/// a time.
pub(super) struct Memory(Cache<HostPattern, Arc<Remembered>, ByWeight, RandomState>);

/// Answer of the network about a pattern, and its end.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) answer: Result<Granted, No>,
    pub(super) ends: Instant,
}

/// Answer of a pattern that all conditions allow.
#[derive(Debug)]
pub(super) struct Granted {
    /// Tenant that the ask URL named.
    pub(super) tenant: Option<Tenant>,
    pub(super) issuers: Issuers,
}

impl Memory {
    /// Makes a memory that holds at most this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(bounded(ByWeight, bytes, USUAL, 1))
    }

    /// Returns the answer that is remembered, else examines the pattern. A caller
    /// that goes away leaves the examination to the next one.
    pub(super) async fn answer(
        &self,
        pattern: &HostPattern,
        examine: impl AsyncFnOnce() -> Result<Granted, No>,
    ) -> Arc<Remembered> {
        let now = Instant::now();
        self.0.remove_if(pattern, |there| there.ends <= now);
        match self.0.get_value_or_guard_async(pattern).await {
            Ok(there) => there,
            Err(guard) => {
                let answer = examine().await;
                let holds = match &answer {
                    Ok(_) | Err(No::Refused(_)) => DECIDED,
                    Err(No::Failed(_)) => FAILED,
                };
                let ends = Instant::now() + holds;
                let new = Arc::new(Remembered { answer, ends });
                // An error means that the entry was removed meanwhile.
                let _ = guard.insert(Arc::clone(&new));
                new
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("answers", &self.0.len())
            .field("bytes", &self.0.weight())
            .finish()
    }
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<HostPattern, Arc<Remembered>> for ByWeight {
    fn weight(&self, pattern: &HostPattern, remembered: &Arc<Remembered>) -> u64 {
        let text = match &remembered.answer {
            Err(No::Refused(why) | No::Failed(why)) => why.len(),
            Ok(granted) => {
                let tenant = granted.tenant.as_ref().map_or(0, |it| it.as_str().len());
                let issuers = match &granted.issuers {
                    Issuers::Any => 0,
                    Issuers::Only(all) => all.iter().map(|it| it.len() + PER_PART).sum(),
                };
                tenant + issuers
            }
        };
        (PER_ENTRY + pattern.as_str().len() + text) as u64
    }
}

/// A minute after a customer has corrected their DNS, the host works. For a wave
/// of visitors one question a minute is little.
const DECIDED: Duration = Duration::from_secs(60);
/// A server that was down is asked again soon, and not for every handshake.
const FAILED: Duration = Duration::from_secs(10);
/// Bytes of a refusal with a name of common length.
const USUAL: usize = 400;
/// Bytes of the map's slot, the answer and their allocations.
const PER_ENTRY: usize = 250;
/// Bytes of an issuer's own allocation.
const PER_PART: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 256 << 10;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap()
    }

    #[tokio::test]
    async fn ten_thousand_names_do_not_grow_it() {
        let memory = Memory::new(BYTES);
        for number in 0..10_000 {
            let name = pattern(&format!("{number}.{}.example", "a".repeat(60)));
            let long = "b".repeat(200);
            memory
                .answer(&name, async || Err(No::Refused(long.into())))
                .await;
        }
        assert!(memory.0.weight() <= BYTES as u64, "{memory:?}");
        assert!(memory.0.len() > 300, "{memory:?}");
        // A zone with 60 KiB of CAA records.
        let issuers = (0..1000).map(|_| "c".repeat(60).into()).collect();
        let granted = Granted {
            tenant: None,
            issuers: Issuers::Only(issuers),
        };
        let name = pattern("large.example");
        memory.answer(&name, async || Ok(granted)).await;
        assert!(memory.0.weight() <= BYTES as u64, "{memory:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pattern_is_examined_once_at_a_time() {
        let memory = Memory::new(BYTES);
        let name = pattern("*.example.com");
        let slow = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(No::Refused("first".into()))
        };
        let not_called = async || -> Result<Granted, No> { panic!("a second examination") };
        let (first, second) =
            tokio::join!(memory.answer(&name, slow), memory.answer(&name, not_called));
        assert!(Arc::ptr_eq(&first, &second));
        // A caller that goes away leaves it to the next.
        let other = pattern("b.example");
        let hangs = memory.answer(&other, std::future::pending);
        assert!(tokio::time::timeout(FAILED, hangs).await.is_err());
        let next = memory
            .answer(&other, async || Err(No::Failed("down".into())))
            .await;
        assert!(matches!(next.answer, Err(No::Failed(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_forgotten_before_a_refusal() {
        let memory = Memory::new(BYTES);
        let (refused, failed) = (pattern("a.example"), pattern("b.example"));
        let ask = async |name: &HostPattern, no: No| {
            let remembered = memory.answer(name, async || Err(no)).await;
            match remembered.answer.as_ref().unwrap_err() {
                No::Refused(why) | No::Failed(why) => why.to_string(),
            }
        };
        assert_eq!(ask(&refused, No::Refused("1".into())).await, "1");
        assert_eq!(ask(&failed, No::Failed("1".into())).await, "1");
        tokio::time::advance(FAILED).await;
        assert_eq!(ask(&refused, No::Refused("2".into())).await, "1");
        assert_eq!(ask(&failed, No::Failed("2".into())).await, "2");
        tokio::time::advance(DECIDED - FAILED).await;
        assert_eq!(ask(&refused, No::Refused("2".into())).await, "2");
    }
}
