//! Reads pairs out of Redis: the papers' strings, or documents of two libraries.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sekisho_certs::store::Result as StoreResult;
use sekisho_certs::{HostPattern, StoreError};
use sekisho_stores::redis::{Redis, RedisUrl, Scanned};
use tokio::runtime::Builder;
use tokio::time::sleep;

use super::layout::{Layout, documents};
use super::source::{Half, Names, Pair, Pairs, Refusal};

/// Reads the pairs whose keys begin with a prefix, on a thread of its own.
pub(super) fn pairs(url: RedisUrl, layout: Layout, prefix: String) -> io::Result<Pairs> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (sender, receiver) = sync_channel(AHEAD);
    let thread = thread::Builder::new().name("redis".to_owned());
    thread.spawn(move || {
        let place = url.to_string();
        let read = Redis::open(&url, runtime.handle()).and_then(|redis| {
            let reader = Reader {
                redis,
                place: place.clone(),
                layout,
                prefix,
                sender: &sender,
            };
            runtime.block_on(reader.read())
        });
        if let Err(error) = read {
            let group = "the rest of the keys can't be read";
            // Nobody is left to hear of it if the import has ended.
            let _ = sender.send(Err(Refusal::new(place, group, error.to_string())));
        }
    })?;
    Ok(Box::new(receiver.into_iter()))
}

struct Reader<'a> {
    redis: Redis,
    place: String,
    layout: Layout,
    prefix: String,
    sender: &'a SyncSender<Result<Pair, Refusal>>,
}

impl Reader<'_> {
    /// Reads all pages of keys. A page that can't be read is asked for again, since its cursor
    /// holds on the same server.
    async fn read(&self) -> StoreResult<()> {
        let pattern = pattern(self.layout, &self.prefix);
        let (mut cursor, mut failures) = (0, 0);
        loop {
            let (next, keys) = match self.redis.scan(cursor, &pattern).await {
                Ok(page) => page,
                Err(error) if !error.is_retryable() || failures == MAX_FAILURES => {
                    return Err(error);
                }
                Err(_) => {
                    failures += 1;
                    sleep(PAUSE * failures).await;
                    continue;
                }
            };
            let hosts = keys.iter();
            let hosts = hosts.filter_map(|key| wanted(self.layout, &self.prefix, key));
            let hosts: Vec<_> = hosts.collect();
            for some in hosts.chunks(AT_ONCE) {
                self.send(some).await?;
            }
            if next == 0 {
                return Ok(());
            }
            (cursor, failures) = (next, 0);
        }
    }

    /// Reads the values of some hosts, and sends their pairs.
    async fn send(&self, wanted: &[Wanted]) -> StoreResult<()> {
        let keys = wanted.iter().flat_map(|one| [Some(&one.chain), one.key.as_ref()]);
        let keys: Vec<_> = keys.flatten().cloned().collect();
        let mut values = self.redis.values(&keys).await?.into_iter();
        for one in wanted {
            let chain = self.half(&one.chain, values.next());
            let pair = match &one.key {
                Some(key) => two(&one.host, chain, self.half(key, values.next())),
                None => document(&one.host, chain),
            };
            if let Some(pair) = pair {
                let ended = |_| StoreError::Refused("the import has ended".into());
                self.sender.send(pair).map_err(ended)?;
            }
        }
        Ok(())
    }

    /// Takes the value of a key; none if the key is gone.
    fn half(&self, key: &str, value: Option<Scanned>) -> Result<Option<Half>, Refusal> {
        let place = PathBuf::from(format!("{}: {key}", self.place));
        match value {
            Some(Ok(Some(bytes))) => Ok(Some(Half::Bytes(place, bytes))),
            Some(Ok(None)) | None => Ok(None),
            Some(Err(why)) => Err(Refusal::new(place, "a key can't be read", why)),
        }
    }
}

/// Keys of a host.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    host: String,
    /// Key of the chain, or of a document.
    chain: String,
    key: Option<String>,
}

/// Returns the host of a key, with the key of its other half; none for other keys.
fn wanted(layout: Layout, prefix: &str, key: &str) -> Option<Wanted> {
    let host = match layout {
        Layout::AutoSsl => documents::auto_ssl(key)?,
        Layout::RestyAcme => documents::resty_acme(key)?,
        _ => key.strip_prefix(prefix)?.strip_suffix(".crt")?.to_owned(),
    };
    let other = (layout == Layout::Redis).then(|| format!("{prefix}{host}.key"));
    Some(Wanted {
        host,
        chain: key.to_owned(),
        key: other,
    })
}

/// Returns the pattern of the keys that may be wanted. In the prefix no character stands for
/// others.
fn pattern(layout: Layout, prefix: &str) -> String {
    let mut pattern = String::new();
    for character in prefix.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push_str(match layout {
        Layout::AutoSsl => "*:latest",
        Layout::RestyAcme => "domain:*",
        _ => "*.crt",
    });
    pattern
}

/// Makes the pair of two values; none if the host is gone.
fn two(
    host: &str,
    chain: Result<Option<Half>, Refusal>,
    key: Result<Option<Half>, Refusal>,
) -> Option<Result<Pair, Refusal>> {
    Some(match (chain, key) {
        (Err(refusal), _) | (_, Err(refusal)) => Err(refusal),
        (Ok(None), _) => return None,
        (Ok(Some(chain)), Ok(None)) => Err(Refusal::alone(chain.place(), "its key")),
        (Ok(Some(chain)), Ok(Some(key))) => match HostPattern::parse(host) {
            Ok(host) => Ok(Pair::new(Names::WithLeaf(vec![host]), chain, key)),
            Err(error) => {
                let group = "the key's name is no host";
                Err(Refusal::new(chain.place(), group, error.to_string()))
            }
        },
    })
}

/// Makes the pair of a document; none if the document is gone.
fn document(
    host: &str,
    document: Result<Option<Half>, Refusal>,
) -> Option<Result<Pair, Refusal>> {
    match document {
        Ok(Some(Half::Bytes(place, bytes))) => Some(documents::pair(place, host, &bytes)),
        Ok(_) => None,
        Err(refusal) => Some(Err(refusal)),
    }
}

/// Pairs that are read ahead of their checks.
const AHEAD: usize = 64;
/// Hosts whose values are asked for at once: a server bounds what it sends in one answer.
const AT_ONCE: usize = 20;
/// Failures in a row at which the import ends.
const MAX_FAILURES: u32 = 3;
/// Pause after a failure, longer by itself after each further one.
const PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn keys_of_hosts_are_told_from_others() {
        for (layout, prefix, key, host, other) in [
            (Layout::Redis, "", "a.b.crt", "a.b", Some("a.b.key")),
            (Layout::Redis, "x:", "x:*.b.crt", "*.b", Some("x:*.b.key")),
            (Layout::AutoSsl, "", "a.b:latest", "a.b", None),
            (Layout::AutoSsl, "ssl", "ssl:a.b:latest", "a.b", None),
            (Layout::RestyAcme, "n-", "n-domain:rsa:a.b", "a.b", None),
        ] {
            let found = wanted(layout, prefix, key).unwrap();
            assert_eq!(found.host, host);
            assert_eq!((found.chain.as_str(), found.key.as_deref()), (key, other));
        }
        for (layout, key) in [
            (Layout::Redis, "a.example.key"),
            (Layout::AutoSsl, "a.example:1700000000"),
            (Layout::RestyAcme, "domain:a.example"),
        ] {
            assert_eq!(wanted(layout, "", key), None);
        }
        assert_eq!(wanted(Layout::Redis, "tls:", "a.example.crt"), None);
    }

    #[test]
    fn a_prefix_stands_for_itself() {
        assert_eq!(pattern(Layout::Redis, ""), "*.crt");
        assert_eq!(pattern(Layout::AutoSsl, "a*b"), "a\\*b*:latest");
        assert_eq!(pattern(Layout::RestyAcme, "[x]\\?"), "\\[x\\]\\\\\\?domain:*");
    }

    #[test]
    fn a_key_may_vanish_meanwhile() {
        let half = |text: &str| {
            let bytes = text.as_bytes().to_vec();
            Ok(Some(Half::Bytes(PathBuf::from(text), Zeroizing::new(bytes))))
        };
        assert!(two("a.example", Ok(None), half("K")).is_none());
        assert!(document("a.example", Ok(None)).is_none());
        assert!(two("a.example", half("C"), half("K")).unwrap().is_ok());
        let refused = two("a.example", half("C"), Ok(None)).unwrap().unwrap_err();
        assert_eq!(refused.reason, "its key is missing");
        assert!(two("a b", half("C"), half("K")).unwrap().is_err());
    }
}
