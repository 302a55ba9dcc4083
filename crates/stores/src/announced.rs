//! Ports of the nodes that sentinels and a Redis Cluster announce while the program runs.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// Ports of the nodes of Redis that a URL leads to and does not name. Clones share them:
/// those that connect by the URL add what they learn.
///
/// No upstream of a host record may have one of them, unless the operator named its address.
#[derive(Clone, Debug, Default)]
pub struct Announced(watch::Sender<BTreeSet<u16>>);

impl Announced {
    /// Adds ports.
    #[cfg(feature = "redis")]
    pub(crate) fn add(&self, ports: impl IntoIterator<Item = u16>) {
        self.0.send_if_modified(|known| {
            let before = known.len();
            known.extend(ports);
            known.len() > before
        });
    }

    /// Returns a receiver of the ports that are known, which tells of each new one.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<BTreeSet<u16>> {
        let mut ports = self.0.subscribe();
        ports.mark_changed();
        ports
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ports_are_told_once() {
        let announced = Announced::default();
        let mut ports = announced.clone().subscribe();
        ports.changed().await.unwrap();
        announced.add([6379]);
        ports.changed().await.unwrap();
        assert!(ports.borrow_and_update().contains(&6379));
        announced.add([6379]);
        assert!(!ports.has_changed().unwrap());
    }
}
