//! A Redis Cluster, whose slots, redirections and connections are the client
//! library's business.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesOrdered;
use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{ClientTlsConfig, Cmd, ErrorKind, TlsCertificates, TlsMode, Value, from_redis_value};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::connection::{CONNECT, keep_up};
use super::dial::REPLY;
use super::read::{NoHalf, Reply, reply};
use super::url::{Node, RedisUrl, TlsFiles};
use crate::announced::Announced;
use crate::fault::unavailable;
use crate::pem_pair::MAX_HALF;
use crate::reconnecting::{Connected, Reconnecting};
use sekisho_certs::store::Result;

/// Connections to the nodes that serve slots.
#[derive(Debug)]
pub(super) struct Cluster(Reconnecting<ClusterConnection>);

impl Cluster {
    pub(super) fn start(runtime: &Handle, url: &RedisUrl) -> std::result::Result<Self, String> {
        let nodes: Vec<_> = url.nodes.iter().map(Node::to_string).collect();
        let name = nodes.join(",");
        let target = Arc::new((client(url)?, name.clone()));
        let announced = url.announced.clone();
        let connect = move || {
            let (target, announced) = (Arc::clone(&target), announced.clone());
            async move {
                let (client, name) = &*target;
                let connection = client.get_async_connection().await;
                let connection = connection.map_err(|error| format!("{name}: {error}"))?;
                let asked = connection.clone();
                Ok(Connected {
                    connection,
                    // The library connects again by itself.
                    ended: Box::pin(announce(asked, announced)),
                })
            }
        };
        Ok(Self(keep_up(runtime, name, connect)))
    }

    /// Reads all keys at once, each from its own node. Stops when the first two
    /// are there: the node of a wildcard may stand still.
    pub(super) async fn read(&self, keys: &[String]) -> Result<Vec<Reply>> {
        let connection = self.0.up(|_| true).await?;
        let replies = keys.iter().map(|key| get(&connection, key));
        let mut replies: FuturesOrdered<_> = replies.collect();
        let mut read = Vec::with_capacity(keys.len());
        while let Some(reply) = replies.next().await {
            read.push(reply);
            if let [Ok(Some(_)), Ok(Some(_))] = &read[..] {
                break;
            }
        }
        Ok(read)
    }

    /// Reads all keys at once, each from its own node.
    pub(super) async fn read_all(&self, keys: &[String]) -> Result<Vec<Reply>> {
        let connection = self.0.up(|_| true).await?;
        Ok(join_all(keys.iter().map(|key| get(&connection, key))).await)
    }

    /// Tells whether all nodes that serve slots answer.
    pub(super) async fn reach(&self) -> Result<()> {
        let connection = self.0.up(|_| true).await?;
        ask(&connection, &redis::cmd("PING")).await.map(|_| ())
    }
}

/// Learns the ports of the nodes of all slots, again and again. Never ends.
async fn announce(mut connection: ClusterConnection, announced: Announced) -> String {
    let mut slots = redis::cmd("CLUSTER");
    slots.arg("SLOTS");
    let anywhere = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
    loop {
        let asked = connection.route_command(slots.clone(), anywhere.clone());
        if let Ok(Ok(Value::Array(ranges))) = timeout(REPLY, asked).await {
            announced.add(ranges.into_iter().flat_map(ports_of));
        }
        sleep(ANNOUNCED).await;
    }
}

/// Lists the ports of a range of slots: behind its bounds, of the master and its replicas.
fn ports_of(range: Value) -> Vec<u16> {
    let Value::Array(range) = range else {
        return Vec::new();
    };
    let port = |node: Value| match node {
        Value::Array(node) => from_redis_value(node.into_iter().nth(1)?).ok(),
        _ => None,
    };
    range.into_iter().skip(2).filter_map(port).collect()
}

/// Reads one key. The library bounds no value, so GETRANGE does. Its reply for a
/// missing key is that for an empty one, which EXISTS tells apart.
async fn get(connection: &ClusterConnection, key: &str) -> Reply {
    let mut range = redis::cmd("GETRANGE");
    range.arg(key).arg(0).arg(MAX_HALF);
    let mut exists = redis::cmd("EXISTS");
    exists.arg(key);
    match tokio::join!(ask(connection, &range), ask(connection, &exists)) {
        (Err(error), _) | (_, Err(error)) => Err(NoHalf::Failed(error)),
        (Ok(Value::BulkString(bytes)), Ok(Value::Int(0))) if bytes.is_empty() => Ok(None),
        (Ok(_), Ok(error @ Value::ServerError(_))) => reply(key, error),
        (Ok(value), Ok(_)) => reply(key, value),
    }
}

async fn ask(connection: &ClusterConnection, command: &Cmd) -> Result<Value> {
    let reply = connection.clone().req_packed_command(command).await;
    reply.map_err(|error| match error.kind() {
        ErrorKind::ClusterConnectionNotFound => unavailable("no node of the Cluster serves this"),
        _ => unavailable(format!("Redis Cluster: {error}")),
    })
}

fn client(url: &RedisUrl) -> std::result::Result<ClusterClient, String> {
    let nodes = url.nodes.iter().map(|node| (node.host.clone(), node.port));
    let mut builder = ClusterClientBuilder::new(nodes)
        .connection_timeout(CONNECT)
        .response_timeout(REPLY)
        .retries(RETRIES)
        .min_retry_wait(RETRY_WAIT)
        .max_retry_wait(RETRY_WAIT);
    if let Some(user) = url.login.username() {
        builder = builder.username(user);
    }
    if let Some(password) = url.login.password() {
        builder = builder.password(password);
    }
    if let Some(files) = &url.tls {
        builder = builder.tls(TlsMode::Secure).certs(certificates(files)?);
    }
    builder.build().map_err(|error| error.to_string())
}

fn certificates(files: &TlsFiles) -> std::result::Result<TlsCertificates, String> {
    let read = |file: &Path| fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
    let client = files.client.as_ref().map(|(cert, key)| {
        Ok::<_, String>(ClientTlsConfig {
            client_cert: read(cert)?,
            client_key: read(key)?,
        })
    });
    Ok(TlsCertificates {
        client_tls: client.transpose()?,
        root_cert: files.roots.as_deref().map(read).transpose()?,
    })
}

/// Time between two questions for the nodes.
const ANNOUNCED: Duration = Duration::from_secs(10);
/// A key moves once or twice while slots are moved about.
const RETRIES: u32 = 5;
/// Milliseconds before a request whose node is not there is sent again.
const RETRY_WAIT: u64 = 20;
