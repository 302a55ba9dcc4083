//! Background tasks of a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use sekisho_certs::Feed;
use sekisho_server::admin::{Admin, Listener};
use sekisho_server::site::OwnAddresses;
use sekisho_server::tickets::Keeper;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Tasks that are not started yet.
pub(super) struct Tasks {
    pub(super) feed: Option<Feed>,
    pub(super) keeper: Keeper,
    pub(super) own_addresses: Arc<OwnAddresses>,
    /// Ports of the nodes that stores lead to, which are own addresses.
    pub(super) announced: Vec<watch::Receiver<BTreeSet<u16>>>,
    pub(super) admin: Option<(Listener, Admin)>,
}

/// Task of the admin listener.
pub(super) struct Serving {
    leave: oneshot::Sender<()>,
    task: JoinHandle<Listener>,
}

impl Tasks {
    /// Starts all of them on the current runtime. They end with it: load balancers must
    /// see the drain. Returns the admin listener's.
    pub(super) fn start(self) -> Option<Serving> {
        if let Some(feed) = self.feed {
            tokio::spawn(feed.run());
        }
        tokio::spawn(self.keeper.run());
        let own_addresses = self.own_addresses;
        for mut ports in self.announced {
            let own_addresses = Arc::clone(&own_addresses);
            tokio::spawn(async move {
                while ports.changed().await.is_ok() {
                    own_addresses.announce(ports.borrow_and_update().iter().copied());
                }
            });
        }
        tokio::spawn(async move { own_addresses.keep_resolved().await });
        let (listener, admin) = self.admin?;
        let (leave, left) = oneshot::channel();
        let task = tokio::spawn(admin.serve(listener, async {
            if left.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Some(Serving { leave, task })
    }
}

impl Serving {
    /// Accepts no more, and returns the listener.
    pub(super) async fn leave(self) -> Option<Listener> {
        let _ = self.leave.send(());
        self.task.await.ok()
    }
}
