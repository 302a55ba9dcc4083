//! The Redis server of the cache: copies of what the catalog held at one number of
//! its log.
//!
//! Under a prefix of the form of values, the catalog and its log lie
//!
//! | key | holds |
//! | --- | --- |
//! | `h:PATTERN` | a record and the ids of its credentials |
//! | `c:ID` | a credential with its sealed key, shared by all hosts |
//! | `state` | a sorted set: the generation, `upto` with its mark, `floor`, and the last subjects that changed, each with the number of its last change |
//!
//! The generation is the member with the score `-inf`, so each script finds it by
//! `ZRANGE 0 0`. The mark of the change `upto` is the member with the score
//! `+inf`, which `ZRANGE -1 -1` finds. With `upto` and `floor` these are four
//! members that are no subjects, which `advance.lua` subtracts.
//!
//! Each value begins with the name of the generation in which it was written;
//! those of another are as if they were not there.
//!
//! Invariants at every moment, since each script is one step:
//!
//! - Every value of the generation is exactly what the catalog held at `upto`.
//! - Every subject that changed behind `floor`, up to `upto`, is in the set.
//!
//! So a reader says which number it has seen, and gets an answer only from a
//! state that is as far; and a fill says which number had been seen when its
//! load began, and is taken only if nothing of it is in the set with a higher
//! one. No clock decides anything, and it does not matter when a command
//! arrives, how often, or whether the server was set back to an older state in
//! between: that state holds the same two sentences. Whatever is evicted is a
//! miss; if it is the state, all is gone, because a new generation begins.
//!
//! Numbers mean the same to all only as long as the catalog does not go back
//! itself, by a backup under the same log. So each question, each fill and each
//! page names the generation that its sender has held against the log, and
//! does nothing in another.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use redis::{Pipeline, Value};
use tokio::runtime::Handle;

use super::entry::{Entry, read, touched};
use super::script::Script;
use crate::redis::RedisUrl;
use crate::redis::connection::RedisConnection;
use crate::redis::keys::Keys;
use crate::redis::read::strange;
use crate::redis::url::Kind;
use crate::stored::{FORM, FormError};
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::random;
use sekisho_certs::store::{CatalogId, ChangePage, Found, LogId, LogPosition, Result, StoreError};

/// A Redis server that holds copies.
#[derive(Debug)]
pub struct CacheServer {
    connection: RedisConnection,
}

impl RedisUrl {
    /// Parses the URL of a server for [`RedisCache`](super::RedisCache).
    ///
    /// # Errors
    /// As [`RedisUrl::parse`]; also for a Cluster, and for templates of keys.
    pub fn parse_cache(url: &str, base: &Path) -> std::result::Result<Self, String> {
        let url = Self::parse(url, base)?;
        if matches!(url.kind, Kind::Cluster) {
            return Err(
                "a Cluster can be no cache before a store: a host and its credentials are read in one step, and \
                 lie on different nodes there; name a single server, or redis+sentinel://"
                    .into(),
            );
        }
        if url.keys != Keys::default() {
            return Err("chain and key are for a store of PEM; a cache has keys of its own".into());
        }
        Ok(url)
    }
}

impl CacheServer {
    /// Starts to connect, and does not wait for it. The first connection
    /// belongs to that runtime.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a Cluster, or for a file for TLS that can't
    /// be used.
    pub fn open(url: &RedisUrl, runtime: &Handle) -> Result<Self> {
        let refused = |why: &str| StoreError::Refused(why.into());
        let connection = RedisConnection::open(url, runtime).map_err(|why| refused(&why))?;
        let connection =
            connection.ok_or_else(|| refused("a Cluster can be no cache before a store"))?;
        Ok(Self { connection })
    }

    /// Tells whether there is a connection; waits for the first attempt to make one.
    ///
    /// # Errors
    /// Says why there is none.
    pub async fn reach(&self) -> Result<()> {
        self.connection.reach().await
    }

    /// Reads what answers a name, by a state of that generation which is at the
    /// position's number or beyond.
    pub(crate) async fn get(&self, at: &CachePosition, name: &HostName) -> Result<Got> {
        let above = name.wildcard();
        let above = above.as_ref().map_or("", |above| above.as_str());
        let args = |args: &mut Pipeline| {
            args.arg(&at.space.prefix).arg(at.number);
            args.arg(name.as_str()).arg(above).arg(&*at.generation);
        };
        let reply = GET.run(&self.connection, &at.space.state, args).await?;
        let Value::Array(parts) = reply else {
            return Err(strange());
        };
        match parts.split_first() {
            Some((Value::BulkString(word), values)) => match word.as_slice() {
                b"host" => Ok(read(name, values)
                    .map_or_else(Got::Damaged, |found| Got::Found(Box::new(found)))),
                b"miss" => Ok(Got::Miss),
                b"behind" | b"none" => Ok(Got::Behind),
                _ => Err(strange()),
            },
            _ => Err(strange()),
        }
    }

    /// Stores what a load read that began when the position's number had been
    /// seen. False if something of it changed meanwhile, or may have.
    pub(crate) async fn fill(&self, at: &CachePosition, entry: &Entry) -> Result<bool> {
        let kept = kept_ms();
        let args = |args: &mut Pipeline| {
            args.arg(&at.space.prefix).arg(at.number).arg(entry.newest);
            args.arg(kept).arg(STATE_MS).arg(&*at.generation);
            for (subject, bytes) in &entry.values {
                args.arg(subject).arg(bytes);
            }
        };
        FILL.is_done(&self.connection, &at.space.state, args).await
    }

    /// Carries these changes, the next ones behind the state, into it. False if
    /// the state is not that far yet, or there is none of that generation.
    ///
    /// `at` gives the generation alone. Its number is what this server has seen,
    /// which its own writes may raise beyond the page. The page's first change
    /// says how far the state must be.
    pub(crate) async fn advance(&self, at: &CachePosition, page: &ChangePage) -> Result<bool> {
        let changes = &page.changes;
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return Ok(true);
        };
        let touched = touched(changes);
        let mark = mark_member(page.mark_last.unwrap_or(0));
        let args = |args: &mut Pipeline| {
            args.arg(&at.space.prefix)
                .arg(first.number - 1)
                .arg(last.number);
            args.arg(REMEMBERED)
                .arg(STATE_MS)
                .arg(&*at.generation)
                .arg(&mark);
            for (subject, number) in &touched {
                args.arg(subject).arg(*number);
            }
        };
        ADVANCE
            .is_done(&self.connection, &at.space.state, args)
            .await
    }

    /// Reads which generation there is, how far it is, and the mark of the
    /// change there; none if there is none.
    pub(crate) async fn state(&self, space: &Arc<Space>) -> Result<Option<(CachePosition, u64)>> {
        let reply = STATE.run(&self.connection, &space.state, |_| ()).await?;
        let Value::Array(parts) = reply else {
            return Err(strange());
        };
        match &parts[..] {
            [] => Ok(None),
            [
                Value::BulkString(generation),
                Value::BulkString(upto),
                Value::BulkString(last),
            ] => {
                let upto = std::str::from_utf8(upto).ok();
                let at = CachePosition {
                    space: Arc::clone(space),
                    generation: generation.as_slice().into(),
                    number: upto
                        .and_then(|upto| upto.parse().ok())
                        .ok_or_else(strange)?,
                };
                Ok(Some((at, mark_of(last).ok_or_else(strange)?)))
            }
            _ => Err(strange()),
        }
    }

    /// Begins a generation at a position of the log, in the place of that one or
    /// of none; if another stands there by now, that one stays.
    pub(crate) async fn begin(
        &self,
        space: &Space,
        instead: Option<&CachePosition>,
        log: LogPosition,
    ) -> Result<()> {
        // Its first byte tells it from the subjects beside it.
        let generation = [&b"g"[..], &random::<16>()].concat();
        let mark = mark_member(log.mark);
        let args = |args: &mut Pipeline| {
            args.arg(instead.map_or(&[][..], |at| &*at.generation));
            args.arg(&generation)
                .arg(log.number)
                .arg(STATE_MS)
                .arg(&mark);
        };
        BEGIN.is_done(&self.connection, &space.state, args).await?;
        Ok(())
    }
}

/// Where the copies of one catalog and log lie.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) log: LogId,
    prefix: String,
    state: String,
}

impl Space {
    pub(crate) fn new(catalog: CatalogId, log: LogId) -> Self {
        let [catalog, id] =
            [catalog.0, log.0].map(|id| format!("{:032x}", u128::from_be_bytes(id)));
        let prefix = format!("sekisho:{FORM}:{catalog}:{id}:");
        Self {
            log,
            state: format!("{prefix}state"),
            prefix,
        }
    }
}

/// A generation, and a number of the catalog's log in it. What a lookup may take
/// from Redis and put there is fixed by one before the catalog is asked, since a
/// fill is right only in the generation that was compared with the log by then.
#[derive(Clone, Debug)]
pub(crate) struct CachePosition {
    pub(super) space: Arc<Space>,
    /// The name of the generation.
    pub(super) generation: Arc<[u8]>,
    pub(super) number: u64,
}

/// Reply of the server about a name.
pub(crate) enum Got {
    Found(Box<Found<SealedBytes>>),
    Miss,
    /// Something lies there that is not what it should be.
    Damaged(FormError),
    /// The state is not as far as the reader, or there is none.
    Behind,
}

/// The last member of the state, by its score: the mark of the change `upto`.
fn mark_member(mark: u64) -> [u8; 9] {
    let mut member = [b'm'; 9];
    member[1..].copy_from_slice(&mark.to_be_bytes());
    member
}

fn mark_of(member: &[u8]) -> Option<u64> {
    let (b'm', mark) = member.split_first()? else {
        return None;
    };
    Some(u64::from_be_bytes(mark.try_into().ok()?))
}

/// A day, less up to a tenth of it, so that what was filled together does not
/// go together.
fn kept_ms() -> u64 {
    ENTRY_MS - u64::from(u32::from_le_bytes(random())) % (ENTRY_MS / 10)
}

static GET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("get.lua")));
static FILL: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("fill.lua")));
static ADVANCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("advance.lua")));
static STATE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("state.lua")));
static BEGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("begin.lua")));
/// Subjects that the state remembers, some 2 MiB in Redis. During a bulk
/// import they are the last half second: a longer load does not fill.
const REMEMBERED: u64 = 16_384;
const ENTRY_MS: u64 = 24 * 3600 * 1000;
/// Outlives every entry, and is prolonged with each write.
const STATE_MS: u64 = 2 * ENTRY_MS;
