//! Queue of log lines for the thread that writes them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use sekisho_certs::metrics::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Bounded queue of log lines. A line without room is dropped and counted: a
/// slow reader of the log must not slow the server down.
#[derive(Clone)]
pub(super) struct Queue {
    messages: SyncSender<Message>,
    /// Bytes in the queue.
    bytes: Arc<AtomicUsize>,
}

/// Guard that flushes the log when dropped: waits until earlier lines are
/// written, at most [`FLUSH_TIMEOUT`].
pub(crate) struct Flush(SyncSender<Message>);

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Starts the thread that writes lines to `to`.
pub(super) fn start(to: impl Write + Send + 'static) -> io::Result<(Queue, Flush)> {
    let (messages, received) = sync_channel(MAX_LINES);
    let bytes = Arc::<AtomicUsize>::default();
    let waiting = Arc::clone(&bytes);
    thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write(to, &received, &waiting))?;
    let flush = Flush(messages.clone());
    Ok((Queue { messages, bytes }, flush))
}

impl Queue {
    fn push(&self, line: &[u8]) {
        // Relaxed: the count bounds memory and orders nothing else.
        let before = self.bytes.fetch_add(line.len(), Ordering::Relaxed);
        let fits = before + line.len() <= MAX_BYTES;
        if !fits
            || self
                .messages
                .try_send(Message::Line(line.to_vec()))
                .is_err()
        {
            self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            DROPPED.inc();
        }
    }
}

/// The subscriber hands over each line in one call.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (written, done) = sync_channel(1);
        // A full queue means that no reader takes lines: they are lost.
        match self.0.try_send(Message::Flush(written)) {
            // The wait times out if no reader takes the lines.
            Ok(()) => drop(done.recv_timeout(FLUSH_TIMEOUT)),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

fn write(mut to: impl Write, received: &Receiver<Message>, bytes: &AtomicUsize) {
    let mut reported = 0;
    while let Ok(message) = received.recv() {
        match message {
            Message::Line(line) => {
                // A reader that closed its end wants no more lines.
                let _ = to.write_all(&one_line(&line));
                bytes.fetch_sub(line.len(), Ordering::Relaxed);
            }
            Message::Flush(written) => drop(written.try_send(())),
        }
        let now = DROPPED.get();
        if now > reported {
            tracing::warn!(
                lines = now - reported,
                "log lines were dropped: standard error is not read as fast as they came"
            );
            reported = now;
        }
    }
}

/// Escapes what would begin another line, or move the cursor: peers choose a part of some
/// texts, such as the names in an upstream's certificate. Colours keep their escape
/// character; the subscriber has escaped that of values.
fn one_line(line: &[u8]) -> Cow<'_, [u8]> {
    let (text, end) = match line {
        [text @ .., b'\n'] => (text, &b"\n"[..]),
        text => (text, &b""[..]),
    };
    let is_control = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | ESCAPE);
    if !text.iter().copied().any(is_control) {
        return Cow::Borrowed(line);
    }
    let mut escaped = Vec::with_capacity(line.len() + 64);
    for byte in text {
        match byte {
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
            byte if is_control(*byte) => escaped.extend(format!("\\x{byte:02x}").bytes()),
            byte => escaped.push(*byte),
        }
    }
    escaped.extend(end);
    Cow::Owned(escaped)
}

const ESCAPE: u8 = 0x1b;

/// Lines that were dropped since the start.
pub(crate) static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Bytes of the queue: a burst in which all hosts fail at once.
const MAX_LINES: usize = 4096;
/// Most lines have 200 bytes; the longest carry a request's path.
const MAX_BYTES: usize = 1 << 20;
/// Longest flush; a drain may end this much later.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Test writer that takes a line on permission, and reports it.
    struct Slow(Receiver<()>, Sender<usize>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            let _ = self.1.send(line.len());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_value_begins_no_line_of_its_own() {
        for (line, written) in [
            (
                "plain \x1b[1mbold\x1b[0m\tö\n",
                "plain \x1b[1mbold\x1b[0m\tö\n",
            ),
            ("a\nERROR forged\r\n\n", "a\\nERROR forged\\r\\n\n"),
            ("a\0b\x0bc", "a\\x00b\\x0bc"),
        ] {
            assert_eq!(one_line(line.as_bytes()), written.as_bytes());
        }
    }

    #[test]
    fn lines_beyond_the_bound_are_dropped_and_counted() {
        let (let_one, wait) = channel();
        let (tell, written) = channel();
        let (mut queue, flush) = start(Slow(wait, tell)).unwrap();
        let before = DROPPED.get();
        let line = vec![b'x'; MAX_BYTES / 4];
        for _ in 0..100 {
            queue.write_all(&line).unwrap();
        }
        let lost = DROPPED.get() - before;
        assert_eq!(lost, 96);
        for _ in 0..100 - lost {
            let_one.send(()).unwrap();
            assert_eq!(written.recv().unwrap(), line.len());
        }
        queue.write_all(b"fits again\n").unwrap();
        let_one.send(()).unwrap();
        assert_eq!(written.recv().unwrap(), 11);
        assert_eq!(DROPPED.get() - before, lost);
        drop(flush);
    }
}
