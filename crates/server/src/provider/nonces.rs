//! Random numbers that a handshake sends to its client.

use std::cell::RefCell;

use aws_lc_rs::rand;
use rustls::crypto::{GetRandomFailed, SecureRandom};

/// Source of what rustls draws in a handshake itself: the server's random, session IDs,
/// nonces and age masks of tickets (RFC 8446, sections 4.1.3 and 4.6.1). The client gets all
/// of them. They must not repeat, but hide nothing: a batch may wait in memory. A clone of a
/// virtual machine repeats the rest of a batch, beside keys of its own.
///
/// Secrets never come from here. aws-lc draws them itself, with four locks of the process for
/// each call, which all workers share.
#[derive(Debug)]
pub(super) struct Nonces;

impl SecureRandom for Nonces {
    fn fill(&self, into: &mut [u8]) -> Result<(), GetRandomFailed> {
        BATCH.with_borrow_mut(|batch| batch.fill(into))
    }
}

/// Random bytes of a thread. Those before `used` were handed out.
struct Batch {
    bytes: [u8; BATCH_SIZE],
    used: usize,
}

impl Batch {
    fn fill(&mut self, into: &mut [u8]) -> Result<(), GetRandomFailed> {
        if into.len() > BATCH_SIZE {
            return rand::fill(into).map_err(|_| GetRandomFailed);
        }
        if self.used + into.len() > BATCH_SIZE {
            // Until the batch is whole, none of it may be handed out.
            self.used = BATCH_SIZE;
            rand::fill(&mut self.bytes).map_err(|_| GetRandomFailed)?;
            self.used = 0;
        }
        let end = self.used + into.len();
        into.copy_from_slice(&self.bytes[self.used..end]);
        self.used = end;
        Ok(())
    }
}

thread_local! {
    static BATCH: RefCell<Batch> = const {
        RefCell::new(Batch {
            bytes: [0; BATCH_SIZE],
            used: BATCH_SIZE,
        })
    };
}

/// Bytes for some ten handshakes: each draws 104, a resumed one 68.
const BATCH_SIZE: usize = 1024;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn drawn<const N: usize>() -> [u8; N] {
        let mut bytes = [0; N];
        Nonces.fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn no_random_is_handed_out_twice() {
        let here: HashSet<[u8; 32]> = (0..1000).map(|_| drawn()).collect();
        assert_eq!(here.len(), 1000);
        let elsewhere = std::thread::spawn(|| (0..1000).map(|_| drawn()).collect());
        let elsewhere: HashSet<[u8; 32]> = elsewhere.join().unwrap();
        assert!(here.is_disjoint(&elsewhere) && elsewhere.len() == 1000);
    }

    #[test]
    fn every_byte_is_drawn() {
        for _ in 0..100 {
            // A run of 16 zeros has a chance of 2^-128.
            let long = drawn::<{ BATCH_SIZE + 1 }>();
            let odd = drawn::<{ BATCH_SIZE - 3 }>();
            for bytes in [&long[..], &odd] {
                assert!(!bytes.windows(16).any(|run| run == [0; 16]));
            }
        }
    }
}
