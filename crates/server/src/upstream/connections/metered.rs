//! Records of TLS that an upstream sends, which are charged.
//!
//! rustls reads messages of its own, such as tickets, without showing a byte of
//! plaintext: hyper would not see a server that sends them for ever, not even on an
//! unused connection.

use std::time::Duration;

use sekisho_certs::clock;
use tokio::time::Instant;

use crate::tls::frames::{Budget, OF_RECORDS};

/// Budget of records: each costs tokens, and plaintext returns them.
#[derive(Debug)]
pub(in crate::upstream) struct Records {
    budget: Budget,
    pub(in crate::upstream) begun: Instant,
    head: [u8; HEAD],
    /// Bytes of the head that have arrived.
    have: usize,
    /// Bytes to skip before the next head.
    skip: usize,
}

impl Records {
    pub(in crate::upstream) fn new() -> Self {
        Self {
            budget: Budget::new(&OF_RECORDS),
            begun: clock::monotonic(),
            head: [0; HEAD],
            have: 0,
            skip: 0,
        }
    }

    /// A record with plaintext costs nothing: one token at most for each byte of it.
    pub(in crate::upstream) fn opened(&mut self, bytes: usize) {
        self.budget.give(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Charges received bytes. Returns false once the budget is spent. `now` is measured
    /// since the connection began.
    pub(in crate::upstream) fn received(
        &mut self,
        mut bytes: &[u8],
        now: impl Fn() -> Duration,
    ) -> bool {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEAD - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEAD {
                let length = u16::from_be_bytes([self.head[3], self.head[4]]);
                (self.have, self.skip) = (0, length.into());
                self.budget.charge(1 + u32::from(length) / COSTLY, &now);
            }
        }
        !self.budget.is_spent()
    }
}

/// Bytes of a record's head (RFC 8446, section 5.1).
const HEAD: usize = 5;
/// Bytes of a record that cost a token more: a record may hold 200 tickets. Servers
/// that pad each event to 16 KiB may still send six per second.
const COSTLY: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a record of application data, as all are after the handshake.
    fn record(length: u16) -> Vec<u8> {
        let mut record = vec![23, 3, 3];
        record.extend(length.to_be_bytes());
        record.resize(HEAD + usize::from(length), 7);
        record
    }

    /// Returns how many of these records are taken within a second.
    fn taken(length: u16, plain: usize, cut: usize) -> usize {
        let mut records = Records::new();
        let all = (0..10_000).take_while(|_| {
            let record = record(length);
            let mut pieces = record.chunks(cut);
            let taken = pieces.all(|piece| records.received(piece, || Duration::from_secs(1)));
            records.opened(plain);
            taken
        });
        all.count()
    }

    #[test]
    fn records_without_plaintext_are_bounded() {
        for cut in [1, 7, usize::MAX] {
            assert_eq!(taken(60, 0, cut), 256 + 100);
            assert_eq!(taken(16_384, 0, cut), (256 + 100) / 17);
            // One byte in each is enough.
            assert_eq!(taken(18, 1, cut), 10_000);
            assert_eq!(taken(16_401, 16_384, cut), 10_000);
        }
    }

    #[test]
    fn a_second_returns_as_many_as_a_server_may_send_in_it() {
        let mut records = Records::new();
        for second in 1..1000 {
            let now = || Duration::from_secs(second);
            assert!((0..100).all(|_| records.received(&record(60), now)));
        }
    }
}
