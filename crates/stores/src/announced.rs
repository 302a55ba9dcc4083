//! Nodes that sentinels and a Redis Cluster announce while the program runs.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// Nodes of Redis that a URL leads to and does not name. Clones share them: those that
/// connect by the URL add what they learn.
///
/// No upstream of a host record may be one of them.
#[derive(Clone, Debug, Default)]
pub struct Announced(watch::Sender<Nodes>);

/// Hosts or addresses, each with its port.
pub type Nodes = BTreeSet<(String, u16)>;

impl Announced {
    /// Adds nodes, [`MOST`] in all.
    #[cfg(feature = "redis")]
    pub(crate) fn add(&self, nodes: impl IntoIterator<Item = (String, u16)>) {
        self.0.send_if_modified(|known| {
            let before = known.len();
            for node in nodes {
                if known.len() < MOST {
                    known.insert(node);
                }
            }
            known.len() > before
        });
    }

    /// Returns the nodes of now, and what tells of further ones.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Nodes> {
        let mut nodes = self.0.subscribe();
        nodes.mark_changed();
        nodes
    }
}

/// As many nodes as a Cluster should have (Redis Cluster specification).
#[cfg(feature = "redis")]
const MOST: usize = 1024;

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nodes_are_told_once_and_bounded() {
        let announced = Announced::default();
        let mut nodes = announced.clone().subscribe();
        nodes.changed().await.unwrap();
        announced.add([("10.0.0.1".to_owned(), 6379)]);
        nodes.changed().await.unwrap();
        assert_eq!(nodes.borrow_and_update().len(), 1);
        announced.add([("10.0.0.1".to_owned(), 6379)]);
        assert!(!nodes.has_changed().unwrap());
        announced.add((0..5000).map(|port| ("10.0.0.2".to_owned(), port)));
        assert_eq!(nodes.borrow().len(), MOST);
    }
}
