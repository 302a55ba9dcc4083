//! Functions that may wait: a future outside of Luau, and a coroutine that yields.
//!
//! Each has three parts. A function of Rust reads the arguments; it returns the answer
//! if there is one, else it leaves a future with the state. Then its wrapper in Luau
//! yields, and the call polls the future (see [`call`](crate::run::call)). With the future's
//! reply the coroutine goes on, and `finish` turns the reply into values. mlua's async
//! functions do that with a userdata and four calls for each, answered at once or not.

use std::future::Future;
use std::sync::Arc;

use mlua::{BString, Function, IntoLua, Lua, MultiValue, Result, Table, Value};

use super::{http, redis, sql};
use crate::imports::{Found, HttpAnswer, Imports, RedisReply, SqlRow};
use crate::run::Run;
use crate::run::state::{Current, Wait};

/// Reply that a run waited for.
pub(crate) enum Reply {
    Done(bool),
    Lookup(Found),
    Redis(RedisReply),
    Http(HttpAnswer),
    Rows(Vec<SqlRow>),
}

/// Begin of a function that may wait.
pub(super) enum Begun {
    /// The answer is there.
    Answer(bool),
    Waits(Wait),
}

impl Begun {
    pub(super) fn waits(wait: impl Future<Output = Result<Reply>> + Send + 'static) -> Self {
        Self::Waits(Box::pin(wait))
    }
}

/// Makes functions that may wait.
pub(super) struct Waiting<'a, I: Imports> {
    lua: &'a Lua,
    current: &'a Arc<Current<I>>,
    usual: Function,
    pub(super) lookup: Function,
    pub(super) cached: Function,
}

impl<'a, I: Imports> Waiting<'a, I> {
    pub(super) fn new(lua: &'a Lua, current: &'a Arc<Current<I>>) -> Result<Self> {
        let of = Arc::clone(current);
        let finish = lua.create_function(move |lua, ()| of.reply()?.values(lua))?;
        let coroutine: Table = lua.globals().raw_get("coroutine")?;
        let r#yield: Function = coroutine.raw_get("yield")?;
        let wrappers = lua.load(WRAPPERS).set_name("=prelude");
        let (usual, lookup, cached) = wrappers.call((finish, r#yield))?;
        Ok(Self {
            lua,
            current,
            usual,
            lookup,
            cached,
        })
    }

    /// Makes a function whose answer at once is a boolean.
    pub(super) fn function(
        &self,
        begin: impl Fn(&Arc<Run<I>>, MultiValue) -> Result<Begun> + Send + 'static,
    ) -> Result<Function> {
        self.usual.call(self.begin(begin)?)
    }

    /// Makes a function with a wrapper of its own: `known` has the answers at once.
    pub(super) fn known_first(
        &self,
        wrapper: &Function,
        known: impl Fn(&Run<I>, &[u8]) -> Result<Option<bool>> + Send + 'static,
        begin: impl Fn(&Arc<Run<I>>, MultiValue) -> Result<Begun> + Send + 'static,
    ) -> Result<Function> {
        let of = Arc::clone(self.current);
        let known = move |_: &Lua, text: BString| known(&*of.run()?, &text);
        let known = self.lua.create_function(known)?;
        wrapper.call((known, self.begin(begin)?))
    }

    fn begin(
        &self,
        begin: impl Fn(&Arc<Run<I>>, MultiValue) -> Result<Begun> + Send + 'static,
    ) -> Result<Function> {
        let of = Arc::clone(self.current);
        self.lua.create_function(move |_, given: MultiValue| {
            Ok(match begin(&of.run()?, given)? {
                Begun::Answer(answer) => Value::Boolean(answer),
                Begun::Waits(wait) => {
                    of.wait(wait);
                    Value::Nil
                }
            })
        })
    }
}

impl Reply {
    /// Makes the values that the script's call returns.
    fn values(self, lua: &Lua) -> Result<MultiValue> {
        let one = |value: Value| Ok([value].into_iter().collect());
        match self {
            Self::Done(done) => one(Value::Boolean(done)),
            Self::Lookup(found) => {
                let word = found.as_str().into_lua(lua)?;
                let why = match found {
                    Found::Found | Found::Absent => Value::Nil,
                    Found::Failed(why) => why.into_lua(lua)?,
                };
                Ok([word, why].into_iter().collect())
            }
            Self::Redis(reply) => redis::values(lua, reply),
            Self::Http(answer) => one(Value::Table(http::table(lua, answer)?)),
            Self::Rows(rows) => one(sql::tables(lua, rows)?.into_lua(lua)?),
        }
    }
}

const WRAPPERS: &str = include_str!("waiting.luau");
