//! Stays with a program to its end, however long its request takes.

use std::future::pending;
use std::io;
use std::mem::take;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::signal::unix::Signal;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Limits;
use super::group::{Exit, Group};
use super::running::{Failure, Input, Output, Running};
use super::spawn::Pipes;

/// Watch over a program: it reads its standard error, and ends it.
///
/// 1. The program runs, until its time is over, its standard error is too long, or its output
///    is dropped. Its output may be that of a descendant, which goes on after it.
/// 2. Once its output has ended, it and all of its group have [`GRACE`].
/// 3. SIGTERM, and [`TERMINATES`] for what it has left to do.
/// 4. SIGKILL, as soon as the program and its standard error have ended.
#[derive(Debug)]
pub(super) struct Watch {
    group: Group,
    children: Signal,
    stderr: Option<Receiver>,
    complaint: Complaint,
    /// Receives once the output was read to its end; fails if it was dropped before.
    output: oneshot::Receiver<()>,
    output_ended: bool,
    has_exited: bool,
    is_terminating: bool,
    verdict: Option<oneshot::Sender<Result<(), Failure>>>,
    deadline: Instant,
}

/// Beginning of what a program wrote to its standard error.
#[derive(Debug, Default)]
struct Complaint {
    kept: Vec<u8>,
    length: usize,
}

impl Watch {
    /// Watches a program. Its time begins now.
    pub(super) fn new(
        group: Group,
        pipes: Pipes,
        children: Signal,
        limits: Limits,
    ) -> Result<(Self, Running), (Group, io::Error)> {
        let opened = || {
            let stdin = Sender::from_owned_fd(pipes.stdin)?;
            let stdout = Receiver::from_owned_fd(pipes.stdout)?;
            io::Result::Ok((stdin, stdout, Receiver::from_owned_fd(pipes.stderr)?))
        };
        let (stdin, stdout, stderr) = match opened() {
            Ok(opened) => opened,
            Err(error) => return Err((group, error)),
        };
        let (ends, output) = oneshot::channel();
        let (verdict, receives) = oneshot::channel();
        let input = Input::new(stdin);
        let running = Running {
            output: Output::new(stdout, &input, limits, ends, receives),
            input,
        };
        let watch = Self {
            group,
            children,
            stderr: Some(stderr),
            complaint: Complaint::default(),
            output,
            output_ended: false,
            has_exited: false,
            is_terminating: false,
            verdict: Some(verdict),
            deadline: Instant::now() + limits.total,
        };
        Ok((watch, running))
    }

    /// Waits for the program's end, or brings it about. Returns the beginning of its standard
    /// error, if it wrote any.
    pub(super) async fn run(mut self) -> Option<String> {
        let mut buffer = vec![0; BUFFER];
        self.note_exit();
        while !self.is_over() {
            tokio::select! {
                ended = &mut self.output, if !self.output_ended => self.note_output(ended.is_ok()),
                Some(()) = self.children.recv(), if !self.has_exited => self.note_exit(),
                read = read(&mut self.stderr, &mut buffer) => self.note_complaint(&buffer[..read]),
                () = sleep_until(self.deadline) => {
                    if self.is_terminating {
                        break;
                    }
                    // Only a program with its output open is late.
                    let is_late = !self.output_ended;
                    self.terminate(is_late.then_some(Failure::Total));
                }
            }
        }
        self.group.kill();
        while self.group.exit().is_none() && self.children.recv().await.is_some() {}
        self.group.reap();
        self.complaint.text()
    }

    fn is_over(&self) -> bool {
        let output = self.output_ended || self.is_terminating;
        self.has_exited && self.stderr.is_none() && output
    }

    fn note_output(&mut self, is_read: bool) {
        self.output_ended = true;
        match is_read {
            true => self.hurry(),
            false => self.terminate(None),
        }
    }

    fn note_exit(&mut self) {
        if let Some(exit) = self.group.exit() {
            self.has_exited = true;
            if let Exit::Signal(signal) = exit {
                self.tell(Err(Failure::Signal(signal)));
            }
            self.hurry();
        }
    }

    fn note_complaint(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            self.stderr = None;
        }
        self.complaint.add(piece);
        if self.complaint.length > MOST_COMPLAINT {
            self.terminate(Some(Failure::Complaint));
        }
    }

    /// Gives what is left [`GRACE`], once the output has ended.
    fn hurry(&mut self) {
        if self.has_exited && self.output_ended {
            self.tell(Ok(()));
        }
        if self.output_ended && !self.is_terminating {
            self.deadline = self.deadline.min(Instant::now() + GRACE);
        }
    }

    /// Asks the group to end, once. A failure is told before the output ends, since the
    /// output would else look complete.
    fn terminate(&mut self, failure: Option<Failure>) {
        if let Some(failure) = failure {
            self.tell(Err(failure));
        }
        if !std::mem::replace(&mut self.is_terminating, true) {
            self.group.terminate();
            self.deadline = Instant::now() + TERMINATES;
        }
    }

    fn tell(&mut self, verdict: Result<(), Failure>) {
        if let Some(tells) = self.verdict.take() {
            let _ = tells.send(verdict);
        }
    }
}

impl Complaint {
    fn add(&mut self, piece: &[u8]) {
        self.length = self.length.saturating_add(piece.len());
        let room = MOST_KEPT - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Returns the text in one line, without characters that control terminals.
    fn text(&mut self) -> Option<String> {
        let text = String::from_utf8_lossy(&take(&mut self.kept)).into_owned();
        let plain = text.trim().replace(char::is_control, " ");
        (!plain.is_empty()).then_some(plain)
    }
}

/// Reads a piece; none if there is no more. Waits for ever once the end was read.
async fn read(from: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(buffer).await.unwrap_or(0),
        None => pending().await,
    }
}

/// Time for what is left of a program after the end of its output.
const GRACE: Duration = Duration::from_secs(2);
/// Time between SIGTERM and SIGKILL.
const TERMINATES: Duration = Duration::from_secs(2);
/// Bytes of standard error that are read at once.
const BUFFER: usize = 4 << 10;
/// Bytes of standard error that a line of the log shows.
const MOST_KEPT: usize = 1 << 10;
/// Bytes of standard error that a program may write.
const MOST_COMPLAINT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line_of_1_kib() {
        let mut complaint = Complaint::default();
        complaint.add(b"\nerror:\x1b[31m two\r\nlines \xff\n");
        let text = complaint.text();
        assert_eq!(text.as_deref(), Some("error: [31m two  lines \u{fffd}"));
        let mut long = Complaint::default();
        for _ in 0..100 {
            long.add(&[b'a'; 100]);
        }
        assert_eq!(long.length, 10_000);
        assert_eq!(long.text().map(|text| text.len()), Some(MOST_KEPT));
        assert_eq!(Complaint::default().text(), None);
    }
}
