//! Handshakes that meet a fault, at a steady rate.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::Fault;
use crate::load::client::Client;

/// Answers to clients, in few words, with their counts.
pub(super) type Told = BTreeMap<String, usize>;

/// Begins the fault's handshakes one after the other, each with a name of its own.
pub(super) async fn attack(client: &Client, fault: &Fault, over: Duration) -> Told {
    let count = fault.rate * u32::try_from(over.as_secs()).unwrap_or(u32::MAX);
    let one = |number: u32| async move {
        sleep(over * number / count).await;
        let name = format!("{}{number}.faults.test", fault.name);
        match client.open(&name).await {
            Ok(_) => "a connection".to_owned(),
            Err(failure) => failure.kind(),
        }
    };
    let mut told = Told::new();
    for answer in join_all((0..count).map(one)).await {
        *told.entry(answer).or_default() += 1;
    }
    told
}
