//! Rate limit on HTTP/2 frames.

use std::time::Duration;

use super::parser::{DATA, HEADERS, Head, RST_STREAM};

/// Token bucket of frames: received frames cost tokens, sent ones and time return them.
#[derive(Debug)]
pub(crate) struct Budget {
    prices: &'static Prices,
    tokens: u32,
    /// Sent bytes that have not earned a token yet.
    bytes: u32,
    /// When elapsed time last returned tokens.
    given: Duration,
    spent: bool,
}

/// Numbers of a budget. Each received frame that this does not name costs a token.
#[derive(Debug)]
pub(crate) struct Prices {
    /// Tokens at the begin.
    begin: u32,
    /// Most tokens.
    burst: u32,
    /// Tokens per second without any frame of ours; their cost is negligible.
    rate: u32,
    /// Received DATA of so many bytes is free.
    full: u32,
    /// Cost of a received RST_STREAM.
    reset: u32,
    /// Cost of a sent RST_STREAM.
    reset_sent: u32,
    /// Tokens per sent HEADERS.
    head: u32,
    /// Tokens per sent DATA frame, besides one for every [`BYTES`] bytes.
    data: u32,
}

/// Prices of what clients send. A client that acknowledges each 4 KiB with two
/// WINDOW_UPDATE frames, as Go's does, never comes near the bound.
pub(super) static OF_CLIENTS: Prices = Prices {
    begin: 2000,
    // Ten times what the busiest browser sends before its first answer.
    burst: 2000,
    rate: 100,
    // Small ones are a flood too (CVE-2019-9518).
    full: 256,
    // A reset wastes work (CVE-2023-44487). A request that is reset after its answer's
    // head costs 5 in all: 400 at once, 20 per second. We reset for an error of the
    // client, or a limit.
    reset: 8,
    reset_sent: 8,
    // A request, its priority, and two window updates.
    head: 4,
    data: 0,
};

/// Prices of what upstream servers send. Small DATA is free: it carries messages of
/// gRPC and events, and each frame waits for a client that takes it.
pub(crate) static OF_UPSTREAMS: Prices = Prices {
    // A server that floods each new connection costs no more than to connect.
    begin: 256,
    burst: 2000,
    rate: 100,
    full: 1,
    // Bounded by the requests. We reset where a client left.
    reset: 1,
    reset_sent: 0,
    // Ten field blocks, two window updates, a PING and a reset.
    head: 14,
    // gRPC servers measure with a PING, simple ones update both windows.
    data: 3,
};

/// Prices of TLS records without plaintext, such as tickets: some 1 ms of work at once.
/// [`Budget::charge`] and [`Budget::give`] use them.
pub(crate) static OF_RECORDS: Prices = Prices {
    // One read may bring 170 small records before their plaintext is taken.
    begin: 256,
    burst: 256,
    rate: 100,
    // No frames.
    full: 0,
    reset: 0,
    reset_sent: 0,
    head: 0,
    data: 0,
};

impl Budget {
    /// Makes a budget with these prices.
    pub(crate) fn new(prices: &'static Prices) -> Self {
        Self {
            prices,
            tokens: prices.begin,
            bytes: 0,
            given: Duration::ZERO,
            spent: false,
        }
    }

    /// Charges a received frame. `now` is measured since the connection began.
    pub(crate) fn received(&mut self, head: Head, now: impl FnOnce() -> Duration) {
        let cost = match head.kind {
            DATA if head.len >= self.prices.full => return,
            RST_STREAM => self.prices.reset,
            _ => 1,
        };
        self.charge(cost, now);
    }

    /// Takes `cost` tokens. `now` is measured since the connection began.
    pub(crate) fn charge(&mut self, cost: u32, now: impl FnOnce() -> Duration) {
        if self.tokens < cost {
            self.elapse(now());
        }
        self.pay(cost);
    }

    /// Returns tokens for a sent frame.
    pub(crate) fn sent(&mut self, head: Head) {
        match head.kind {
            RST_STREAM => self.pay(self.prices.reset_sent),
            HEADERS => self.give(self.prices.head),
            DATA => {
                self.bytes += head.len;
                self.give(self.prices.data + self.bytes / BYTES);
                self.bytes %= BYTES;
            }
            _ => {}
        }
    }

    /// Returns whether more frames came than the budget allows.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    fn elapse(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.given).as_millis();
        let tokens = elapsed * u128::from(self.prices.rate) / 1000;
        if tokens > 0 {
            self.given = now;
            self.give(u32::try_from(tokens).unwrap_or(u32::MAX));
        }
    }

    /// Returns tokens, up to the burst.
    pub(crate) fn give(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens).min(self.prices.burst);
    }

    fn pay(&mut self, cost: u32) {
        self.spent |= self.tokens < cost;
        self.tokens = self.tokens.saturating_sub(cost);
    }
}

/// Sent bytes per token: half of what Go's client reads before it updates both
/// windows.
const BYTES: u32 = 2048;

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
    const BURST: u32 = OF_CLIENTS.burst;
    const RATE: u32 = OF_CLIENTS.rate;
    const FULL: u32 = OF_CLIENTS.full;

    #[test]
    fn a_flood_spends_it_and_time_gives_back() {
        let mut budget = Budget::new(&OF_CLIENTS);
        for _ in 0..BURST {
            budget.received(head(PING, 8), || Duration::ZERO);
        }
        assert!(!budget.is_spent());
        for second in 1..1000 {
            for _ in 0..RATE {
                budget.received(head(PING, 8), || Duration::from_secs(second));
            }
        }
        assert!(!budget.is_spent(), "a steady client");
        budget.received(head(PING, 8), || Duration::from_secs(999));
        assert!(budget.is_spent());
    }

    #[test]
    fn answers_and_their_bytes_pay_for_what_belongs_to_them() {
        let mut budget = Budget::new(&OF_CLIENTS);
        for _ in 0..10 * BURST {
            budget.received(head(HEADERS, 40), || Duration::ZERO);
            budget.sent(head(HEADERS, 100));
            budget.sent(head(DATA, 16 << 10));
            for _ in 0..8 {
                budget.received(head(8, 4), || Duration::ZERO);
            }
            budget.received(head(DATA, FULL), || Duration::ZERO);
        }
        assert!(!budget.is_spent());
    }

    #[test]
    fn resets_are_bounded_on_both_sides() {
        for by_client in [true, false] {
            let mut budget = Budget::new(&OF_CLIENTS);
            let mut cycles = 0;
            while !budget.is_spent() {
                budget.received(head(HEADERS, 40), || Duration::ZERO);
                if by_client {
                    budget.sent(head(HEADERS, 100));
                    budget.received(head(RST_STREAM, 4), || Duration::ZERO);
                } else {
                    budget.sent(head(RST_STREAM, 4));
                }
                cycles += 1;
            }
            assert!((200..=400).contains(&cycles), "{cycles}");
        }
    }

    #[test]
    fn an_upstream_that_floods_spends_its_budget_and_time_gives_back() {
        for kind in [PING, 4, 8, 200, DATA] {
            let mut budget = Budget::new(&OF_UPSTREAMS);
            let mut frames = 0;
            budget.sent(head(HEADERS, 40));
            while !budget.is_spent() {
                budget.received(head(kind, 0), || Duration::from_secs(1));
                frames += 1;
            }
            assert!((256..=400).contains(&frames), "{kind}: {frames}");
        }
        let mut budget = Budget::new(&OF_UPSTREAMS);
        for second in 1..1000 {
            for _ in 0..OF_UPSTREAMS.rate {
                budget.received(head(PING, 8), || Duration::from_secs(second));
            }
        }
        assert!(!budget.is_spent());
    }

    #[test]
    fn servers_of_grpc_stay_within_their_budget() {
        // Each message of the client is answered at once, each stream ends with trailers.
        let mut budget = Budget::new(&OF_UPSTREAMS);
        for _ in 0..10 * OF_UPSTREAMS.burst {
            budget.sent(head(HEADERS, 100));
            budget.received(head(HEADERS, 40), || Duration::ZERO);
            for _ in 0..20 {
                budget.sent(head(DATA, 12));
                for kind in [PING, 8, 8] {
                    budget.received(head(kind, 8), || Duration::ZERO);
                }
                budget.received(head(DATA, 7), || Duration::ZERO);
            }
            budget.received(head(HEADERS, 40), || Duration::ZERO);
            budget.received(head(RST_STREAM, 4), || Duration::ZERO);
        }
        // An upload, with updates of both windows for each 4 KiB.
        for _ in 0..100_000 {
            budget.sent(head(DATA, 16 << 10));
            for _ in 0..8 {
                budget.received(head(8, 4), || Duration::ZERO);
            }
        }
        assert!(!budget.is_spent());
    }
}
