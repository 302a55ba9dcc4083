//! A call of a script's function: one coroutine, within its bounds.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mlua::{Function, IntoLuaMulti, Thread};
use sekisho_certs::Prefix;
use sekisho_gate::Permit;
use tokio::task::yield_now;
use tokio::time::timeout_at;

use crate::error::Error;
use crate::failure::Failure;
use crate::imports::Imports;
use crate::run::Run;
use crate::run::api::Reply;
use crate::run::state::Wait;

/// Calls `function` in the run's state, in a coroutine of its own, until it returns
/// or meets a bound. What it chose stands in the run.
///
/// A run that failed with [`Failure::Memory`] and took little itself may begin again
/// once: there is room then.
pub(crate) async fn call<I: Imports>(
    run: &Arc<Run<I>>,
    function: &Function,
    arguments: impl IntoLuaMulti,
) -> Result<(), Failure> {
    let permit = take_permit(run).await?;
    let begun = Called::begin(run, function, arguments);
    end_stretch(run, permit, has_ended(&begun)).await;
    let Some(called) = begun? else {
        return Ok(());
    };
    // Boxed: a run that waits for nothing has neither timer nor permit.
    let ended = Box::pin(called.go_on()).await;
    if let Err(Failure::Timeout | Failure::Overloaded | Failure::BrokenOff) = ended {
        // Ended while it waited: no permit counts the collection.
        run.state.retire_if_full();
    }
    ended
}

/// Waits for the worker's permit if runs take much of its time.
async fn take_permit<I: Imports>(run: &Run<I>) -> Result<Option<Permit<Prefix>>, Failure> {
    let time = &run.state.time;
    let Some(hello) = run.hello.as_ref().filter(|_| time.is_busy()) else {
        return Ok(None);
    };
    // Boxed: runs of a worker that is not busy have no room for it.
    let permit = Box::pin(time.permit(hello.facts.client.ip().into(), run.deadline));
    permit.await.map(Some).map_err(|_| Failure::Overloaded)
}

/// Ends a stretch and passes its permit on. What the end of a run takes counts as well: its
/// own network rests after a long collection of garbage.
///
/// While runs take much of the worker's time, it first looks at its sockets: Tokio by
/// itself looks once per 61 polls, each of which may be a stretch.
async fn end_stretch<I: Imports>(run: &Run<I>, permit: Option<Permit<Prefix>>, has_ended: bool) {
    if has_ended {
        run.state.retire_if_full();
    }
    let time = &run.state.time;
    let is_busy = permit.is_some() || time.is_busy();
    if let Some(permit) = permit {
        time.pass_on(permit);
    }
    if is_busy {
        yield_now().await;
    }
}

/// Coroutine of a call. While it is resumed, the run is its state's current one.
struct Called<'a, I: Imports> {
    run: &'a Arc<Run<I>>,
    /// Coroutine of the run while it is resumed; none once it is given back.
    coroutine: Option<Thread>,
    /// Number of the run among those that wait in its state, which have their coroutines.
    number: Option<u64>,
    /// Future that the coroutine waits for; none once it has ended.
    wait: Option<Wait>,
    /// CPU time so far.
    used: Duration,
    /// Bytes by which the state's memory grew in the stretches so far.
    held: usize,
}

/// Call after a stretch: it waits, or has returned (none) or failed.
type Resumed<'a, I> = Result<Option<Called<'a, I>>, Failure>;

fn has_ended<I: Imports>(resumed: &Resumed<'_, I>) -> bool {
    !matches!(resumed, Ok(Some(_)))
}

impl<'a, I: Imports> Called<'a, I> {
    /// Begins a call.
    fn begin(
        run: &'a Arc<Run<I>>,
        function: &Function,
        arguments: impl IntoLuaMulti,
    ) -> Resumed<'a, I> {
        let mut called = Self {
            run,
            coroutine: None,
            number: None,
            wait: None,
            used: Duration::ZERO,
            held: 0,
        };
        let coroutine = run.state.coroutine(function);
        called.coroutine = Some(coroutine.map_err(|error| called.failed(&error))?);
        // A report has the time of short runs, too.
        run.state.meter.begin(called.left(), run.report.is_some());
        called.resume(arguments, None)
    }

    /// Goes on until the coroutine has ended, or a bound is met.
    async fn go_on(self) -> Result<(), Failure> {
        let run = self.run;
        let ended = async move {
            let mut called = self;
            loop {
                let reply = poll_fn(|context| called.poll(context)).await?;
                let permit = take_permit(run).await?;
                let resumed = called.go_on_with(reply);
                end_stretch(run, permit, has_ended(&resumed)).await;
                match resumed? {
                    Some(waits) => called = waits,
                    None => return Ok(()),
                }
            }
        };
        let ended = timeout_at(run.deadline, ended).await;
        ended.unwrap_or(Err(Failure::Timeout))
    }

    /// Polls what the coroutine waits for.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<mlua::Result<Reply>, Failure>> {
        let number = self.number.expect("the run waits");
        if !self.run.state.waiting.note(number, context.waker()) {
            return Poll::Ready(Err(Failure::BrokenOff));
        }
        let wait = self.wait.as_mut().expect("the run waits");
        let polled = wait.as_mut().poll(context);
        if polled.is_pending() {
            self.run.waits()?;
        }
        polled.map(Ok)
    }

    /// Goes on with the reply to what the coroutine has waited for.
    fn go_on_with(mut self, reply: mlua::Result<Reply>) -> Resumed<'a, I> {
        self.wait = None;
        let number = self.number.take().expect("the run waits");
        self.coroutine = self.run.state.waiting.remove(number);
        if self.coroutine.is_none() {
            return Err(Failure::BrokenOff);
        }
        // Measured from here on: many short stretches are cut, too.
        self.run.state.meter.begin(self.left(), true);
        self.resume((), Some(reply))
    }

    /// Resumes the coroutine until it ends or waits.
    fn resume(
        mut self,
        arguments: impl IntoLuaMulti,
        reply: Option<mlua::Result<Reply>>,
    ) -> Resumed<'a, I> {
        let (run, state) = (self.run, &self.run.state);
        let coroutine = || self.coroutine.as_ref().expect("the call has not ended");
        state.current.enter(run, reply);
        let resumed = coroutine().resume::<()>(arguments);
        // Where no function can yield, as in a comparison of table.sort, an error leaves
        // a future for which no coroutine waits.
        let wait = state.current.leave();
        let wait = wait.filter(|_| coroutine().is_resumable());
        let grown = state.note_memory();
        self.held = self.held.saturating_add_signed(grown);
        if self.spend() {
            // A script may have caught the error: what it did then does not count.
            return Err(self.cut());
        }
        if let Err(error) = resumed {
            return Err(self.failed(&error));
        }
        let coroutine = self.coroutine.take();
        match wait {
            Some(wait) => {
                let coroutine = coroutine.expect("the call has not ended");
                let number = state.waiting.add(self.network(), self.held, coroutine);
                (self.wait, self.number) = (Some(wait), Some(number));
                Ok(Some(self))
            }
            None => {
                state.give_back(coroutine, true);
                Ok(None)
            }
        }
    }

    /// Reads an error. Where memory did not suffice, makes room for others.
    fn failed(&mut self, error: &mlua::Error) -> Failure {
        let (run, held) = (self.run, self.held);
        let failure = Failure::of(error, &run.shared.program.name);
        let Failure::Memory { .. } = failure else {
            return failure;
        };
        // Values that the coroutine refers to are garbage from here on.
        run.state.give_back(self.coroutine.take(), false);
        // The second time, others would pay for what this run takes.
        run.state
            .make_room((!run.is_again).then(|| (self.network(), held)));
        Failure::Memory {
            own: held > run.shared.settings.memory / 2,
        }
    }

    /// Returns the network of the client.
    fn network(&self) -> Option<Prefix> {
        let hello = self.run.hello.as_ref();
        hello.map(|hello| hello.facts.client.ip().into())
    }

    /// Ends a stretch. Returns whether it was cut.
    fn spend(&mut self) -> bool {
        let ended = self.run.state.meter.end();
        self.used += ended.used;
        self.run.state.time.spend(ended.took);
        self.run.report(|report| report.cpu += ended.used);
        ended.was_cut
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
        let state = &self.run.state;
        let waits = self.number.and_then(|number| state.waiting.remove(number));
        state.give_back(self.coroutine.take().or(waits), false);
    }
}
