//! Luau state: one per worker and hook, made by the first call on the worker.

mod slots;
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Thread, VmState};
use sekisho_certs::{Prefix, lock};
use tokio::time::Instant;

use crate::error::Error;
use crate::failure::located;
use crate::imports::Imports;
use crate::meter::Meter;
use crate::run::Run;
use crate::run::api::{self, Reply};
use crate::shared::Shared;
use crate::worker_time::WorkerTime;
use slots::local;
use waiting::Waiting;

/// State with the script's functions.
pub(crate) struct State<I: Imports> {
    pub(crate) shared: Arc<Shared<I>>,
    pub(crate) lua: Lua,
    pub(crate) handshake: Function,
    pub(crate) test: Option<Function>,
    /// Argument of `handshake`. Its fields are those of the current run.
    pub(crate) tls: Table,
    pub(crate) meter: Arc<Meter>,
    pub(crate) current: Arc<Current<I>>,
    /// Coroutines for the next runs.
    coroutines: Mutex<Vec<Thread>>,
    /// Time of the worker, which its states share.
    pub(crate) time: Arc<WorkerTime>,
    pub(crate) waiting: Waiting,
    /// Bytes of memory after the last stretch. Relaxed: one thread runs a state.
    memory: AtomicUsize,
}

/// Stretch of a run that a state executes at present. Functions of the script's API act
/// on the run, whichever `tls` they were called with.
pub(crate) struct Current<I: Imports>(Mutex<Stretch<I>>);

/// Part of a run between two waits.
struct Stretch<I: Imports> {
    run: Option<Arc<Run<I>>>,
    /// Reply to what the run has waited for.
    reply: Option<mlua::Result<Reply>>,
    /// Future that the run goes on with.
    wait: Option<Wait>,
}

/// Future that a run waits for.
pub(crate) type Wait = BoxFuture<'static, mlua::Result<Reply>>;

impl<I: Imports> State<I> {
    /// Returns this worker's state of a hook, and makes it if there is none. A failure
    /// is remembered: the main chunk has much CPU time, and must not take it in each
    /// handshake.
    ///
    /// # Errors
    /// Says what is wrong with the script, or that memory did not suffice.
    pub(crate) fn of_worker(shared: &Arc<Shared<I>>) -> Result<Arc<Self>, Error> {
        if let Some(state) = local(shared, |slot| slot.state.clone()) {
            return Ok(state);
        }
        let failed = local(shared, |slot| slot.failed.clone());
        if let Some((error, _)) = failed.filter(|(_, until)| Instant::now() < *until) {
            return Err(error);
        }
        let time = local(shared, |slot| Arc::clone(&slot.time));
        let made = Self::new(shared, time).map(Arc::new);
        local(shared, |slot| match &made {
            Ok(state) => (slot.state, slot.failed) = (Some(Arc::clone(state)), None),
            Err(error) => {
                let until = Instant::now() + shared.settings.failed;
                slot.failed = Some((error.clone(), until));
            }
        });
        made
    }

    /// Makes a state and runs the script's main chunk in it.
    pub(crate) fn new(shared: &Arc<Shared<I>>, time: Arc<WorkerTime>) -> Result<Self, Error> {
        let meter = Arc::new(Meter::default());
        let current = Arc::new(Current::default());
        let name = &shared.program.name;
        let made = (|| {
            let lua = Lua::new_with(libraries(), LuaOptions::new())?;
            lua.set_memory_limit(shared.settings.memory)?;
            api::install_prelude(&lua, &meter, name)?;
            let tls = api::install(&lua, &current)?;
            interrupts(&lua, &meter, name);
            lua.sandbox(true)?;
            meter.begin(shared.settings.cpu.saturating_mul(MAIN), false);
            let chunk = lua.load(&shared.program.bytecode[..]);
            chunk.set_name(format!("={name}")).exec()?;
            let globals = lua.globals();
            globals.set_readonly(true);
            Ok((lua, tls, globals))
        })();
        let (lua, tls, globals) = made.map_err(|error| located(&error, name))?;
        let function = |name: &str| globals.raw_get::<Option<Function>>(name).ok().flatten();
        let handshake = function("handshake").ok_or_else(|| Error {
            hint: "write `function handshake(tls) … end`, without `local`".into(),
            ..shared
                .program
                .error("the script has no function `handshake`")
        })?;
        let test = function("test");
        let memory = AtomicUsize::new(lua.used_memory());
        Ok(Self {
            shared: Arc::clone(shared),
            lua,
            handshake,
            test,
            tls,
            meter,
            current,
            coroutines: Mutex::default(),
            time,
            waiting: Waiting::default(),
            memory,
        })
    }

    /// Notes the memory in use. Returns by how many bytes it grew since the last time.
    pub(crate) fn note_memory(&self) -> isize {
        let now = self.lua.used_memory();
        now.wrapping_sub(self.memory.swap(now, Relaxed))
            .cast_signed()
    }

    /// Makes room once memory did not suffice for a run: breaks off runs of the networks
    /// that hold most, and collects garbage. `own` is the network of the run and what the
    /// run holds itself; without it, no run is broken off.
    pub(crate) fn make_room(&self, own: Option<(Option<Prefix>, usize)>) {
        // Not Tokio's clock, which tests pause: collecting takes real time.
        let begun = std::time::Instant::now();
        let memory = self.shared.settings.memory;
        let broken = own.map(|own| self.waiting.break_off(memory, own));
        for coroutine in broken.into_iter().flatten() {
            self.give_back(Some(coroutine), false);
        }
        self.collect_garbage();
        self.time.spend(begun.elapsed());
    }

    /// Takes this state out of use if the script itself keeps most of its memory: neither
    /// garbage nor runs that wait. The next run makes another state. Runs that wait here
    /// go on.
    pub(crate) fn retire_if_full(self: &Arc<Self>) {
        let room = self.shared.settings.memory / 4 * 3;
        let used = || self.memory.load(Relaxed);
        let is_full = || used() > room && used() - self.waiting.held().min(used()) > room;
        if !is_full() {
            return;
        }
        let begun = std::time::Instant::now();
        self.collect_garbage();
        self.time.spend(begun.elapsed());
        if is_full() {
            self.retire();
        }
    }

    /// Takes this state out of use, unless two older ones live: each has memory of its own.
    fn retire(self: &Arc<Self>) {
        let is_replaced = local(&self.shared, |slot| {
            slot.retired.retain(|older| older.strong_count() > 0);
            let may = slot.retired.len() < OLDER;
            let own = slot.state.take_if(|state| may && Arc::ptr_eq(state, self));
            slot.retired.extend(own.as_ref().map(Arc::downgrade));
            own.is_some()
        });
        if !is_replaced {
            return;
        }
        self.shared.metrics.replaced.inc();
        if let Some(others) = self.shared.replacements.allow() {
            let script = &*self.shared.program.name;
            let (kept, memory) = (self.memory.load(Relaxed), self.shared.settings.memory);
            tracing::warn!(
                script,
                kept,
                memory,
                others,
                "hook state replaced: the script keeps over three quarters of [hook] memory"
            );
        }
    }

    /// Collects all garbage. An error leaves it: nothing of ours runs meanwhile.
    fn collect_garbage(&self) {
        let _ = self.lua.gc_collect();
        self.note_memory();
    }

    /// Returns the bytes in use without garbage.
    pub(crate) fn kept(&self) -> usize {
        self.collect_garbage();
        self.memory.load(Relaxed)
    }

    /// Returns a coroutine that is about to call `function`.
    pub(crate) fn coroutine(&self, function: &Function) -> mlua::Result<Thread> {
        let kept = lock(&self.coroutines).pop();
        let Some(kept) = kept else {
            return self.lua.create_thread(function.clone());
        };
        self.reset(&kept, function.clone())?;
        Ok(kept)
    }

    /// Resets a coroutine. Its stack is made smaller outside of a protected call, where
    /// memory that lacks would end the process: there is no bound meanwhile.
    fn reset(&self, coroutine: &Thread, function: Function) -> mlua::Result<()> {
        let bound = self.lua.set_memory_limit(0)?;
        let reset = coroutine.reset(function);
        self.lua.set_memory_limit(bound)?;
        reset
    }

    /// Keeps a coroutine for the next runs. One that has not returned is reset: what its
    /// stack refers to can be freed.
    pub(crate) fn give_back(&self, coroutine: Option<Thread>, has_returned: bool) {
        let Some(coroutine) = coroutine else {
            return;
        };
        if !has_returned && self.reset(&coroutine, self.handshake.clone()).is_err() {
            return;
        }
        let mut coroutines = lock(&self.coroutines);
        if coroutines.len() < COROUTINES {
            coroutines.push(coroutine);
        }
    }
}

impl<I: Imports> Default for Current<I> {
    fn default() -> Self {
        Self(Mutex::new(Stretch {
            run: None,
            reply: None,
            wait: None,
        }))
    }
}

impl<I: Imports> Current<I> {
    /// Begins a stretch of a run, with the reply to what it has waited for.
    pub(crate) fn enter(&self, run: &Arc<Run<I>>, reply: Option<mlua::Result<Reply>>) {
        *lock(&self.0) = Stretch {
            run: Some(Arc::clone(run)),
            reply,
            wait: None,
        };
    }

    /// Ends the stretch. Returns what the run waits for.
    pub(crate) fn leave(&self) -> Option<Wait> {
        let mut stretch = lock(&self.0);
        stretch.run = None;
        stretch.reply = None;
        stretch.wait.take()
    }

    /// Returns the run.
    ///
    /// # Errors
    /// The script called a function of `tls` or of a client outside of a run.
    pub(crate) fn run(&self) -> mlua::Result<Arc<Run<I>>> {
        lock(&self.0).run.clone().ok_or_else(|| {
            mlua::Error::runtime("nothing is looked up here (call it within `handshake`)")
        })
    }

    /// Leaves a future for which the run is to wait.
    pub(crate) fn wait(&self, wait: Wait) {
        lock(&self.0).wait = Some(wait);
    }

    /// Takes the reply to what the run has waited for.
    ///
    /// # Errors
    /// Errors of the future, or there was none.
    pub(crate) fn reply(&self) -> mlua::Result<Reply> {
        let reply = lock(&self.0).reply.take();
        reply.unwrap_or_else(|| Err(mlua::Error::runtime("nothing was waited for")))
    }
}

fn interrupts(lua: &Lua, meter: &Arc<Meter>, script: &Arc<str>) {
    let (meter, script) = (Arc::clone(meter), Arc::clone(script));
    lua.set_interrupt(move |lua| {
        let was_cut = meter.is_cut();
        if !meter.is_over() {
            return Ok(VmState::Continue);
        }
        let line = match was_cut {
            true => meter.line(),
            false => line_of(lua, &script),
        };
        meter.note(line.unwrap_or(0));
        // Text as Luau writes it, with the position first.
        let position = line.map(|line| format!("{script}:{line}: "));
        let position = position.unwrap_or_default();
        Err(mlua::Error::RuntimeError(format!("{position}{CUT}")))
    });
}

/// Returns the line of the script that runs, also below functions that it called.
fn line_of(lua: &Lua, script: &str) -> Option<u32> {
    let of_script = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source().short_src;
            let line = frame
                .current_line()
                .filter(|_| source.as_deref() == Some(script));
            line.and_then(|line| u32::try_from(line).ok())
        })
    };
    (0..DEPTH).map_while(of_script).flatten().next()
}

/// Returns the libraries that scripts may have: neither `os` nor `debug`. `coroutine` is
/// removed once the API is installed.
fn libraries() -> StdLib {
    let text = StdLib::STRING | StdLib::UTF8 | StdLib::BUFFER;
    StdLib::COROUTINE | StdLib::TABLE | StdLib::BIT | StdLib::MATH | text
}

pub(crate) const CUT: &str = "the script took too much CPU time ([hook] cpu)";
/// Frames searched for a line of the script.
const DEPTH: usize = 8;
/// Coroutines kept for the next runs.
const COROUTINES: usize = 64;
/// Older states of a worker in which runs may still wait.
const OLDER: usize = 2;
/// Budgets of CPU time that the main chunk has: it runs once per state.
const MAIN: u32 = 10;
