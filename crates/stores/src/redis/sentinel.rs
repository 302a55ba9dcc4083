//! The master that sentinels name.

use futures_util::future::select_ok;
use redis::Value;

use super::connection::Dialled;
use super::dial::{Dialer, text};
use super::url::Node;

/// Sentinels, and what is needed to ask them and to follow their answer.
pub(super) struct Sentinels {
    pub(super) nodes: Vec<Node>,
    /// Their name for the master.
    pub(super) name: String,
    pub(super) to_sentinel: Dialer,
    pub(super) to_master: Dialer,
}

impl Sentinels {
    /// Asks all at once and takes the first connection to what is a master
    /// indeed: a sentinel that was cut off still names the old one.
    pub(super) async fn dial(&self) -> Result<Dialled, String> {
        let attempts = self.nodes.iter().map(|node| Box::pin(self.follow(node)));
        let (dialled, _) = select_ok(attempts).await?;
        Ok(dialled)
    }

    async fn follow(&self, sentinel: &Node) -> Result<Dialled, String> {
        let master = self.master(sentinel).await?;
        let mut dialled = self.to_master.dial(&master).await?;
        match dialled.ask(redis::pipe().cmd("ROLE")).await? {
            Value::Array(role) if !is_text(role.first(), "master") => Err(format!(
                "{master} is no master, though {sentinel} says so; it may just be replaced"
            )),
            // Without the right to ask for ROLE, the sentinel's word counts.
            _ => Ok(dialled),
        }
    }

    async fn master(&self, sentinel: &Node) -> Result<Node, String> {
        let mut dialled = self.to_sentinel.dial(sentinel).await?;
        let mut ask = redis::pipe();
        let ask = ask.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME");
        match dialled.ask(ask.arg(&self.name)).await? {
            Value::Array(parts) => {
                address(&parts).ok_or_else(|| format!("{sentinel}: the answer holds no address"))
            }
            Value::Nil => Err(format!("{sentinel}: it knows no master {:?}", self.name)),
            Value::ServerError(error) => Err(format!("{sentinel}: {}", text(&error))),
            _ => Err(format!("{sentinel}: this is no sentinel")),
        }
    }
}

fn address(parts: &[Value]) -> Option<Node> {
    let [Value::BulkString(host), Value::BulkString(port)] = parts else {
        return None;
    };
    Some(Node {
        host: String::from_utf8(host.clone()).ok()?,
        port: std::str::from_utf8(port).ok()?.parse().ok()?,
    })
}

fn is_text(value: Option<&Value>, wanted: &str) -> bool {
    matches!(value, Some(Value::BulkString(bytes)) if bytes == wanted.as_bytes())
}
