//! Answers that are remembered, in a bounded number of bytes: those with an
//! entity tag, so that a bundle need not be sent again, and those for a wildcard
//! with a time, so that each name below it need not ask. All others are in the
//! cache before this store alone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use http::HeaderValue;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::freshness::Freshness;
use sekisho_certs::cache::bounded;
use sekisho_certs::credential::StoredCredential;
use sekisho_certs::host::HostPattern;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, Found};

/// Scan-resistant (S3-FIFO), as the cache before it: names that are asked for
/// once push nothing out.
pub(super) struct Memory(Cache<HostPattern, Arc<Kept>, ByWeight, RandomState>);

/// An answer that is remembered.
pub(super) struct Kept {
    /// The host; none if it is absent.
    found: Option<Box<Found<OpenKey>>>,
    pub(super) etag: Option<HeaderValue>,
    /// How long the answer holds by its own fields, and since when.
    time: Option<Duration>,
    since: Instant,
}

/// A bundle's record, its tag and its time.
type Parts = (Option<Box<Found<OpenKey>>>, Option<HeaderValue>, Freshness);

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        Self(bounded(ByWeight, bytes, USUAL, 1))
    }

    pub(super) fn get(&self, host: &HostPattern) -> Option<Arc<Kept>> {
        self.0.get(host)
    }

    pub(super) fn forget(&self, host: &HostPattern) {
        self.0.remove(host);
    }

    /// Gives an answer, and remembers it if that can save anything: a bundle with a
    /// tag, or a wildcard's answer, also its absence, for as long as it says. The cache
    /// before this store remembers all others.
    pub(super) fn keep(
        &self,
        host: &HostPattern,
        found: Option<Box<Found<OpenKey>>>,
        etag: Option<HeaderValue>,
        freshness: Freshness,
    ) -> Answer<OpenKey> {
        let kept = Kept {
            found,
            etag,
            time: freshness.time,
            since: Instant::now(),
        };
        let answer = kept.answer(kept.time);
        let holds = kept.time.is_some_and(|time| !time.is_zero());
        let saves = kept.etag.is_some() || holds && host.wildcard_parent().is_some();
        if saves && !freshness.no_store {
            self.0.insert(host.clone(), Arc::new(kept));
        } else {
            self.0.remove(host);
        }
        answer
    }
}

impl Kept {
    /// The answer, while it holds without being asked for.
    pub(super) fn fresh(&self) -> Option<Answer<OpenKey>> {
        let left = self.time?.checked_sub(self.since.elapsed())?;
        (!left.is_zero()).then(|| self.answer(Some(left)))
    }

    /// The parts of the answer after a 304, which holds for its own time or else for
    /// the time of before (RFC 9111, section 4.3.4).
    pub(super) fn renewed(&self, freshness: Freshness) -> Parts {
        let freshness = Freshness {
            time: freshness.time.or(self.time),
            ..freshness
        };
        (self.found.clone(), self.etag.clone(), freshness)
    }

    fn answer(&self, fresh_for: Option<Duration>) -> Answer<OpenKey> {
        let Some(found) = &self.found else {
            return Answer::absent();
        };
        let mut found = found.clone();
        found.fresh_for = fresh_for;
        Answer::found(found)
    }

    fn weight(&self) -> usize {
        let found = self.found.as_ref().map_or(0, |found| {
            let of = |stored: &StoredCredential<OpenKey>| {
                let key = stored.key.secret().expose().len();
                let chain = stored.chain.iter();
                key + chain.map(|der| der.len() + PER_PART).sum::<usize>()
            };
            found.credentials.iter().map(of).sum()
        });
        PER_ENTRY + found + self.etag.as_ref().map_or(0, HeaderValue::len)
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

impl Weighter<HostPattern, Arc<Kept>> for ByWeight {
    fn weight(&self, host: &HostPattern, kept: &Arc<Kept>) -> u64 {
        (host.as_str().len() * 2 + kept.weight()) as u64
    }
}

/// A chain of two with an ECDSA key.
const USUAL: usize = 4096;
/// Bytes that hold an answer together: map, records, allocations.
const PER_ENTRY: usize = 600;
/// A certificate's own allocation.
const PER_PART: usize = 48;

#[cfg(test)]
mod tests {
    use rustls_pki_types::CertificateDer;

    use super::*;
    use sekisho_certs::credential::{CredentialId, KeyType};
    use sekisho_certs::record::HostRecord;
    use sekisho_testkit::contract::fixture::{certificate, plain};

    fn host(name: &str) -> HostPattern {
        HostPattern::parse(name).unwrap()
    }

    fn found(name: &str, chain: Vec<CertificateDer<'static>>) -> Found<OpenKey> {
        let stored = StoredCredential {
            id: CredentialId::from_u64(1),
            version: 1,
            key_type: KeyType::Ecdsa,
            chain,
            key: OpenKey::unproved(plain(&[7; 138])),
            not_before: 0,
            not_after: i64::MAX,
            origin: None,
        };
        Found {
            record: HostRecord::new(host(name)),
            credentials: vec![stored],
            shadowed: true,
            fresh_for: None,
        }
    }

    fn lasts(seconds: u64) -> Freshness {
        Freshness {
            time: Some(Duration::from_secs(seconds)),
            no_store: false,
        }
    }

    fn keep(memory: &Memory, found: Found<OpenKey>, freshness: Freshness) {
        let host = found.record.pattern.clone();
        let tag = HeaderValue::from_static("\"one\"");
        memory.keep(&host, Some(Box::new(found)), Some(tag), freshness);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_until_its_time_is_over() {
        let memory = Memory::new(1 << 20);
        let name = host("a.example");
        keep(&memory, found("a.example", vec![certificate(1)]), lasts(60));
        tokio::time::advance(Duration::from_secs(20)).await;
        let kept = memory.get(&name).unwrap();
        let Some(Answer {
            found: Some(there), ..
        }) = kept.fresh()
        else {
            panic!("it holds")
        };
        assert_eq!(there.fresh_for, Some(Duration::from_secs(40)));
        tokio::time::advance(Duration::from_secs(40)).await;
        assert!(kept.fresh().is_none() && kept.etag.is_some());

        // Unchanged without a new time, it holds for as long again.
        let renew = |freshness| {
            let (found, etag, freshness) = kept.renewed(freshness);
            memory.keep(&name, found, etag, freshness)
        };
        renew(Freshness::default());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(memory.get(&name).unwrap().fresh().is_some());
        let Some(now) = renew(lasts(10)).found else {
            panic!("it was found")
        };
        assert_eq!(now.fresh_for, Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(memory.get(&name).unwrap().fresh().is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let memory = Memory::new(256 << 10);
        let chain = || vec![vec![9; 2000].into(), vec![9; 1000].into()];
        for number in 0..1000 {
            keep(
                &memory,
                found(&format!("h{number}.example"), chain()),
                lasts(0),
            );
        }
        assert!(memory.0.weight() <= 256 << 10, "{memory:?}");
        assert!(memory.0.len() > 40, "{memory:?}");
        let larger = vec![vec![9; 300 << 10].into()];
        keep(&memory, found("large.example", larger), lasts(0));
        assert!(memory.get(&host("large.example")).is_none());
    }
}
