//! Tests what a CA gets that validates a challenge.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod handshakes;
mod tokens;
mod validator;

use std::sync::Arc;

use common::challenges::Orders;
use common::{LIMITS, Running, Scripted, Setup, host, start};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa};

const AUTHORIZATION: &str =
    "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.nP1qzpXGymHBrUEepNY9HCsQk7K8KhOypzEt62jcerQ";

/// Server with one host, and the orders whose challenges it answers.
struct Fixture {
    running: Running,
    orders: Orders,
    ca: TestCa,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(LIMITS).await
    }

    async fn with(limits: Limits) -> Self {
        let (ca, orders) = (TestCa::new(), Orders::new().await);
        let pair = ca.issue(&["a.example"], Key::P256);
        let mut setup = Setup::limits(limits);
        setup.challenges = Some(Arc::clone(&orders.served));
        let running = start(
            Scripted::new([host("a.example", &[(&pair, Key::P256)])]),
            &setup,
        );
        Self {
            running,
            orders,
            ca,
        }
    }
}
