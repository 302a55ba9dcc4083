//! What a Redis server holds for the cache: copies of what the catalog holds, as
//! it stood at one number of the catalog's log.
//!
//! Under a prefix of the form of values, the catalog and its log lie
//!
//! | key | holds |
//! | --- | --- |
//! | `h:PATTERN` | a record and the ids of its credentials |
//! | `c:ID` | a credential with its sealed key, shared by all hosts |
//! | `state` | a sorted set: the generation, `upto` with its mark, `floor`, and the last subjects that changed, each with the number of its last change |
//!
//! Each value begins with the name of the generation in which it was written;
//! those of another are as if they were not there.
//!
//! What holds at every moment, since each script is one step:
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

use redis::Value;
use tokio::runtime::Handle;

use super::entry::{Entry, read, touched};
use super::script::{Arg, Script};
use crate::redis::connection::ReconnectingConnection;
use crate::redis::keys::Keys;
use crate::redis::url::Kind;
use crate::redis::{RedisUrl, single};
use crate::stored::{FORM, FormError};
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::store::{CatalogId, ChangePage, Found, LogId, LogPosition, Result, StoreError};

/// A Redis server that holds copies.
#[derive(Debug)]
pub struct CacheServer {
    link: ReconnectingConnection,
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
        match single(url, runtime) {
            Ok(Some(link)) => Ok(Self { link }),
            Ok(None) => Err(StoreError::Refused(
                "a Cluster can be no cache before a store".into(),
            )),
            Err(why) => Err(StoreError::Refused(why.into())),
        }
    }

    /// Whether there is a connection; waits for the first attempt to make one.
    ///
    /// # Errors
    /// Says why there is none.
    pub async fn reach(&self) -> Result<()> {
        self.link.connect().await.map(|_| ())
    }

    /// What answers a name, by a state of that generation that is at `least`
    /// or beyond.
    pub(crate) async fn get(
        &self,
        space: &Space,
        generation: &Generation,
        least: u64,
        name: &HostName,
    ) -> Result<Got> {
        let above = name.wildcard();
        let above = above.as_ref().map_or("", |above| above.as_str());
        let args = [
            Arg::Text(&space.prefix),
            Arg::Number(least),
            Arg::Text(name.as_str()),
            Arg::Text(above),
            Arg::Bytes(&generation.0),
        ];
        let answer = GET.run(&self.link, &space.state, &args).await?;
        let Value::Array(parts) = answer else {
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

    /// Stores what a load read that began when `seen` had been seen. False if
    /// something of it changed meanwhile, or may have.
    pub(crate) async fn fill(
        &self,
        space: &Space,
        generation: &Generation,
        seen: u64,
        entry: &Entry,
    ) -> Result<bool> {
        let mut args = vec![
            Arg::Text(&space.prefix),
            Arg::Number(seen),
            Arg::Number(entry.newest),
            Arg::Number(kept_ms()),
            Arg::Number(STATE_MS),
            Arg::Bytes(&generation.0),
        ];
        for (subject, bytes) in &entry.values {
            args.extend([Arg::Text(subject), Arg::Bytes(bytes)]);
        }
        Ok(FILL.step(self, space, &args).await? == Step::Done)
    }

    /// Carries these changes, the next ones behind the state, into it. False if
    /// the state is not that far yet, or there is none of that generation.
    pub(crate) async fn advance(
        &self,
        space: &Space,
        generation: &Generation,
        page: &ChangePage,
    ) -> Result<bool> {
        let changes = &page.changes;
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return Ok(true);
        };
        let touched = touched(changes);
        let mark = mark_member(page.mark_last.unwrap_or(0));
        let mut args = vec![
            Arg::Text(&space.prefix),
            Arg::Number(first.number - 1),
            Arg::Number(last.number),
            Arg::Number(REMEMBERED),
            Arg::Number(STATE_MS),
            Arg::Bytes(&generation.0),
            Arg::Bytes(&mark),
        ];
        for (subject, number) in &touched {
            args.extend([Arg::Text(subject), Arg::Number(*number)]);
        }
        Ok(ADVANCE.step(self, space, &args).await? == Step::Done)
    }

    /// How far the state is; none if there is none.
    pub(crate) async fn state(&self, space: &Space) -> Result<Option<State>> {
        let answer = STATE.run(&self.link, &space.state, &[]).await?;
        let Value::Array(parts) = answer else {
            return Err(strange());
        };
        match &parts[..] {
            [] => Ok(None),
            [
                Value::BulkString(generation),
                Value::BulkString(upto),
                Value::BulkString(last),
            ] => Ok(Some(State {
                generation: Generation(generation.as_slice().into()),
                upto: number(upto).ok_or_else(strange)?,
                mark: mark_of(last),
            })),
            _ => Err(strange()),
        }
    }

    /// Begins a generation at a number, in the place of that one or of none;
    /// if another stands there by now, that one stays, and this gives false.
    pub(crate) async fn begin(
        &self,
        space: &Space,
        instead: Option<&State>,
        at: LogPosition,
    ) -> Result<bool> {
        // Its first byte tells it from the subjects beside it.
        let mut generation = [b'g'; 17];
        aws_lc_rs::rand::fill(&mut generation[1..]).expect("the system gives random bytes");
        let mark = mark_member(at.mark);
        let args = [
            Arg::Bytes(instead.map_or(&[], |state| &state.generation.0)),
            Arg::Bytes(&generation),
            Arg::Number(at.number),
            Arg::Number(STATE_MS),
            Arg::Bytes(&mark),
        ];
        Ok(BEGIN.step(self, space, &args).await? == Step::Done)
    }
}

/// Where the copies of one catalog and log lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    prefix: String,
    state: String,
}

impl Space {
    pub(crate) fn new(catalog: CatalogId, log: LogId) -> Self {
        let [catalog, log] =
            [catalog.0, log.0].map(|id| format!("{:032x}", u128::from_be_bytes(id)));
        let prefix = format!("sekisho:{FORM}:{catalog}:{log}:");
        Self {
            state: format!("{prefix}state"),
            prefix,
        }
    }
}

/// What the server holds for a name.
pub(crate) enum Got {
    Found(Box<Found<SealedBytes>>),
    Miss,
    /// Something lies there that is not what it should be.
    Damaged(FormError),
    /// The state is not as far as the reader, or there is none.
    Behind,
}

/// Which generation it is, and how far.
pub(crate) struct State {
    pub(crate) generation: Generation,
    pub(crate) upto: u64,
    /// The mark of the change `upto`; none if an older version wrote the state.
    pub(crate) mark: Option<u64>,
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

/// The name of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation(Arc<[u8]>);

#[derive(PartialEq, Eq)]
enum Step {
    Done,
    NotDone,
}

impl Script {
    /// Runs one that answers with a word.
    async fn step(&self, server: &CacheServer, space: &Space, args: &[Arg<'_>]) -> Result<Step> {
        match self.run(&server.link, &space.state, args).await? {
            Value::BulkString(word) if word == b"done" => Ok(Step::Done),
            Value::BulkString(_) => Ok(Step::NotDone),
            _ => Err(strange()),
        }
    }
}

/// A score of a sorted set.
fn number(text: &[u8]) -> Option<u64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_number = (0.0..=MOST_NUMBER).contains(&score);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "its range was just checked"
    )]
    is_number.then_some(score as u64)
}

/// A day, less up to a tenth of it, so that what was filled together does not
/// go together.
fn kept_ms() -> u64 {
    let mut random = [0; 4];
    aws_lc_rs::rand::fill(&mut random).expect("the system gives random bytes");
    ENTRY_MS - u64::from(u32::from_le_bytes(random)) % (ENTRY_MS / 10)
}

fn strange() -> StoreError {
    StoreError::Unavailable("Redis answered in a form that was not asked for".into())
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
/// Beyond it a score is no longer exact.
const MOST_NUMBER: f64 = 9_007_199_254_740_992.0;
