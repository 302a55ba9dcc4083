//! Queue of lines for the thread that writes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sekisho_certs::LogLimiter;
use sekisho_certs::metrics::Counter;

use super::file::File;

/// Bounded queue of lines. A line without room is dropped and counted: no
/// request waits for a slow disk.
#[derive(Debug)]
pub(super) struct Queue {
    messages: SyncSender<Message>,
    state: Arc<State>,
}

/// State that the queue shares with its writer.
#[derive(Debug, Default)]
struct State {
    /// Bytes in the queue. Relaxed: the count bounds memory and orders nothing
    /// else.
    bytes: AtomicUsize,
    /// Asks the writer to open the file again. Release in `reopen` pairs with
    /// Acquire in the writer.
    reopen: AtomicBool,
    dropped: Counter,
    full: LogLimiter,
    failed: LogLimiter,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Wakes the writer.
    Wake,
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the thread that writes lines to `file`.
    pub(super) fn start(file: File) -> io::Result<Self> {
        let (messages, received) = sync_channel(MAX_LINES);
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write(file, &received, &shared))?;
        Ok(Self { messages, state })
    }

    pub(super) fn push(&self, line: Vec<u8>) {
        let (state, length) = (&self.state, line.len());
        let before = state.bytes.fetch_add(length, Ordering::Relaxed);
        let fits = before + length <= MAX_BYTES;
        if fits && self.messages.try_send(Message::Line(line)).is_ok() {
            return;
        }
        state.bytes.fetch_sub(length, Ordering::Relaxed);
        state.dropped.inc();
        if let Some(others) = state.full.allow() {
            tracing::warn!(
                others,
                "a line of the access log was dropped: lines come faster than they are written"
            );
        }
    }

    pub(super) fn reopen(&self) {
        self.state.reopen.store(true, Ordering::Release);
        // A full queue wakes the writer anyway.
        let _ = self.messages.try_send(Message::Wake);
    }

    /// Waits until the lines before are written, at most [`FLUSH_TIMEOUT`].
    pub(super) fn flush(&self) {
        let (written, done) = sync_channel(1);
        // A full queue means that nothing takes lines: they are lost.
        if self.messages.try_send(Message::Flush(written)).is_ok() {
            let _ = done.recv_timeout(FLUSH_TIMEOUT);
        }
    }

    pub(super) fn dropped(&self) -> &Counter {
        &self.state.dropped
    }
}

/// Writes what the queue has until its sender is gone. Lines are collected for a
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
        if state.reopen.swap(false, Ordering::AcqRel) {
            match file.reopen() {
                Ok(()) => tracing::info!("access log opened again"),
                Err(error) => tracing::error!(
                    %error,
                    "access log can't be opened again: lines go on to the open file"
                ),
            }
        }
        let (written, result) = file.write(&self.lines);
        if let Err(error) = result {
            let lost = self.lines[written..].iter().filter(|byte| **byte == b'\n');
            state.dropped.inc_by(lost.count() as u64);
            if let Some(others) = state.failed.allow() {
                tracing::error!(%error, others, "lines of the access log can't be written");
            }
        }
        state.bytes.fetch_sub(self.lines.len(), Ordering::Relaxed);
        self.lines.clear();
        for written in self.flushes.drain(..) {
            let _ = written.try_send(());
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
/// Bytes in the queue. Most lines have 500.
const MAX_BYTES: usize = 4 << 20;
/// Longest flush; a drain may end this much later.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
