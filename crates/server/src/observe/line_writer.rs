//! A thread that writes lines from a bounded queue.

mod file;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sekisho_certs::LogLimiter;
use sekisho_certs::metrics::Counter;

pub use file::File;
pub(crate) use file::check;

/// Bounded queue of lines, and the thread that writes them. A line without room is
/// dropped and counted: nobody waits for a slow disk or reader.
#[derive(Clone, Debug)]
pub struct LineWriter {
    messages: SyncSender<Message>,
    state: Arc<State>,
}

/// State that the queue shares with its thread.
#[derive(Debug)]
struct State {
    /// Name of the log in messages about it.
    name: &'static str,
    most_bytes: usize,
    /// Bytes in the queue. Relaxed: the count bounds memory and orders nothing
    /// else.
    bytes: AtomicUsize,
    /// Asks the thread to open the file again. Release in `reopen` pairs with
    /// Acquire in the thread.
    reopen: AtomicBool,
    dropped: Counter,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Wakes the thread.
    Wake,
    Flush(SyncSender<()>),
}

impl LineWriter {
    /// Starts the thread that writes lines to `file`. The queue has room for 4,096 lines
    /// and `most_bytes` in all; `dropped` counts those that are not written.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn start(
        name: &'static str,
        file: File,
        most_bytes: usize,
        dropped: Counter,
    ) -> io::Result<Self> {
        let (messages, received) = sync_channel(MAX_LINES);
        let state = Arc::new(State {
            name,
            most_bytes,
            bytes: AtomicUsize::new(0),
            reopen: AtomicBool::new(false),
            dropped,
        });
        let shared = Arc::clone(&state);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || write(file, &received, &shared))?;
        Ok(Self { messages, state })
    }

    /// Queues a line, with its line break. Returns false if it was dropped. The thread
    /// reports dropped lines as soon as it writes again.
    pub fn push(&self, line: Vec<u8>) -> bool {
        let (state, length) = (&self.state, line.len());
        let before = state.bytes.fetch_add(length, Ordering::Relaxed);
        let fits = before + length <= state.most_bytes;
        let queued = fits && self.messages.try_send(Message::Line(line)).is_ok();
        if !queued {
            state.bytes.fetch_sub(length, Ordering::Relaxed);
            state.dropped.inc();
        }
        queued
    }

    /// Opens the file again, behind the line that is being written. If that fails, the
    /// open file is kept. Does not wait.
    pub fn reopen(&self) {
        self.state.reopen.store(true, Ordering::Release);
        // A full queue wakes the thread anyway.
        let _ = self.messages.try_send(Message::Wake);
    }

    /// Waits until earlier lines are written, at most 1 s.
    pub fn flush(&self) {
        let (written, done) = sync_channel(1);
        // A full queue means that nothing takes lines: they are lost.
        if self.messages.try_send(Message::Flush(written)).is_ok() {
            let _ = done.recv_timeout(FLUSH_TIMEOUT);
        }
    }

    /// Returns the counter of dropped lines.
    #[must_use]
    pub fn dropped(&self) -> &Counter {
        &self.state.dropped
    }
}

/// Writes what the queue has until its senders are gone. Lines are collected for a
/// while: a wake-up and a write for each cost as much CPU time as its request.
fn write(mut file: File, received: &Receiver<Message>, state: &State) {
    let mut batch = Batch::default();
    while let Ok(first) = received.recv() {
        let mut next = Some(first);
        while let Some(message) = next.take() {
            if !batch.has_room_for(&message) {
                batch.write(&mut file, state);
            }
            batch.add(message);
            next = received.try_recv().ok();
        }
        batch.write(&mut file, state);
        thread::sleep(PAUSE);
    }
}

/// Lines that are written together, and who waits for that.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<u8>,
    flushes: Vec<SyncSender<()>>,
    limiter: LogLimiter,
    /// Dropped lines that were reported.
    reported: u64,
}

impl Batch {
    fn add(&mut self, message: Message) {
        match message {
            Message::Line(line) => self.lines.extend_from_slice(&line),
            Message::Wake => {}
            Message::Flush(written) => self.flushes.push(written),
        }
    }

    fn has_room_for(&self, message: &Message) -> bool {
        match message {
            Message::Line(line) => self.lines.is_empty() || self.lines.len() + line.len() <= BATCH,
            Message::Wake | Message::Flush(_) => true,
        }
    }

    fn write(&mut self, file: &mut File, state: &State) {
        let name = state.name;
        if state.reopen.swap(false, Ordering::AcqRel) {
            match file.reopen() {
                Ok(()) => tracing::info!("{name} opened again"),
                Err(error) => tracing::error!(
                    %error,
                    "{name} can't be opened again: lines go on to the open file"
                ),
            }
        }
        let (written, result) = file.write(&self.lines);
        let lost = self.lines[written..].iter().filter(|byte| **byte == b'\n');
        state.dropped.inc_by(lost.count() as u64);
        self.report(state, result.err());
        state.bytes.fetch_sub(self.lines.len(), Ordering::Relaxed);
        self.lines.clear();
        for written in self.flushes.drain(..) {
            let _ = written.try_send(());
        }
    }

    /// Reports lines that were dropped since the last report, at most once in 10 s.
    fn report(&mut self, state: &State, error: Option<io::Error>) {
        let name = state.name;
        let lines = state.dropped.get() - self.reported;
        if lines == 0 || self.limiter.allow().is_none() {
            return;
        }
        self.reported += lines;
        match error {
            Some(error) => {
                tracing::error!(%error, lines, "{name} can't be written: lines were dropped");
            }
            None => tracing::warn!(
                lines,
                "lines of the {name} were dropped: they came faster than they were written"
            ),
        }
    }
}

/// Lines in the queue: a fifth of a second at 20,000 requests per second.
const MAX_LINES: usize = 4096;
/// How long lines are collected: the queue has room for those of 10 ms at 400,000
/// requests per second.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes of several lines that are written at once: `PIPE_BUF` of Linux. A pipe that
/// several processes write keeps so many together. A longer line is written alone.
const BATCH: usize = 4096;
/// Longest flush; a drain may end this much later.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_dropped_and_counted() {
        const MOST: usize = 1 << 20;
        let (mut reader, writer) = pipe().unwrap();
        let file = File::of(&writer).unwrap();
        drop(writer);
        let lines = LineWriter::start("log", file, MOST, Counter::default()).unwrap();
        let mut line = vec![b'x'; MOST / 4];
        line[MOST / 4 - 1] = b'\n';
        // More than the pipe takes: the thread writes none of them whole.
        let queued = (0..100).filter(|_| lines.push(line.clone())).count();
        assert_eq!((queued, lines.dropped().get()), (4, 96));
        let mut written = vec![0; MOST];
        reader.read_exact(&mut written).unwrap();
        assert_eq!(written, line.repeat(4));
        lines.flush();
        assert!(lines.push(b"fits again\n".to_vec()));
        let mut written = [0; 11];
        reader.read_exact(&mut written).unwrap();
        assert_eq!(&written, b"fits again\n");
        assert_eq!(lines.dropped().get(), 96);
    }
}
