//! A call of a script's function: one coroutine, within its bounds.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mlua::function::AsyncCallFuture;
use mlua::{Function, IntoLuaMulti};
use tokio::select;
use tokio::time::timeout_at;

use crate::failure::Failure;
use crate::imports::Imports;
use crate::run::Run;

/// Calls `function` in the run's state, in a coroutine of its own, until it returns
/// or meets a bound. What it chose stands in the run.
pub(crate) async fn call<I: Imports>(
    run: &Arc<Run<I>>,
    function: &Function,
    arguments: impl IntoLuaMulti,
) -> Result<(), Failure> {
    let mut called = Called {
        future: function.call_async::<()>(arguments),
        run,
        used: Duration::ZERO,
        has_waited: false,
    };
    let result = select! {
        biased;
        result = timeout_at(run.deadline, &mut called) => {
            result.unwrap_or(Err(Failure::Deadline))
        }
        () = run.state.ends() => Err(Failure::BrokenOff),
    };
    let used = called.used;
    // Ends the coroutine of a call that was cut short, while its run is known.
    drop(called);
    run.report(|report| report.cpu += used);
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

/// Future of a call. While it is polled, the run is its state's current one.
struct Called<'a, I: Imports> {
    future: AsyncCallFuture<()>,
    run: &'a Arc<Run<I>>,
    /// CPU time of the polls so far.
    used: Duration,
    has_waited: bool,
}

/// Gives the coroutine that is dropped time to drop what it waited for. The meter may
/// stand at the cut of another run.
impl<I: Imports> Drop for Called<'_, I> {
    fn drop(&mut self) {
        let cpu = self.run.shared.settings.cpu;
        self.run.state.meter.begin(cpu, false);
    }
}

impl<I: Imports> Future for Called<'_, I> {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let run = self.run;
        let state = &run.state;
        let left = run.shared.settings.cpu.saturating_sub(self.used);
        state.meter.begin(left, self.has_waited);
        state.current.set(Some(Arc::clone(run)));
        let polled = Pin::new(&mut self.future).poll(context);
        state.current.set(None);
        let (used, is_cut) = state.meter.end();
        self.used += used;
        if is_cut {
            // A script may have caught the error: what it did then does not count.
            let mut error = run
                .shared
                .program
                .error("the script took too much CPU time");
            error.hint = "[hook] cpu".into();
            error.line = state.meter.line();
            return Poll::Ready(Err(Failure::Cpu(error)));
        }
        match polled {
            Poll::Ready(result) => {
                let script = &run.shared.program.name;
                Poll::Ready(result.map_err(|error| Failure::of(&error, script)))
            }
            Poll::Pending if self.has_waited => Poll::Pending,
            Poll::Pending => {
                self.has_waited = true;
                match run.waits() {
                    Ok(()) => Poll::Pending,
                    Err(overloaded) => Poll::Ready(Err(overloaded)),
                }
            }
        }
    }
}
