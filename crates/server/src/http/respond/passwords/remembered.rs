//! Pairs of user and password that were right within the last minute. bcrypt takes 100 ms,
//! and each request carries its pair.

use std::hash::BuildHasher;
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use foldhash::quality::RandomState;
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use sekisho_certs::Tenant;
use tokio::time::Instant;

use super::credentials::Credentials;
use crate::site::PasswordHash;

/// Table of pairs, which holds no password: its keys are sums under a key of this process.
///
/// Tenants lie in groups, each with a part of the table of its own. One whose users come
/// in thousands evicts pairs of its group alone, of which those in use are evicted last.
#[derive(Debug)]
pub(super) struct Remembered {
    key: hmac::Key,
    groups: Box<[Group]>,
    hasher: RandomState,
}

/// Pairs with the time of their verification.
type Group = Cache<Tag, Instant, UnitWeighter, RandomState>;

/// Sum over a tenant, the text of a stored hash, a user and a password.
pub(super) type Tag = [u8; 32];

impl Remembered {
    pub(super) fn new() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let hasher = RandomState::default();
        let group = |_| {
            let lifecycle = DefaultLifecycle::default();
            Cache::with(FIRST, MOST, UnitWeighter, hasher.clone(), lifecycle)
        };
        Self {
            key: key.expect("the system has random bytes"),
            groups: (0..GROUPS).map(group).collect(),
            hasher,
        }
    }

    /// Computes the tag of a pair. The stored hash is part of it: with another one, as
    /// after a change of the record, the pair is not remembered.
    pub(super) fn tag(
        &self,
        tenant: &Tenant,
        hash: &PasswordHash,
        credentials: &Credentials,
    ) -> Tag {
        let mut sum = hmac::Context::with_key(&self.key);
        for part in [tenant.as_str(), hash.as_str()] {
            sum.update(&(part.len() as u64).to_le_bytes());
            sum.update(part.as_bytes());
        }
        sum.update(credentials.pair());
        let mut tag = Tag::default();
        tag.copy_from_slice(sum.sign().as_ref());
        tag
    }

    /// Returns whether a pair was right within the last minute.
    pub(super) fn holds(&self, tenant: &Tenant, tag: &Tag) -> bool {
        let group = self.group(tenant);
        let Some(verified) = group.get(tag) else {
            return false;
        };
        let is_fresh = verified.elapsed() < LIFE;
        if !is_fresh {
            group.remove_if(tag, |found| *found == verified);
        }
        is_fresh
    }

    /// Remembers a pair that is right.
    pub(super) fn add(&self, tenant: &Tenant, tag: Tag) {
        self.group(tenant).insert(tag, Instant::now());
    }

    /// Awaits `verify`, or another caller's of the same pair, and remembers the pair if
    /// the password is right. If it is wrong or the other caller has left, the next
    /// caller begins.
    pub(super) async fn share<E>(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        verify: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let verified = async { verify.await.map(|()| Instant::now()) };
        let shared = self.group(tenant).get_or_insert_async(tag, verified);
        shared.await.map(|_| ())
    }

    fn group(&self, tenant: &Tenant) -> &Group {
        let index = self.hasher.hash_one(tenant) % GROUPS as u64;
        &self.groups[usize::try_from(index).expect("below GROUPS")]
    }
}

/// How long a pair passes without its hash.
const LIFE: Duration = Duration::from_secs(60);
const GROUPS: usize = 64;
/// Pairs of one group: all groups together hold 131,072, some 10 MB.
const MOST: u64 = 2048;
/// Pairs of one group that memory is taken for at the start: so few that it has one lock.
const FIRST: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).unwrap()
    }

    fn credentials() -> Credentials {
        let value = HeaderValue::from_static("Basic YTpi");
        Credentials::of(&HeaderMap::from_iter([(AUTHORIZATION, value)])).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pair_is_remembered_for_a_minute() {
        let (remembered, anna) = (Remembered::new(), tenant("anna"));
        let right = || async { Ok::<_, ()>(()) };
        let tag = Tag::default();
        assert!(!remembered.holds(&anna, &tag));
        remembered.share(&anna, &tag, right()).await.unwrap();
        tokio::time::advance(LIFE - Duration::from_millis(1)).await;
        assert!(remembered.holds(&anna, &tag));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!remembered.holds(&anna, &tag));
        let wrong = || async { Err::<(), _>("wrong") };
        assert_eq!(remembered.share(&anna, &tag, wrong()).await, Err("wrong"));
        assert!(!remembered.holds(&anna, &tag));
    }

    #[tokio::test]
    async fn callers_with_one_pair_share_its_verification() {
        let (remembered, anna) = (Remembered::new(), tenant("anna"));
        let calls = AtomicUsize::new(0);
        let verify = || async {
            calls.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, ()>(())
        };
        let tag = Tag::default();
        let all = (0..50).map(|_| remembered.share(&anna, &tag, verify()));
        let all = futures_util::future::join_all(all).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(calls.into_inner(), 1);
    }

    #[test]
    fn a_tag_is_of_one_tenant_one_hash_and_one_process() {
        let [sha, other] = [
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=",
        ]
        .map(|text| PasswordHash::parse(text).unwrap());
        let (remembered, pair) = (Remembered::new(), credentials());
        let tag = remembered.tag(&tenant("anna"), &sha, &pair);
        assert_eq!(tag, remembered.tag(&tenant("anna"), &sha, &pair));
        assert_ne!(tag, remembered.tag(&tenant("ann"), &sha, &pair));
        assert_ne!(tag, remembered.tag(&tenant("anna"), &other, &pair));
        assert_ne!(tag, Remembered::new().tag(&tenant("anna"), &sha, &pair));
    }

    #[tokio::test]
    async fn a_tenant_evicts_few_others() {
        let remembered = Remembered::new();
        let right = || async { Ok::<_, ()>(()) };
        let names: Vec<Tenant> = (0..640)
            .map(|number| tenant(&format!("t{number}")))
            .collect();
        let tag = Tag::default();
        for name in &names {
            remembered.share(name, &tag, right()).await.unwrap();
        }
        for number in 0..100_000_u64 {
            let mut tag = [1; 32];
            tag[..8].copy_from_slice(&number.to_le_bytes());
            remembered.share(&names[0], &tag, right()).await.unwrap();
        }
        // 10 are expected to lie in its group.
        let left = names
            .iter()
            .filter(|name| remembered.holds(name, &tag))
            .count();
        assert!(left > 600, "{left}");
        assert!(remembered.group(&names[0]).len() <= 2048);
    }
}
