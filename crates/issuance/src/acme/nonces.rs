//! Nonces of a CA (RFC 8555, section 6.5). Each answer brings one, which any later
//! request of any account may use once.

use std::sync::Mutex;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sekisho_certs::lock;
use tokio::time::{Instant, sleep_until};

/// Pool of nonces that answers have brought.
///
/// Orders in a burst would ask for a nonce each: Let's Encrypt answers 20 such requests
/// per second and address, 10 of them at once, and refuses the others with 503.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    kept: Mutex<Vec<(Instant, HeaderValue)>>,
    /// Time of the next request for a new one.
    next_turn: Mutex<Option<Instant>>,
}

impl Nonces {
    /// Takes the nonce out of an answer: instant-acme would keep it for itself, and a
    /// nonce in two places is used twice.
    pub(super) fn put(&self, fields: &mut HeaderMap) {
        let Some(nonce) = fields.remove(&REPLAY_NONCE) else {
            return;
        };
        let mut kept = lock(&self.kept);
        if kept.len() == MOST {
            kept.remove(0);
        }
        kept.push((Instant::now(), nonce));
    }

    /// Returns a nonce; none once the CA may be asked for a new one. The answer of another
    /// request may bring one before that.
    pub(super) async fn next(&self) -> Option<HeaderValue> {
        if let Some(nonce) = self.take() {
            return Some(nonce);
        }
        self.turn().await;
        self.take()
    }

    /// Returns the newest nonce; none if all are too old. CAs forget the oldest first.
    fn take(&self) -> Option<HeaderValue> {
        let mut kept = lock(&self.kept);
        match kept.pop() {
            Some((at, nonce)) if at.elapsed() < AGE => Some(nonce),
            _ => {
                kept.clear();
                None
            }
        }
    }

    /// Drops all: the CA has forgotten one, and older ones with it.
    pub(super) fn forget(&self) {
        let mut kept = lock(&self.kept);
        kept.clear();
    }

    /// Waits until the CA may be asked for a new one.
    async fn turn(&self) {
        let now = Instant::now();
        let turn = {
            let mut next = lock(&self.next_turn);
            let turn = next.map_or(now, |next| next.max(now));
            *next = Some(turn + SPACING);
            turn
        };
        sleep_until(turn).await;
    }
}

pub(super) const REPLAY_NONCE: HeaderName = HeaderName::from_static("replay-nonce");
/// Nonces that are kept: one for each of twice the default orders in flight.
const MOST: usize = 128;
/// CAs keep nonces for minutes; a forgotten one costs a request.
const AGE: Duration = Duration::from_secs(60);
/// Half of what Let's Encrypt allows an address: two servers may share one.
const SPACING: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(nonce: usize) -> HeaderMap {
        let value = HeaderValue::from_str(&nonce.to_string()).unwrap();
        HeaderMap::from_iter([(REPLAY_NONCE, value)])
    }

    #[tokio::test(start_paused = true)]
    async fn nonces_are_used_once_the_newest_first_while_they_are_fresh() {
        let nonces = Nonces::default();
        for nonce in 0..=MOST {
            let mut fields = answer(nonce);
            nonces.put(&mut fields);
            assert!(fields.is_empty(), "nobody else uses it");
        }
        let taken: Vec<_> = std::iter::from_fn(|| nonces.take()).collect();
        assert_eq!((taken.len(), &taken[0]), (MOST, &HeaderValue::from(MOST)));
        nonces.put(&mut answer(7));
        tokio::time::advance(AGE).await;
        assert_eq!(nonces.take(), None);
        nonces.put(&mut answer(8));
        nonces.forget();
        assert_eq!(nonces.take(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_asks_for_ten_a_second() {
        let (nonces, begun) = (Nonces::default(), Instant::now());
        let turns = (0..48).map(|_| nonces.turn());
        futures_util::future::join_all(turns).await;
        assert_eq!(begun.elapsed(), SPACING * 47);
    }
}
