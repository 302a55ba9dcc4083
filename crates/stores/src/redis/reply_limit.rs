//! A bound for replies of a Redis server, before the client library reads them.
//!
//! The client library (redis-rs 1.8) reads a value of any size into memory.
//! Each byte passes here first: a value over the bound is dropped as it arrives,
//! and an error takes its place. So is a value of a list whose values before it have
//! used up four times that bound. What is no RESP2 ends the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use zeroize::Zeroizing;

/// Code of the error that stands for a value over a bound.
pub(super) const TOO_LONG: &str = "TOOLONG";

/// The reading half of a connection, whose answers are bounded.
pub(super) struct ReplyLimit<S> {
    stream: S,
    filter: Filter,
    /// Bytes that were read, before and behind the filter.
    read: Zeroizing<Vec<u8>>,
    passed: Zeroizing<Vec<u8>>,
    /// How much of `passed` was given on.
    given: usize,
}

impl<S> ReplyLimit<S> {
    pub(super) fn new(stream: S, most: usize) -> Self {
        Self {
            stream,
            filter: Filter::new(most),
            read: Zeroizing::new(vec![0; CHUNK]),
            // A filtered chunk always fits: growing would leave pieces of a key
            // behind.
            passed: Zeroizing::new(Vec::with_capacity(CHUNK + MAX_LINE)),
            given: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReplyLimit<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.given == this.passed.len() {
            let mut chunk = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.given = 0;
            this.passed.clear();
            this.filter.pass(chunk.filled(), &mut this.passed)?;
        }
        let rest = &this.passed[this.given..];
        let some = rest.len().min(into.remaining());
        into.put_slice(&rest[..some]);
        this.given += some;
        Poll::Ready(Ok(()))
    }
}

/// Returns what passes the filter of a reply that arrives in pieces of this size; none
/// if it ends the connection.
#[cfg(fuzzing)]
pub fn bounded(reply: &[u8], piece: usize) -> Option<Vec<u8>> {
    let mut filter = Filter::new(1024);
    let mut passed = Vec::new();
    for piece in reply.chunks(piece) {
        filter.pass(piece, &mut passed).ok()?;
    }
    Some(passed)
}

/// Follows the protocol (RESP2) just far enough to know where values begin.
#[derive(Default)]
struct Filter {
    most: usize,
    /// Items of the list under way that are still to come.
    items: i64,
    /// Bytes of values that the reply under way may still have.
    room: usize,
    /// The line under way, as far as it has arrived.
    line: Vec<u8>,
    /// Bytes of a value that are still to come, its line end included.
    rest: usize,
    /// True if that value passes.
    passes: bool,
}

impl Filter {
    fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    fn pass(&mut self, mut bytes: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let value = bytes.split_off(..bytes.len().min(self.rest));
                let value = value.expect("it is no longer than the bytes");
                self.rest -= value.len();
                if self.passes {
                    into.extend_from_slice(value);
                }
                continue;
            }
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            let piece = bytes.split_off(..end).expect("it ends among the bytes");
            self.line.extend_from_slice(piece);
            if self.line.len() > MAX_LINE {
                return Err(wrong("a line of an answer is too long"));
            }
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.line(&line, into)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        let text = std::str::from_utf8(line).ok();
        let text = text.and_then(|text| text.strip_suffix("\r\n"));
        let text = text.ok_or_else(|| wrong("a line of an answer is none"))?;
        let number = || text[1..].parse::<i64>().ok();
        match self.items {
            0 => self.room = self.most.saturating_mul(VALUES),
            _ => self.items -= 1,
        }
        match line[0] {
            b'+' | b'-' | b':' => into.extend_from_slice(line),
            b'*' if number().is_some_and(|count| count <= MAX_ITEMS) => {
                self.items += number().map_or(0, |count| count.max(0));
                into.extend_from_slice(line);
            }
            b'$' => match number().map(usize::try_from) {
                None => return Err(wrong("a value has no length")),
                // There is no such value.
                Some(Err(_)) => into.extend_from_slice(line),
                Some(Ok(length)) => {
                    self.passes = length <= self.most.min(self.room);
                    match self.passes {
                        true => {
                            self.room -= length;
                            into.extend_from_slice(line);
                        }
                        false => into.extend_from_slice(format!("-{TOO_LONG}\r\n").as_bytes()),
                    }
                    self.rest = length.saturating_add(2);
                }
            },
            _ => return Err(wrong("an answer is of no known kind")),
        }
        Ok(())
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what}: is this a Redis server?"),
    )
}

/// Bytes that are read at once: two pairs of usual size.
const CHUNK: usize = 16 * 1024;
/// Lines are numbers, short words and errors.
const MAX_LINE: usize = 4096;
/// Values of the greatest size that a reply has room for: two pairs.
const VALUES: usize = 4;
/// The longest list that is asked for has a piece of a cluster in each item.
const MAX_ITEMS: i64 = 1 << 16;

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Filters bytes that arrive in pieces of so many.
    fn passed(bytes: &[u8], piece: usize) -> io::Result<String> {
        let (mut filter, mut into) = (Filter::new(10), Vec::new());
        for bytes in bytes.chunks(piece) {
            filter.pass(bytes, &mut into)?;
        }
        Ok(String::from_utf8(into).unwrap())
    }

    #[test]
    fn values_pass_up_to_the_bound() {
        for (sent, wanted) in [
            ("+OK\r\n:3\r\n-ERR no\r\n", "+OK\r\n:3\r\n-ERR no\r\n"),
            (
                "*2\r\n$3\r\na\r\n\r\n$-1\r\n:1\r\n",
                "*2\r\n$3\r\na\r\n\r\n$-1\r\n:1\r\n",
            ),
            ("$10\r\n0123456789\r\n", "$10\r\n0123456789\r\n"),
            (
                "*2\r\n$11\r\n01234567890\r\n$1\r\n$\r\n",
                "*2\r\n-TOOLONG\r\n$1\r\n$\r\n",
            ),
            ("$0\r\n\r\n*-1\r\n*0\r\n", "$0\r\n\r\n*-1\r\n*0\r\n"),
        ] {
            for piece in 1..=sent.len() {
                let got = passed(sent.as_bytes(), piece).unwrap();
                assert_eq!(got, wanted, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn the_values_of_a_list_have_a_bound_together() {
        let ten = "$10\r\n0123456789\r\n";
        let list = format!("*6\r\n{ten}*1\r\n{}$1\r\nx\r\n", ten.repeat(4));
        let wanted = format!("*6\r\n{ten}*1\r\n{}-TOOLONG\r\n-TOOLONG\r\n", ten.repeat(3));
        // The next reply has a bound of its own.
        for piece in 1..=list.len() {
            let got = passed(format!("{list}{ten}").as_bytes(), piece).unwrap();
            assert_eq!(got, format!("{wanted}{ten}"), "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_answer_ends_the_connection() {
        let long = "+".repeat(5000);
        for sent in [
            "HTTP/1.1 400 Bad Request\r\n",
            "\r\n",
            "\n",
            "+OK\n",
            "$x\r\n",
            "$\r\n",
            "*65537\r\n",
            "*9223372036854775808\r\n",
            "%1\r\n",
            "\u{ff}\r\n",
            &long,
        ] {
            for piece in [1, 3, sent.len()] {
                let error = passed(sent.as_bytes(), piece).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{sent:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_end_and_small_reads_are_passed_on() {
        let sent = [b"$5\r\nabcde\r\n$20\r\n".as_slice(), &[b'x'; 20], b"\r\n"].concat();
        let mut limited = ReplyLimit::new(sent.as_slice(), 10);
        let mut got = Vec::new();
        let mut one = [0];
        while limited.read(&mut one).await.unwrap() == 1 {
            got.push(one[0]);
        }
        assert_eq!(got, b"$5\r\nabcde\r\n-TOOLONG\r\n");
    }

    #[tokio::test]
    async fn what_is_too_long_takes_no_memory() {
        let size = 256 << 20;
        let head = format!("${size}\r\n");
        let value = tokio::io::repeat(b'x').take(size);
        let sent = head.as_bytes().chain(value).chain(&b"\r\n+OK\r\n"[..]);
        let mut limited = ReplyLimit::new(sent, 10);
        let mut got = Vec::new();
        limited.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"-TOOLONG\r\n+OK\r\n");
        assert_eq!(limited.read.len(), CHUNK);
        assert_eq!(limited.passed.capacity(), CHUNK + MAX_LINE);
    }
}
