//! Lists keys and reads their values, for a command that takes over what a server holds.

use redis::Value;

use super::read::{NoHalf, refused, strange};
use super::{Redis, Server};
use crate::pem_pair::Bytes;
use sekisho_certs::store::{Result, StoreError};

/// Value of a key; none if the key is gone. An error says why it is no half of a pair.
pub type Scanned = std::result::Result<Option<Bytes>, String>;

impl Redis {
    /// Reads a page of the keys that match a pattern. Returns the place of the next page, 0 at
    /// the end. A key may be on several pages.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a Cluster, whose nodes have pages of their own.
    pub async fn scan(&self, cursor: u64, pattern: &str) -> Result<(u64, Vec<String>)> {
        let Server::One(connection) = &self.server else {
            let why = "SCAN of a Cluster is not supported; name each master by redis://";
            return Err(StoreError::Refused(why.into()));
        };
        let mut commands = redis::pipe();
        let scan = commands.cmd("SCAN").arg(cursor);
        scan.arg("MATCH").arg(pattern).arg("COUNT").arg(COUNT);
        match connection.send(&commands).await?.pop() {
            Some(Value::Array(page)) => read_page(&page).ok_or_else(strange),
            Some(Value::ServerError(error)) => Err(refused(&error)),
            _ => Err(strange()),
        }
    }

    /// Reads the values of keys, in their order.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn values(&self, keys: &[String]) -> Result<Vec<Scanned>> {
        let replies = self.server.read(keys).await?.into_iter();
        let values = replies.map(|reply| match reply {
            Ok(value) => Ok(Ok(value)),
            Err(NoHalf::Unfit(why)) => Ok(Err(why)),
            Err(NoHalf::Failed(error)) => Err(error),
        });
        values.collect()
    }
}

/// Takes a page apart: the next cursor, and keys. A key that is not UTF-8 names no host.
fn read_page(page: &[Value]) -> Option<(u64, Vec<String>)> {
    let [Value::BulkString(cursor), Value::Array(keys)] = page else {
        return None;
    };
    let cursor = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    let keys = keys.iter().filter_map(|key| match key {
        Value::BulkString(key) => String::from_utf8(key.clone()).ok(),
        _ => None,
    });
    Some((cursor, keys.collect()))
}

/// Keys that the server looks at for a page, whose values the caller may hold at once.
const COUNT: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_cursor_and_keys() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let keys = vec![text("a.crt"), Value::BulkString(vec![0xff]), text("b.crt")];
        let page = [text("17"), Value::Array(keys)];
        let wanted = (17, vec!["a.crt".to_owned(), "b.crt".to_owned()]);
        assert_eq!(read_page(&page), Some(wanted));
        assert_eq!(read_page(&[text("17")]), None);
        assert_eq!(read_page(&[text("x"), Value::Array(Vec::new())]), None);
    }
}
