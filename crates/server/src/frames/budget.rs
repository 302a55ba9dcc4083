//! Rate limit on HTTP/2 frames.

use std::time::Duration;

use super::parser::{DATA, HEADERS, Head, RST_STREAM};

/// Token bucket of frames: received frames cost tokens, answers and time return
/// them.
///
/// | frame | tokens |
/// | --- | --- |
/// | received: DATA of at least [`FULL`] bytes | 0 |
/// | received: RST_STREAM | -[`RESET`] |
/// | received: any other | -1 |
/// | sent: RST_STREAM, for an error of the client or a limit | -[`RESET`] |
/// | sent: HEADERS, an answer | +[`ANSWER`] |
/// | sent: DATA | +1 for every [`BYTES`] bytes |
/// | each second | +[`RATE`] |
///
/// A client that acknowledges each 4 KiB with two WINDOW_UPDATE frames, as
/// Go's does, never comes near the bound.
pub(super) struct Budget {
    tokens: u32,
    /// Sent bytes that have not earned a token yet.
    bytes: u32,
    /// When elapsed time last returned tokens.
    given: Duration,
    spent: bool,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            tokens: BURST,
            bytes: 0,
            given: Duration::ZERO,
            spent: false,
        }
    }

    pub(super) fn received(&mut self, head: Head, now: Duration) {
        let cost = match head.kind {
            DATA if head.len >= FULL => return,
            RST_STREAM => RESET,
            _ => 1,
        };
        if self.tokens < cost {
            self.elapse(now);
        }
        self.pay(cost);
    }

    pub(super) fn sent(&mut self, head: Head) {
        match head.kind {
            RST_STREAM => self.pay(RESET),
            HEADERS => self.give(ANSWER),
            DATA => {
                self.bytes += head.len;
                self.give(self.bytes / BYTES);
                self.bytes %= BYTES;
            }
            _ => {}
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent
    }

    fn elapse(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.given).as_millis();
        let tokens = elapsed * u128::from(RATE) / 1000;
        if tokens > 0 {
            self.given = now;
            self.give(u32::try_from(tokens).unwrap_or(BURST));
        }
    }

    fn give(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens).min(BURST);
    }

    fn pay(&mut self, cost: u32) {
        self.spent |= self.tokens < cost;
        self.tokens = self.tokens.saturating_sub(cost);
    }
}

/// Frames that a client may send at once: ten times what the busiest browser
/// sends before its first answer.
const BURST: u32 = 2000;

/// Frames per second without any answer; their cost is negligible.
const RATE: u32 = 100;

/// Tokens per answer: a request, its priority, and two window updates.
const ANSWER: u32 = 4;

/// Sent bytes per token: half of what Go's client reads before it updates both
/// windows.
const BYTES: u32 = 2048;

/// Tokens per reset, which wastes work (CVE-2023-44487). A request that is
/// reset after its answer's head costs 5 in all: 400 at once, 20 per second.
const RESET: u32 = 8;

/// DATA frames below this size cost a token: small ones are a flood too
/// (CVE-2019-9518).
const FULL: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u8, len: u32) -> Head {
        Head {
            len,
            kind,
            flags: 0,
            stream: 1,
        }
    }

    const PING: u8 = 6;

    #[test]
    fn a_flood_spends_it_and_time_gives_back() {
        let mut budget = Budget::new();
        for _ in 0..BURST {
            budget.received(head(PING, 8), Duration::ZERO);
        }
        assert!(!budget.is_spent());
        for second in 1..1000 {
            for _ in 0..RATE {
                budget.received(head(PING, 8), Duration::from_secs(second));
            }
        }
        assert!(!budget.is_spent(), "a steady client");
        budget.received(head(PING, 8), Duration::from_secs(999));
        assert!(budget.is_spent());
    }

    #[test]
    fn answers_and_their_bytes_pay_for_what_belongs_to_them() {
        let mut budget = Budget::new();
        for _ in 0..10 * BURST {
            budget.received(head(HEADERS, 40), Duration::ZERO);
            budget.sent(head(HEADERS, 100));
            budget.sent(head(DATA, 16 << 10));
            for _ in 0..8 {
                budget.received(head(8, 4), Duration::ZERO);
            }
            budget.received(head(DATA, FULL), Duration::ZERO);
        }
        assert!(!budget.is_spent());
    }

    #[test]
    fn resets_are_bounded_on_both_sides() {
        for by_client in [true, false] {
            let mut budget = Budget::new();
            let mut cycles = 0;
            while !budget.is_spent() {
                budget.received(head(HEADERS, 40), Duration::ZERO);
                if by_client {
                    budget.sent(head(HEADERS, 100));
                    budget.received(head(RST_STREAM, 4), Duration::ZERO);
                } else {
                    budget.sent(head(RST_STREAM, 4));
                }
                cycles += 1;
            }
            assert!((200..=400).contains(&cycles), "{cycles}");
        }
    }
}
