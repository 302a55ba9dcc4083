//! Methods of `tls`: what a handshake gets.

use std::sync::Arc;
use std::time::Instant as Began;

use mlua::{Error, Lua, MultiValue, Result, Table, Value};
use sekisho_certs::{HostName, Secret, Tenant};

use super::alert;
use super::arguments::{Arguments, MAX_KEY};
use super::waiting::{Begun, Reply, Waiting};
use crate::choice::{Choice, Source};
use crate::files::Unread;
use crate::imports::{Found, Imports};
use crate::report::Called;
use crate::run::load::{cached, kept};
use crate::run::state::Current;
use crate::run::{Part, Run};

/// Makes the table of methods.
pub(super) fn methods<I: Imports>(
    lua: &Lua,
    current: &Arc<Current<I>>,
    waiting: &Waiting<'_, I>,
) -> Result<Table> {
    let methods = lua.create_table()?;
    choices(lua, current, &methods)?;
    owners(lua, current, &methods)?;
    let lookup = waiting.known_first(&waiting.lookup, known, lookup)?;
    methods.raw_set("lookup", lookup)?;
    let cached = waiting.known_first(&waiting.cached, kept_by, cached_by)?;
    methods.raw_set("cached", cached)?;
    for (name, full_name) in [("certificate", "tls:certificate"), ("certificate_key", KEY)] {
        let function = waiting.function(move |run, given| certificate(run, full_name, given))?;
        methods.raw_set(name, function)?;
    }
    Ok(methods)
}

/// `tls:use`, `tls:default`, `tls:refuse`.
fn choices<I: Imports>(lua: &Lua, current: &Arc<Current<I>>, methods: &Table) -> Result<()> {
    let of = Arc::clone(current);
    let function = lua.create_function(move |_, given: MultiValue| {
        let mut arguments = Arguments::of_method("tls:use", given)?;
        let name = host_name(&mut arguments)?;
        arguments.end()?;
        choose(&*of.run()?, Choice::Use(name))
    })?;
    methods.raw_set("use", function)?;
    let of = Arc::clone(current);
    let function = lua.create_function(move |_, given: MultiValue| {
        Arguments::of_method("tls:default", given)?.end()?;
        choose(&*of.run()?, Choice::Default)
    })?;
    methods.raw_set("default", function)?;
    let of = Arc::clone(current);
    let function = lua.create_function(move |_, given: MultiValue| {
        let mut arguments = Arguments::of_method("tls:refuse", given)?;
        let alert = match arguments.next() {
            Value::Nil => alert::UNRECOGNIZED_NAME,
            value => alert::parse(&value).ok_or_else(|| {
                arguments.wrong(
                    "alert",
                    "a name such as \"unrecognized_name\", or its number",
                )
            })?,
        };
        arguments.end()?;
        choose(&*of.run()?, Choice::Refuse(alert))
    })?;
    methods.raw_set("refuse", function)
}

/// `tls:tenant`, `tls:site`.
fn owners<I: Imports>(lua: &Lua, current: &Arc<Current<I>>, methods: &Table) -> Result<()> {
    let of = Arc::clone(current);
    let function = lua.create_function(move |_, given: MultiValue| {
        let mut arguments = Arguments::of_method("tls:tenant", given)?;
        let name = arguments.utf8("tenant", MAX_TENANT)?;
        let tenant = Tenant::parse(&name).map_err(Error::RuntimeError)?;
        arguments.end()?;
        let own = of.run()?.own(|owner| owner.tenant = tenant);
        own.map_err(|what| arguments.error(what, OWNER_FIRST))
    })?;
    methods.raw_set("tenant", function)?;
    let of = Arc::clone(current);
    let function = lua.create_function(move |_, given: MultiValue| {
        let mut arguments = Arguments::of_method("tls:site", given)?;
        let json = arguments.utf8("site", MAX_SITE)?;
        arguments.end()?;
        let own = of.run()?.own(|owner| owner.site = Some(json.into()));
        own.map_err(|what| arguments.error(what, OWNER_FIRST))
    })?;
    methods.raw_set("site", function)
}

/// Returns whether a name has a certificate, if the shared cache knows it.
#[expect(clippy::unnecessary_wraps, reason = "as all functions that know")]
fn known<I: Imports>(run: &Run<I>, name: &[u8]) -> Result<Option<bool>> {
    let Some(hello) = run.hello.as_ref().filter(|_| run.report.is_none()) else {
        return Ok(None);
    };
    let imports = &run.shared.imports;
    let own = hello.server_name.as_ref();
    if let Some(own) = own.filter(|own| own.as_str().as_bytes() == name) {
        return Ok(imports.cached(own));
    }
    let name = std::str::from_utf8(name).ok();
    let name = name.filter(|name| name.len() <= MAX_NAME);
    let name = name.and_then(|name| HostName::parse(name).ok());
    Ok(name.and_then(|name| imports.cached(&name)))
}

fn lookup<I: Imports>(run: &Arc<Run<I>>, given: MultiValue) -> Result<Begun> {
    let mut arguments = Arguments::of_method("tls:lookup", given)?;
    let name = host_name(&mut arguments)?;
    arguments.end()?;
    let Some(hello) = &run.hello else {
        return Err(arguments.error("needs a client", "call it within handshake"));
    };
    run.calls().map_err(Error::RuntimeError)?;
    let client = hello.facts.client.ip();
    let run = Arc::clone(run);
    Ok(Begun::waits(async move {
        let began = run.report.as_ref().map(|_| Began::now());
        let call = run.shared.imports.lookup(&name, client);
        let is_outage = |found: &_| matches!(found, Found::Failed(_));
        let found = run.token().ask(call, is_outage).await;
        if let Some(began) = began {
            let called = Called {
                what: format!("tls:lookup({})", name.as_str()),
                took: began.elapsed(),
                answer: found.as_str().into(),
            };
            run.report(|report| report.calls.push(called));
        }
        Ok(Reply::Lookup(found))
    }))
}

/// Takes what the region has under a key, where the run may.
fn kept_by<I: Imports>(run: &Run<I>, key: &[u8]) -> Result<Option<bool>> {
    let may = run.key.is_none() && run.hello.is_some() && !run.has_site() && !run.has_chosen();
    let key = std::str::from_utf8(key).ok();
    match key.filter(|key| may && (1..=MAX_KEY).contains(&key.len())) {
        Some(key) => kept(run, key),
        None => Ok(None),
    }
}

fn cached_by<I: Imports>(run: &Arc<Run<I>>, given: MultiValue) -> Result<Begun> {
    let mut arguments = Arguments::of_method("tls:cached", given)?;
    let key = arguments.key()?;
    let ttl = arguments.ttl()?;
    let function = arguments.function()?;
    arguments.end()?;
    if run.key.is_some() {
        return Err(arguments.error("can't be nested", "call one after the other"));
    }
    if run.hello.is_none() {
        return Err(arguments.error("needs a client", "call it within handshake"));
    }
    if run.has_site() {
        let what = "would give this site to all who ask for the key";
        return Err(arguments.error(what, "call tls:site within the function"));
    }
    if run.has_chosen() {
        return Err(arguments.error("would choose twice", "return once something is chosen"));
    }
    let run = Arc::clone(run);
    Ok(Begun::waits(async move {
        Ok(Reply::Done(cached(&run, &key, ttl, function).await?))
    }))
}

/// Adds a certificate or a key: PEM, or the path of a file. The answer is false if there
/// is no such file.
fn certificate<I: Imports>(
    run: &Arc<Run<I>>,
    function: &'static str,
    given: MultiValue,
) -> Result<Begun> {
    let mut arguments = Arguments::of_method(function, given)?;
    let is_key = function == KEY;
    let given = arguments.text("path or PEM", MAX_PEM)?;
    arguments.end()?;
    let is_pem = given.windows(BEGIN.len()).any(|at| at == BEGIN);
    if !is_pem {
        run.calls().map_err(Error::RuntimeError)?;
        let run = Arc::clone(run);
        return Ok(Begun::waits(
            async move { file(&run, function, &given).await },
        ));
    }
    let part = match is_key {
        true => Part::Key(Secret::new(given)),
        false => Part::Chain(given),
    };
    add(run, function, part)?;
    Ok(Begun::Answer(true))
}

/// Adds a certificate or a key of a file.
async fn file<I: Imports>(run: &Run<I>, function: &'static str, path: &[u8]) -> Result<Reply> {
    run.admitted(run.deadline).await?;
    let is_key = function == KEY;
    let is_outage = |read: &_| matches!(read, Err(Unread::Failed(_)));
    let read = run
        .token()
        .ask(run.shared.folders.read(path), is_outage)
        .await;
    let part = match read {
        Ok(content) if is_key => Part::Key(content),
        Ok(content) => Part::Chain(content.expose().to_vec()),
        Err(Unread::Absent) => return Ok(Reply::Done(false)),
        Err(Unread::Failed(why)) => {
            // A key in another form than PEM must not come into a log.
            let path = match is_key {
                true => "neither PEM nor a file that".into(),
                false => format!("{:?}", String::from_utf8_lossy(path)),
            };
            let what = format!("{function}: {path} can't be read: {why}");
            return Err(Error::RuntimeError(what));
        }
    };
    add(run, function, part)?;
    Ok(Reply::Done(true))
}

fn add<I: Imports>(run: &Run<I>, function: &str, part: Part) -> Result<()> {
    let error = |what| Error::RuntimeError(format!("{function}: {what}"));
    run.add(part).map_err(error)
}

fn choose<I: Imports>(run: &Run<I>, choice: Choice<I::Made>) -> Result<()> {
    run.choose(choice, None, Source::Script)
        .map_err(Error::RuntimeError)
}

fn host_name(arguments: &mut Arguments) -> Result<HostName> {
    let name = arguments.utf8("name", MAX_NAME)?;
    HostName::parse(&name).map_err(|error| {
        let what = format!("needs a host name: {error}");
        arguments.error(&what, "a name such as shop.example")
    })
}

const OWNER_FIRST: &str = "call it before the choice, or within the function of tls:cached";
const KEY: &str = "tls:certificate_key";
const BEGIN: &[u8] = b"-----BEGIN ";
/// Bytes of a name as written, Unicode too.
const MAX_NAME: usize = 1024;
const MAX_TENANT: usize = 128;
const MAX_SITE: usize = 256 * 1024;
/// Bytes of PEM, as of files: a chain with many certificates has 64 KiB.
const MAX_PEM: usize = 256 * 1024;
