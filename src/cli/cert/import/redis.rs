//! Reads pairs out of Redis: the papers' strings, or documents of two libraries.

use std::collections::VecDeque;
use std::path::Path;

use sekisho_certs::HostPattern;
use sekisho_certs::store::Result as StoreResult;
use sekisho_stores::redis::{Redis, RedisUrl, Scanned};
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use zeroize::Zeroizing;

use super::layout::Layout;
use super::source::{Half, Names, Pair, Pairs, Refusal};
use crate::terminal::failure::Result;

/// Lists the pairs whose keys begin with a prefix. An outage ends the list with an error: a server
/// may come back without what it had, and numbers its pages otherwise.
pub(super) fn pairs(url: &RedisUrl, layout: Layout, prefix: String) -> Result<Pairs> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(Box::new(Keys {
        redis: Redis::open(url, runtime.handle())?,
        runtime,
        place: url.to_string(),
        layout,
        prefix,
        cursor: Some(0),
        ready: VecDeque::new(),
    }))
}

/// Keys of a server, read page by page.
struct Keys {
    redis: Redis,
    runtime: Runtime,
    place: String,
    layout: Layout,
    prefix: String,
    /// Place of the next page; none after the last.
    cursor: Option<u64>,
    ready: VecDeque<Result<Pair, Refusal>>,
}

impl Iterator for Keys {
    type Item = Result<Pair, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            match self.runtime.block_on(self.page(self.cursor?)) {
                Ok((next, pairs)) => {
                    self.cursor = (next > 0).then_some(next);
                    self.ready = pairs;
                }
                Err(error) => {
                    self.cursor = None;
                    let group = "the rest of the keys can't be read";
                    return Some(Err(Refusal::new(&self.place, group, error.to_string())));
                }
            }
        }
        self.ready.pop_front()
    }
}

impl Keys {
    /// Reads the pairs of a page. Returns the place of the next page, too; 0 for none.
    async fn page(&self, cursor: u64) -> StoreResult<(u64, VecDeque<Result<Pair, Refusal>>)> {
        let pattern = pattern(self.layout, &self.prefix);
        let (next, keys) = self.redis.scan(cursor, &pattern).await?;
        let wanted = keys.iter().filter_map(|key| {
            let host = host_of(self.layout, key.strip_prefix(&*self.prefix)?)?;
            Some((key, host))
        });
        let wanted: Vec<_> = wanted.collect();
        let mut pairs = VecDeque::new();
        for some in wanted.chunks(AT_ONCE) {
            let has_key = self.layout == Layout::Redis;
            let keys = some.iter().flat_map(|(key, host)| {
                let other = has_key.then(|| format!("{}{host}.key", self.prefix));
                [Some((*key).clone()), other]
            });
            let keys: Vec<_> = keys.flatten().collect();
            let mut values = self.redis.values(&keys).await?.into_iter();
            let mut value = || values.next().unwrap_or(Ok(None));
            for (key, host) in some {
                let halves = match has_key {
                    true => two(value(), value()),
                    false => document(value()),
                };
                let place = format!("{}: {key}", self.place);
                pairs.extend(pair(Path::new(&place), host, halves));
            }
        }
        Ok((next, pairs))
    }
}

type Bytes = Zeroizing<Vec<u8>>;
/// Chain and key of a host; none if it is gone. An error says what is wrong with them.
type Halves = Option<Result<(Bytes, Bytes), String>>;

/// Document of a host, JSON, in the fields of lua-resty-auto-ssl; else of lua-resty-acme.
#[derive(Deserialize)]
struct Document {
    #[serde(alias = "cert")]
    fullchain_pem: String,
    #[serde(alias = "pkey")]
    privkey_pem: String,
}

fn two(chain: Scanned, key: Scanned) -> Halves {
    Some(chain.transpose()?.and_then(|chain| {
        let key = key?.ok_or("its key is missing")?;
        Ok((chain, key))
    }))
}

fn document(value: Scanned) -> Halves {
    Some(value.transpose()?.and_then(|text| {
        // The error's own text repeats what stands there, which may be a key.
        let document: Document = serde_json::from_slice(&text).map_err(|_| NO_DOCUMENT)?;
        let halves = [document.fullchain_pem, document.privkey_pem];
        Ok(halves.map(|pem| Zeroizing::new(pem.into_bytes())).into())
    }))
}

fn pair(place: &Path, host: &str, halves: Halves) -> Option<Result<Pair, Refusal>> {
    let pair = halves?.and_then(|(chain, key)| {
        let host = HostPattern::parse(host).map_err(|error| error.to_string())?;
        let [chain, key] = [chain, key].map(|half| Half::Bytes(place.to_owned(), half));
        Ok(Pair::new(Names::WithLeaf(vec![host]), chain, Some(key)))
    });
    Some(pair.map_err(|why| Refusal::new(place, "a key can't be read", why)))
}

/// Returns the host of a key behind its prefix; none for other keys. Those of
/// lua-resty-auto-ssl are `[PREFIX:]NAME:latest`, among older ones, challenges and locks; those
/// of lua-resty-acme `[NAMESPACE]domain:TYPE:NAME`.
fn host_of(layout: Layout, key: &str) -> Option<&str> {
    match layout {
        Layout::AutoSsl => key.strip_suffix(":latest")?.rsplit(':').next(),
        Layout::RestyAcme => {
            let (kind, host) = key.strip_prefix("domain:")?.split_once(':')?;
            ["rsa", "ecc"].contains(&kind).then_some(host)
        }
        _ => key.strip_suffix(".crt"),
    }
}

/// Returns the pattern of the keys that may be wanted. In the prefix no character stands for
/// others.
fn pattern(layout: Layout, prefix: &str) -> String {
    let mut pattern = String::new();
    for character in prefix.chars() {
        if "*?[]\\".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
        + match layout {
            Layout::AutoSsl => "*:latest",
            Layout::RestyAcme => "domain:*",
            _ => "*.crt",
        }
}

const NO_DOCUMENT: &str = "is no document with a chain and its key";
/// Hosts whose values are asked for at once: a server bounds what it sends in one answer.
const AT_ONCE: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_hosts_are_told_from_others() {
        for (layout, key, host) in [
            (Layout::Redis, "a.b.crt", Some("a.b")),
            (Layout::Redis, "*.b.crt", Some("*.b")),
            (Layout::Redis, "a.b.key", None),
            (Layout::AutoSsl, "a.b:latest", Some("a.b")),
            (Layout::AutoSsl, "ssl:a.b:latest", Some("a.b")),
            (Layout::AutoSsl, "a.b:1700000000", None),
            (Layout::AutoSsl, "a.b:challenge:token", None),
            (Layout::RestyAcme, "domain:rsa:a.b", Some("a.b")),
            (Layout::RestyAcme, "domain:ecc:*.b", Some("*.b")),
            (Layout::RestyAcme, "domain:dsa:a.b", None),
            (Layout::RestyAcme, "domain:a.b", None),
            (Layout::RestyAcme, "update_lock:domain:rsa:a.b", None),
        ] {
            assert_eq!(host_of(layout, key), host, "{key}");
        }
    }

    #[test]
    fn a_prefix_stands_for_itself() {
        assert_eq!(pattern(Layout::Redis, ""), "*.crt");
        assert_eq!(pattern(Layout::AutoSsl, "a*b"), "a\\*b*:latest");
        assert_eq!(
            pattern(Layout::RestyAcme, "[x]\\?"),
            "\\[x\\]\\\\\\?domain:*"
        );
    }

    /// Shows a pair, or what is wrong with it.
    fn shown(host: &str, halves: Halves) -> Option<String> {
        let pair = pair(Path::new("redis: x"), host, halves)?;
        let bytes = |half: Half| match half {
            Half::Bytes(_, bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => panic!("{}", other.place().display()),
        };
        Some(match pair {
            Ok(pair) => bytes(pair.chain) + &pair.key.map(bytes).unwrap_or_default(),
            Err(refused) => refused.reason,
        })
    }

    #[test]
    fn values_are_halves_or_documents() {
        let value = |text: &str| Ok(Some(Zeroizing::new(text.as_bytes().to_vec())));
        let whole = shown("a.b", two(value("C"), value("K")));
        assert_eq!(whole.as_deref(), Some("CK"));
        for json in [
            r#"{"fullchain_pem":"C","privkey_pem":"K","cert_pem":"L","expiry":1}"#,
            r#"{"domain":"a.b","pkey":"K","cert":"C","type":"rsa","updated":1}"#,
        ] {
            let whole = shown("a.b", document(value(json)));
            assert_eq!(whole.as_deref(), Some("CK"), "{json}");
        }
        let gone = (two(Ok(None), value("K")), document(Ok(None)));
        assert!(
            gone.0.is_none() && gone.1.is_none(),
            "a key may vanish meanwhile"
        );
        for (host, halves, reason) in [
            ("a.b", two(value("C"), Ok(None)), "its key is missing"),
            ("a.b", two(Err("strange".into()), value("K")), "strange"),
            (
                "a b",
                two(value("C"), value("K")),
                "must not stand in a host name",
            ),
            ("a.b", document(value("{}")), "is no document with"),
            ("a.b", document(value("cut")), "is no document with"),
        ] {
            let told = shown(host, halves).expect("it is there");
            assert!(told.contains(reason), "{told}");
        }
    }

    #[test]
    fn what_is_no_document_is_not_repeated() {
        for json in [
            r#""-----BEGIN PRIVATE KEY-----\nS3CRET""#,
            r#"{"cert":"C","pkey":["S3CRET"]}"#,
            r#"{"S3CRET":"C","pkey":"S3CRET"}"#,
        ] {
            let value = Ok(Some(Zeroizing::new(json.as_bytes().to_vec())));
            let told = shown("a.b", document(value)).expect("it is there");
            assert_eq!(told, NO_DOCUMENT, "{json}");
        }
    }
}
