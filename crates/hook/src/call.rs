//! A call of a script's function: one coroutine, within its bounds.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mlua::{Function, IntoLuaMulti, Thread};
use tokio::select;
use tokio::time::timeout_at;

use crate::api::Reply;
use crate::error::Error;
use crate::failure::Failure;
use crate::imports::Imports;
use crate::run::Run;
use crate::state::Wait;

/// Calls `function` in the run's state, in a coroutine of its own, until it returns
/// or meets a bound. What it chose stands in the run.
pub(crate) async fn call<I: Imports>(
    run: &Arc<Run<I>>,
    function: &Function,
    arguments: impl IntoLuaMulti,
) -> Result<(), Failure> {
    let result = match Called::begin(run, function, arguments) {
        Ok(None) => Ok(()),
        // Boxed: a run that waits for nothing has neither timer nor place.
        Ok(Some(called)) => Box::pin(called.go_on()).await,
        Err(failure) => Err(failure),
    };
    if result.as_ref().is_err_and(Failure::spoils_state) || is_full(run) {
        run.state.retire();
    }
    result
}

/// Tells whether the script keeps most of its state's memory. Garbage alone does not
/// count.
fn is_full<I: Imports>(run: &Run<I>) -> bool {
    let lua = &run.state.lua;
    let room = run.shared.settings.memory / 4 * 3;
    lua.used_memory() > room && (lua.gc_collect().is_err() || lua.used_memory() > room)
}

/// Coroutine of a call. While it is resumed, the run is its state's current one.
struct Called<'a, I: Imports> {
    run: &'a Arc<Run<I>>,
    /// Coroutine of the run; none once it is given back.
    coroutine: Option<Thread>,
    /// Future that the coroutine waits for; none once it has ended.
    wait: Option<Wait>,
    /// CPU time so far.
    used: Duration,
    /// Set once the run has its place among those that wait.
    has_place: bool,
}

impl<'a, I: Imports> Called<'a, I> {
    /// Begins a call. Returns the coroutine if it waits, none if it has ended.
    fn begin(
        run: &'a Arc<Run<I>>,
        function: &Function,
        arguments: impl IntoLuaMulti,
    ) -> Result<Option<Self>, Failure> {
        let coroutine = run.state.coroutine(function);
        let coroutine = coroutine.map_err(|error| Failure::of(&error, &run.shared.program.name))?;
        let mut called = Self {
            run,
            coroutine: Some(coroutine),
            wait: None,
            used: Duration::ZERO,
            has_place: false,
        };
        // A report has the time of short runs, too.
        run.state.meter.begin(called.left(), run.report.is_some());
        called.resume(arguments, None)?;
        Ok(called.wait.is_some().then_some(called))
    }

    /// Goes on until the coroutine has ended, or a bound is met.
    async fn go_on(mut self) -> Result<(), Failure> {
        let run = self.run;
        let ended = poll_fn(|context| self.poll(context));
        select! {
            biased;
            result = timeout_at(run.deadline, ended) => {
                result.unwrap_or(Err(Failure::Deadline))
            }
            () = run.state.ends() => Err(Failure::BrokenOff),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while let Some(mut wait) = self.wait.take() {
            let Poll::Ready(reply) = wait.as_mut().poll(context) else {
                self.wait = Some(wait);
                if !self.has_place {
                    self.run.waits()?;
                    self.has_place = true;
                }
                return Poll::Pending;
            };
            // Measured from here on: many short stretches are cut, too.
            self.run.state.meter.begin(self.left(), true);
            self.resume((), Some(reply))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Resumes the coroutine until it ends or waits.
    fn resume(
        &mut self,
        arguments: impl IntoLuaMulti,
        reply: Option<mlua::Result<Reply>>,
    ) -> Result<(), Failure> {
        let (run, state) = (self.run, &self.run.state);
        let coroutine = || self.coroutine.as_ref().expect("the call has not ended");
        state.current.enter(run, reply);
        let resumed = coroutine().resume::<()>(arguments);
        // Where no function can yield, as in a comparison of table.sort, an error leaves
        // a future for which no coroutine waits.
        let wait = state.current.leave();
        let wait = wait.filter(|_| coroutine().is_resumable());
        if self.spend() {
            // A script may have caught the error: what it did then does not count.
            return Err(self.cut());
        }
        resumed.map_err(|error| Failure::of(&error, &run.shared.program.name))?;
        self.wait = wait;
        if self.wait.is_none() {
            state.give_back(self.coroutine.take(), true);
        }
        Ok(())
    }

    /// Ends a stretch. Returns whether it was cut.
    fn spend(&mut self) -> bool {
        let (used, is_cut) = self.run.state.meter.end();
        self.used += used;
        self.run.report(|report| report.cpu += used);
        is_cut
    }

    /// Returns the CPU time that is left.
    fn left(&self) -> Duration {
        self.run.shared.settings.cpu.saturating_sub(self.used)
    }

    fn cut(&self) -> Failure {
        let program = &self.run.shared.program;
        Failure::Cpu(Error {
            hint: "[hook] cpu".into(),
            line: self.run.state.meter.line(),
            ..program.error("the script took too much CPU time")
        })
    }
}

/// Gives back the coroutine of a call that failed or was dropped.
impl<I: Imports> Drop for Called<'_, I> {
    fn drop(&mut self) {
        self.run.state.give_back(self.coroutine.take(), false);
    }
}
