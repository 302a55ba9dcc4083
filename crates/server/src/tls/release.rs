//! Gives the memory of rustls's read buffer back to the system.
#![expect(
    unsafe_code,
    reason = "rustls has no other way to give its read buffer back"
)]

use std::io::{self, Read};

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use super::Stream;
use super::session::Session;

impl Stream {
    /// Gives the pages of rustls's read buffer back to the system. rustls keeps the buffer,
    /// 4 KiB, for the connection's life. The next read gets new pages, filled with zeros.
    /// Does nothing where nothing was received since the last call, and without TLS: its
    /// buffers are freed when they are empty.
    pub(crate) fn release_buffer(&mut self) {
        if std::mem::take(&mut self.filled)
            && let Session::Tls(tls) = &mut self.session
        {
            // The read fails, and rustls changes nothing.
            let _ = tls.read_tls(&mut Releasing);
        }
    }
}

/// Source that reads nothing, and gives the pages of the buffer back.
struct Releasing;

impl Read for Releasing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        release(buffer);
        // rustls would take `Ok(0)` for the end of the stream.
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Fills the whole pages within `buffer` with zeros that take no memory. jemalloc puts a
/// buffer of 4 KiB on a page of its own.
fn release(buffer: &mut [u8]) {
    let page = page_size();
    let begin = buffer.as_ptr().align_offset(page);
    let Some(pages) = buffer.get_mut(begin..).map(|rest| rest.len() / page * page) else {
        return;
    };
    if pages > 0 {
        let begin = buffer[begin..].as_mut_ptr();
        // SAFETY: the pages lie within the slice, which is borrowed mutably, and they
        // begin and end at page boundaries. Allocators map private memory without a file,
        // where the next access finds zeros: a valid value of each byte.
        // Locked memory stays as it is: the call then fails.
        let _ = unsafe { madvise(begin.cast(), pages, Advice::LinuxDontNeed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_within_are_zeros() {
        let page = page_size();
        let mut bytes = vec![1; 4 * page];
        let aligned = bytes.as_ptr().align_offset(page);
        for (from, to) in [(0, 0), (1, page), (aligned, aligned + 1)] {
            release(&mut bytes[from..to.max(from)]);
            assert!(bytes.iter().all(|byte| *byte == 1), "{from}..{to}");
        }
        release(&mut bytes[aligned + 1..aligned + 3 * page - 1]);
        let (zeros, next) = (aligned + page, aligned + 2 * page);
        assert!(bytes[..zeros].iter().all(|byte| *byte == 1));
        assert!(bytes[zeros..next].iter().all(|byte| *byte == 0));
        assert!(bytes[next..].iter().all(|byte| *byte == 1));
    }
}
