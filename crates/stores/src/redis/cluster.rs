//! A Redis Cluster: the slot of a key says which node serves it.

mod slots;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{join_all, select_ok};
use redis::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::slots::{Slots, redirected, slot_of};
use super::connection::{CONNECT, ReconnectingConnection};
use super::dial::Dialer;
use super::read::{Reply, reply};
use super::url::Node;
use crate::backoff::Backoff;
use sekisho_certs::store::{Result, StoreError};

/// Connections to the nodes that serve slots. A task of the background runtime
/// keeps the map of the slots: it asks for it when a node redirects or fails,
/// and from time to time.
pub(super) struct Cluster {
    dialer: Dialer,
    runtime: Handle,
    map: watch::Receiver<SlotMap>,
    wanted: Arc<Notify>,
    connections: Arc<Connections>,
    refresh: JoinHandle<()>,
}

impl Cluster {
    pub(super) fn start(runtime: &Handle, seeds: Vec<Node>, dialer: Dialer) -> Self {
        let (tell, map) = watch::channel(SlotMap::Loading);
        let (wanted, connections) = (Arc::new(Notify::new()), Arc::new(Connections::default()));
        let refresh = SlotRefresh {
            seeds,
            dialer: dialer.clone(),
            wanted: Arc::clone(&wanted),
            connections: Arc::clone(&connections),
            tell,
        };
        Self {
            refresh: runtime.spawn(refresh.run()),
            runtime: runtime.clone(),
            dialer,
            map,
            wanted,
            connections,
        }
    }

    /// Sends one GET for each key, all at once.
    pub(super) async fn read(&self, keys: &[String]) -> Vec<Reply> {
        join_all(keys.iter().map(|key| self.get(key))).await
    }

    async fn get(&self, key: &str) -> Reply {
        match self.follow(key).await {
            Ok(answer) => reply(key, answer),
            Err(error) => Reply::Failed(error),
        }
    }

    /// Asks the node of the key, and those that it redirects to.
    async fn follow(&self, key: &str) -> Result<Value> {
        let slot = slot_of(key);
        let slots = self.slots().await?;
        let mut node = slots.node_of(slot).cloned().ok_or_else(|| {
            self.wanted.notify_one();
            unavailable(format!("no node of the cluster serves slot {slot}"))
        })?;
        let mut asking = false;
        for _ in 0..MAX_REDIRECTIONS {
            let mut commands = redis::pipe();
            if asking {
                commands.cmd("ASKING");
            }
            commands.cmd("GET").arg(key);
            let sent = self.connections.to(&node, self).send(&commands).await;
            // The node may be gone for good, and its slots be another's.
            let sent = sent.inspect_err(|_| self.wanted.notify_one())?;
            let answer = sent.into_iter().next_back().unwrap_or(Value::Nil);
            let Value::ServerError(error) = &answer else {
                return Ok(answer);
            };
            asking = match error.code() {
                "ASK" => true,
                "MOVED" => {
                    self.wanted.notify_one();
                    false
                }
                _ => return Ok(answer),
            };
            node = redirected(error.details(), &node)
                .ok_or_else(|| unavailable("a redirection names no node".into()))?;
        }
        Err(unavailable(format!(
            "over {MAX_REDIRECTIONS} redirections for a key"
        )))
    }

    /// Whether the map is known and all its nodes answer.
    pub(super) async fn reach(&self) -> Result<()> {
        let slots = self.slots().await?;
        for node in slots.nodes() {
            self.connections.to(node, self).reach().await?;
        }
        Ok(())
    }

    async fn slots(&self) -> Result<Arc<Slots>> {
        let mut map = self.map.clone();
        loop {
            match &*map.borrow_and_update() {
                SlotMap::Known(slots) => return Ok(Arc::clone(slots)),
                SlotMap::Unknown(why) => return Err(StoreError::Unavailable(Arc::clone(why))),
                SlotMap::Loading => {}
            }
            if map.changed().await.is_err() {
                return Err(unavailable("the background runtime has ended".into()));
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.refresh.abort();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&*self.map.borrow()).finish()
    }
}

#[derive(Debug)]
enum SlotMap {
    /// The first attempt is under way.
    Loading,
    /// The map that was read last; the newest attempt may have failed.
    Known(Arc<Slots>),
    Unknown(Arc<str>),
}

/// Connections to each node that serves slots, or was redirected to since the
/// map was last renewed.
#[derive(Default)]
struct Connections(Mutex<HashMap<Node, Arc<ReconnectingConnection>>>);

impl Connections {
    fn to(&self, node: &Node, cluster: &Cluster) -> Arc<ReconnectingConnection> {
        let mut connections = self.lock();
        if let Some(connection) = connections.get(node) {
            return Arc::clone(connection);
        }
        let connection = Arc::new(ReconnectingConnection::to_node(
            &cluster.runtime,
            node,
            &cluster.dialer,
        ));
        connections.insert(node.clone(), Arc::clone(&connection));
        connection
    }

    fn keep_only(&self, slots: &Slots) {
        self.lock()
            .retain(|node, _| slots.nodes().any(|one| one == node));
    }

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Node, Arc<ReconnectingConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the map of slots again and again.
struct SlotRefresh {
    seeds: Vec<Node>,
    dialer: Dialer,
    wanted: Arc<Notify>,
    connections: Arc<Connections>,
    tell: watch::Sender<SlotMap>,
}

impl SlotRefresh {
    async fn run(self) {
        let mut known: Option<Arc<Slots>> = None;
        let mut delays = RETRY.delays();
        loop {
            match self.fetch(known.as_deref()).await {
                Ok(slots) => {
                    delays.after_success();
                    self.connections.keep_only(&slots);
                    let slots = known.insert(Arc::new(slots));
                    self.tell.send_replace(SlotMap::Known(Arc::clone(slots)));
                    // Whether it was wanted or is old by now.
                    let _ = timeout(RENEW, self.wanted.notified()).await;
                }
                Err(why) => {
                    tracing::warn!(why, "no map of slots from the Redis Cluster, trying again");
                    if known.is_none() {
                        self.tell.send_replace(SlotMap::Unknown(why.into()));
                    }
                    sleep(delays.after_failure()).await;
                }
            }
            sleep(LEAST_PAUSE).await;
        }
    }

    /// The first answer of the given nodes and some that are known.
    async fn fetch(&self, known: Option<&Slots>) -> std::result::Result<Slots, String> {
        let known = known.into_iter().flat_map(Slots::nodes).take(ASKED);
        let asked = self.seeds.iter().chain(known);
        let first = select_ok(asked.map(|node| Box::pin(self.ask(node))));
        match timeout(CONNECT, first).await {
            Ok(first) => first.map(|(slots, _)| slots),
            Err(_) => Err(format!("no node answered within {CONNECT:?}")),
        }
    }

    async fn ask(&self, node: &Node) -> std::result::Result<Slots, String> {
        let mut dialled = self.dialer.dial(node).await?;
        let mut slots = redis::pipe();
        let answer = dialled.ask(slots.cmd("CLUSTER").arg("SLOTS")).await?;
        Slots::parse(&answer, node)
    }
}

fn unavailable(why: String) -> StoreError {
    StoreError::Unavailable(why.into())
}

/// A key moves once or twice while slots are moved about.
const MAX_REDIRECTIONS: usize = 5;
/// How many known nodes are asked for the map beside those of the URL.
const ASKED: usize = 3;
/// The map is renewed at least so often.
const RENEW: Duration = Duration::from_secs(60);
/// Between two attempts to get it, after a failure.
const RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
/// The least pause between two attempts, also after a success.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
