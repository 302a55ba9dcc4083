//! Handshakes that meet a fault.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::{Fault, Pace};
use sekisho_bench::load::client::Client;

/// Answers to clients, in few words, with their counts.
pub(super) type Told = BTreeMap<String, usize>;

/// Begins the fault's handshakes, each with a name of its own.
pub(super) async fn attack(client: &Client, fault: &Fault, over: Duration) -> Told {
    let open = async |number: u32| {
        let name = format!("{}{number}.faults.test", fault.name);
        match client.open(&name).await {
            Ok(_) => "a connection".to_owned(),
            Err(failure) => failure.kind(),
        }
    };
    let told = match fault.pace {
        Pace::Rate(rate) => {
            let count = rate * u32::try_from(over.as_secs()).unwrap_or(u32::MAX);
            let one = async |number: u32| {
                sleep(over * number / count).await;
                vec![open(number).await]
            };
            join_all((0..count).map(one)).await
        }
        Pace::Crowd(clients) => {
            let end = Instant::now() + over;
            let one = async |number: u32| {
                let mut told = Vec::new();
                while Instant::now() < end {
                    told.push(open(number).await);
                }
                told
            };
            join_all((0..clients).map(one)).await
        }
    };
    let mut counts = Told::new();
    for answer in told.into_iter().flatten() {
        *counts.entry(answer).or_default() += 1;
    }
    counts
}
