//! Singleflight of `tls:cached`: the function runs in a task of its own.

use std::sync::Arc;
use std::time::Duration;

use mlua::Function;
use tokio::sync::oneshot::Sender;
use tokio::time::{Instant, timeout};

use crate::choice::{Choice, Source};
use crate::failure::{Charged, Failure};
use crate::imports::Imports;
use crate::region::{Call, Ended, Kept, Known, Looked};
use crate::report::RegionUse;
use crate::run::Run;
use crate::run::call::call;

/// Takes what the region has under a script's key. Returns whether something was chosen;
/// none if the key is not there.
///
/// # Errors
/// The function failed before, and nothing was there then.
pub(crate) fn kept<I: Imports>(run: &Run<I>, script_key: &str) -> mlua::Result<Option<bool>> {
    let key = run.region_key(script_key);
    match run.shared.region.known(&key, Instant::now()) {
        None => Ok(None),
        Some(known) => take(run, script_key, known, Source::Region).map(Some),
    }
}

/// Takes what the region has under `key`, else runs `function` once for all who ask
/// meanwhile. Returns whether something was chosen.
///
/// The function runs in a task: a client that goes away leaves it running.
///
/// # Errors
/// The function failed, and nothing was there before.
pub(crate) async fn cached<I: Imports>(
    run: &Arc<Run<I>>,
    script_key: &str,
    ttl: Duration,
    function: Function,
) -> Result<bool, mlua::Error> {
    let key = run.region_key(script_key);
    let mut looked = match run.shared.region.find(&key, Instant::now()) {
        Some(found) => found,
        None => admitted(run, &key).await?,
    };
    let mut may_look_again = true;
    let (known, source) = loop {
        let (load, source) = match looked {
            Looked::Known(known) => break (known, Source::Region),
            Looked::InFlight(load) => (load, Source::Region),
            Looked::Begin(sender, load) => {
                let begun = Begun {
                    run: Arc::clone(run),
                    key: Arc::clone(&key),
                    ended: false,
                };
                tokio::spawn(begun.load(function.clone(), ttl, sender));
                (load, Source::Script)
            }
        };
        match join(run, &key, load).await? {
            Some(known) => break (known, source),
            // Another client's load was broken off, for a bound that this one has not met.
            None if may_look_again && source == Source::Region => {
                may_look_again = false;
                looked = admitted(run, &key).await?;
            }
            None => return Err(Failure::LoadBrokenOff.into()),
        }
    };
    take(run, script_key, known, source)
}

/// Takes the answer for a key.
fn take<I: Imports>(
    run: &Run<I>,
    script_key: &str,
    known: Known<I::Made>,
    source: Source,
) -> mlua::Result<bool> {
    let how = used(&known, source);
    run.shared.metrics.region(how);
    run.report(|report| report.region.push((script_key.to_owned(), how)));
    let (until, kept, source) = match known {
        Known::Fresh(kept) => (kept.fresh_until, kept, source),
        Known::Stale(kept, until) => (until, kept, Source::Stale),
        Known::Absent => return Ok(false),
        Known::Failed(why) => {
            let what = format!("the function of tls:cached failed: {why}");
            return Err(mlua::Error::RuntimeError(what));
        }
    };
    let chosen = run.choose(kept.choice.clone(), Some(until), source);
    chosen.map_err(mlua::Error::runtime)?;
    Ok(true)
}

/// Looks again with a token of the client's prefix, before a load that others join: a
/// client whose prefix has no token left must not fail for them. Such a client gets what
/// was there before, at once.
async fn admitted<I: Imports>(
    run: &Arc<Run<I>>,
    key: &Arc<str>,
) -> Result<Looked<I::Made>, Failure> {
    let region = &run.shared.region;
    let old = region.old(key);
    let now = Instant::now();
    let until = if old.is_some() { now } else { run.deadline };
    match (run.admitted(until).await, old) {
        (Ok(()), _) => Ok(region.find_or_begin(key, Instant::now())),
        (Err(_), Some(old)) => {
            let until = now + run.shared.settings.failed;
            Ok(Looked::Known(Known::Stale(old, until)))
        }
        (Err(overloaded), None) => Err(overloaded),
    }
}

/// Waits for a load. Where something was there before, the run waits for a short time,
/// and only if there is a permit: a store that hangs must not delay hosts that were seen.
/// Returns none if the load ended without an answer, and nothing was there before.
async fn join<I: Imports>(
    run: &Arc<Run<I>>,
    key: &Arc<str>,
    load: Call<I::Made>,
) -> Result<Option<Known<I::Made>>, Failure> {
    let region = &run.shared.region;
    let Some(old) = region.old(key) else {
        run.waits()?;
        return Ok(load.await.ok());
    };
    let until = Instant::now() + run.shared.settings.failed;
    if run.waits().is_err() {
        return Ok(Some(Known::Stale(old, until)));
    }
    Ok(Some(match timeout(PATIENCE, load).await {
        Ok(known) => known.unwrap_or(Known::Stale(old, until)),
        Err(_) => region.late(key, old, until),
    }))
}

/// Load that has its key in the region. Dropped before its end, it lets others begin.
struct Begun<I: Imports> {
    /// The run that began it.
    run: Arc<Run<I>>,
    key: Arc<str>,
    ended: bool,
}

impl<I: Imports> Begun<I> {
    /// Runs the function, keeps what it chose, and tells those who wait.
    async fn load(mut self, function: Function, ttl: Duration, sender: Sender<Known<I::Made>>) {
        let shared = Arc::clone(&self.run.shared);
        // An eighth is left to those who wait, to be served what was there before.
        let limit = shared.settings.deadline / 8 * 7;
        let deadline = Instant::now() + limit;
        let begin = |is_again| {
            let key = Arc::clone(&self.key);
            Arc::new(self.run.load(key, deadline, is_again))
        };
        let mut run = begin(false);
        let mut called = call(&run, &function, ()).await;
        if let Err(Failure::Memory { own: false }) = called {
            run = begin(true);
            called = call(&run, &function, ()).await;
        }
        let result = called.and_then(|()| {
            let finished = run.finish();
            finished.map_err(|what| Failure::Script(shared.program.error(&what)))
        });
        let now = Instant::now();
        if let Err(failure) = &result
            && failure.charge() == Charged::Always
        {
            run.token().owe();
        }
        let ended = match result {
            Ok(answer) => match answer.choice {
                Choice::Lookup => {
                    if !run.token().met_outage() {
                        run.token().owe();
                    }
                    Ended::Absent {
                        until: now + shared.settings.absent,
                    }
                }
                choice => {
                    let weight = match &choice {
                        Choice::Made(made) => shared.imports.weight(made),
                        _ => 0,
                    };
                    Ended::Chosen(Kept {
                        choice,
                        fresh_until: now + ttl,
                        weight,
                    })
                }
            },
            // Tells nothing about the key: another run may begin the load again.
            Err(Failure::Overloaded | Failure::BrokenOff | Failure::LoadBrokenOff) => {
                // Before `sender`: those on other workers begin another at once.
                drop(self);
                return;
            }
            Err(failure) => {
                shared.log_failure(&failure, run.hello.as_deref());
                Ended::Failed {
                    why: failure.to_string().into(),
                    until: now + shared.settings.failed,
                }
            }
        };
        let has_failed = matches!(ended, Ended::Failed { .. });
        let is_charged = run.token().is_owed() || has_failed && !run.token().met_outage();
        if !is_charged && Arc::strong_count(&self.run) == 1 {
            // The client has left, and nobody else gives the token back.
            drop(run.take_token());
        }
        let known = shared.region.end(&self.key, ended);
        self.ended = true;
        // An error tells that all who waited have left.
        let _ = sender.send(known);
    }
}

impl<I: Imports> Drop for Begun<I> {
    fn drop(&mut self) {
        if !self.ended {
            self.run.shared.region.abandon(&self.key);
        }
    }
}

fn used<M>(known: &Known<M>, source: Source) -> RegionUse {
    match known {
        Known::Fresh(_) if source == Source::Script => RegionUse::Loaded,
        Known::Fresh(_) => RegionUse::Hit,
        Known::Absent => RegionUse::Absent,
        Known::Stale(..) => RegionUse::Stale,
        Known::Failed(_) => RegionUse::Failed,
    }
}

/// Time that a run waits for a load if something was there before. Most loads take less.
const PATIENCE: Duration = Duration::from_millis(250);
