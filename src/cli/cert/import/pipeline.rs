//! Import pipeline: checks pairs on all cores, and writes one transaction per
//! batch. Bounded queues keep the memory of a million pairs at a few batches.

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::check::Checked;
use super::report::Report;
use super::rules::Rules;
use super::source::Refusal;
use super::target::Target;
use super::write::Writer;
use crate::terminal::failure::{Interrupted, Result};

/// Makes a pair of each job, and stores it unless it is refused. Returns the
/// report.
pub(crate) fn import<J: Send>(
    runtime: &Runtime,
    target: Target<'_>,
    jobs: impl Iterator<Item = J> + Send,
    check: impl Fn(J) -> Result<Checked, Refusal> + Sync,
    mut report: Report,
    rules: Rules,
) -> Result<Report> {
    let jobs = Mutex::new(jobs);
    let checkers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut writer = Writer::new(target, rules, mem::take(&mut report.settled));
    let mut ending = runtime.block_on(async { ending() })?;
    thread::scope(|scope| {
        let (sender, checked) = sync_channel(BATCH / CHUNK);
        for _ in 0..checkers {
            let (jobs, check, sender) = (&jobs, &check, sender.clone());
            scope.spawn(move || check_all(jobs, check, &sender));
        }
        drop(sender);
        // An error drops the receiver, which ends the threads.
        loop {
            let next = next_batch(&checked, &mut report)?;
            let Some(mut batch) = next.or_else(|| writer.next_deferred(CHUNK)) else {
                report.settled = mem::take(&mut writer.settled);
                return Ok(report);
            };
            match runtime.block_on(writer.write(&mut batch)) {
                Ok(plan) => report.add(&batch, &plan)?,
                Err(error) => return Err(error.context(report.stop())),
            }
            let has_come = async { timeout(Duration::ZERO, &mut ending).await.is_ok() };
            if runtime.block_on(has_come) {
                return Err(anyhow::Error::new(Interrupted).context(report.stop()));
            }
        }
    })
}

/// End that a signal asks for: SIGINT of terminals, SIGTERM of service managers.
pub(super) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Begins to listen for such a signal. Needs a runtime.
pub(super) fn ending() -> io::Result<Ending> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }))
}

/// Results of some jobs.
type Chunk = Vec<Result<Checked, Refusal>>;

/// Takes jobs until there are none, or the receiver is gone.
fn check_all<J>(
    jobs: &Mutex<impl Iterator<Item = J>>,
    check: &impl Fn(J) -> Result<Checked, Refusal>,
    sender: &SyncSender<Chunk>,
) {
    loop {
        let next: Vec<J> = {
            let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.by_ref().take(CHUNK).collect()
        };
        if next.is_empty() || sender.send(next.into_iter().map(check).collect()).is_err() {
            return;
        }
    }
}

/// Returns the next pairs to write; None at the end.
fn next_batch(checked: &Receiver<Chunk>, report: &mut Report) -> Result<Option<Vec<Checked>>> {
    let (mut batch, mut hosts) = (Vec::with_capacity(BATCH + CHUNK), 0);
    while hosts < BATCH {
        let Ok(chunk) = checked.recv() else { break };
        for checked in chunk {
            match checked {
                Ok(pair) => {
                    report.note(&pair);
                    hosts += pair.hosts.len();
                    batch.push(pair);
                }
                Err(refusal) => report.refuse(&refusal)?,
            }
        }
    }
    Ok((!batch.is_empty()).then_some(batch))
}

/// Hosts per transaction, and those of a chunk. The disk sync per batch costs little, and other
/// writers wait shortly.
const BATCH: usize = 1000;
/// Jobs that a thread takes at once, to limit wake-ups between threads.
const CHUNK: usize = 40;

#[cfg(test)]
mod tests {
    use std::iter;
    use std::path::Path;

    use sekisho_certs::credential::Dates;
    use sekisho_testkit::{Key, TestCa};

    use super::super::check::check_pair;
    use super::super::roots::Roots;
    use super::super::source::Names;
    use super::*;

    #[test]
    fn a_batch_ends_by_its_hosts() {
        let names: Vec<_> = (0..50).map(|number| format!("h{number}.example")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let made = TestCa::new().issue(&names, Key::P256);
        let (chain, key) = (made.chain_pem(), made.key_pem());
        let checked = |_| {
            let (at, roots) = (Path::new("a"), Roots::none());
            let (chain, key) = ((at, chain.as_bytes()), (at, key.as_bytes()));
            check_pair(chain, key, Names::Leaf, Dates::Any, &roots)
        };
        let (sender, receiver) = sync_channel(3);
        for _ in 0..3 {
            let chunk: Chunk = (0..CHUNK).map(checked).collect();
            sender.send(chunk).expect("there is room");
        }
        drop(sender);
        let mut report = Report::new(|| None);
        let next = || next_batch(&receiver, &mut report).expect("it is read");
        let sizes = iter::from_fn(next).map(|batch| batch.len());
        // The hosts of each chunk are more than a batch has.
        assert_eq!(sizes.collect::<Vec<_>>(), [CHUNK; 3]);
    }
}
