//! The server that a URL names, or the master that its sentinels name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_ok;
use redis::{RedisConnectionInfo, Value, from_redis_value};
use tokio::time::timeout;

use super::connection::Dialled;
use super::dial::{Dialer, text};
use super::url::{Kind, Node, RedisUrl, TlsFiles};
use crate::announced::Announced;
use sekisho_https::roots;

/// Server, and how it is found.
pub(super) struct Target {
    /// The server, or sentinels.
    nodes: Vec<Node>,
    server: Dialer,
    /// The sentinels' name for the master, and how they are reached.
    master: Option<(String, Dialer)>,
    announced: Announced,
}

impl Target {
    /// Returns none for a Cluster, which has many servers.
    ///
    /// # Errors
    /// Names a file for TLS that can't be used.
    pub(super) fn of(url: &RedisUrl) -> Result<Option<Self>, String> {
        let config = |files: &TlsFiles| {
            let roots = roots::load(files.roots.as_deref(), "ca=")?;
            Ok::<_, String>(Arc::new(roots::client(roots, files.client.as_ref())?))
        };
        let tls = url.tls.as_ref().map(config).transpose()?;
        let dialer = |login: &RedisConnectionInfo| Dialer {
            login: login.clone(),
            tls: tls.clone(),
        };
        let master = match &url.kind {
            Kind::Cluster => return Ok(None),
            Kind::Single => None,
            Kind::Sentinel { master, login } => Some((master.clone(), dialer(login))),
        };
        Ok(Some(Self {
            nodes: url.nodes.clone(),
            server: dialer(&url.login),
            master,
            announced: url.announced.clone(),
        }))
    }

    /// Returns the name that logs and errors show.
    pub(super) fn name(&self) -> String {
        match &self.master {
            Some((master, _)) => master.clone(),
            None => self.nodes[0].to_string(),
        }
    }

    /// Connects to the server. Of sentinels, asks all at once and takes the
    /// first connection to what is a master indeed: a sentinel that was cut off
    /// still names the old one.
    pub(super) async fn dial(&self) -> Result<Dialled, String> {
        let Some((master, dialer)) = &self.master else {
            return self.server.dial(&self.nodes[0]).await;
        };
        let nodes = self.nodes.iter();
        let attempts = nodes.map(|sentinel| Box::pin(self.follow(sentinel, master, dialer)));
        let (dialled, _) = select_ok(attempts).await?;
        Ok(dialled)
    }

    async fn follow(
        &self,
        sentinel: &Node,
        name: &str,
        dialer: &Dialer,
    ) -> Result<Dialled, String> {
        let mut asked = dialer.dial(sentinel).await?;
        let master = ask_for_master(&mut asked, sentinel, name).await?;
        self.announced.add([master.port]);
        let others = timeout(OTHERS, others(&mut asked, name)).await;
        self.announced.add(others.unwrap_or_default());
        drop(asked);
        let mut dialled = self.server.dial(&master).await?;
        match dialled.ask(&redis::cmd("ROLE")).await? {
            Value::Array(role) if role.first() != Some(&Value::BulkString(b"master".into())) => {
                Err(format!(
                    "{master} is no master, though {sentinel} says so; it may just be replaced"
                ))
            }
            // Without the right to ask for ROLE, the sentinel's word counts.
            _ => Ok(dialled),
        }
    }
}

/// Asks for the ports of the master's replicas, of which one takes over, and of the other
/// sentinels. A sentinel may not allow the question.
async fn others(dialled: &mut Dialled, name: &str) -> Vec<u16> {
    let mut others = Vec::new();
    for which in ["REPLICAS", "SENTINELS"] {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg(which).arg(name);
        let Ok(reply) = dialled.ask(&ask).await else {
            break;
        };
        let nodes: Vec<HashMap<String, String>> = from_redis_value(reply).unwrap_or_default();
        let port = |node: &HashMap<String, String>| node.get("port")?.parse::<u16>().ok();
        others.extend(nodes.iter().filter_map(port));
    }
    others
}

/// Longest wait for [`others`].
const OTHERS: Duration = Duration::from_millis(200);

async fn ask_for_master(
    dialled: &mut Dialled,
    sentinel: &Node,
    name: &str,
) -> Result<Node, String> {
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    match dialled.ask(&ask).await? {
        Value::ServerError(error) => Err(format!("{sentinel}: {}", text(&error))),
        reply => match from_redis_value(reply) {
            Ok(Some((host, port))) => Ok(Node { host, port }),
            Ok(None) => Err(format!("{sentinel}: it knows no master {name:?}")),
            Err(_) => Err(format!("{sentinel}: this is no sentinel")),
        },
    }
}
