//! Reads an archive of tar (POSIX ustar and pax, GNU) as it comes, within bounds. Nothing is
//! unpacked: a name decides only which pair a file belongs to.

#[cfg(test)]
pub(super) mod tests;

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, PathBuf};

use zeroize::Zeroizing;

use super::check::MAX_FILE;

/// Archive that is read from its beginning to its end.
pub(super) struct Tar<R> {
    reader: R,
    has_ended: bool,
}

/// File or link of an archive.
pub(super) struct Entry {
    pub(super) name: PathBuf,
    pub(super) content: Content,
}

pub(super) enum Content {
    Bytes(Zeroizing<Vec<u8>>),
    /// More bytes than half of a pair has.
    TooLarge,
    /// Left out, since the name leads out of the archive.
    LeadsOut,
    /// A link, which may lead anywhere.
    Link,
}

/// Name and size of the next file, from headers before its own.
#[derive(Default)]
struct Ahead {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<R: Read> Tar<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            has_ended: false,
        }
    }

    /// Returns the next file or link; none at the end of the archive.
    ///
    /// # Errors
    /// If the archive ends early, or can't be read.
    pub(super) fn next_file(&mut self) -> io::Result<Option<Entry>> {
        let mut ahead = Ahead::default();
        while let Some(header) = self.header()? {
            let size = match ahead.size {
                Some(size) => size,
                None => number(&header[SIZE])?,
            };
            match header[TYPE] {
                b'L' => {
                    let mut name = self.bytes(number(&header[SIZE])?, MAX_NAME)?.to_vec();
                    name.truncate(until_nul(&name).len());
                    ahead.name = Some(name);
                    continue;
                }
                b'x' => {
                    let records = self.bytes(number(&header[SIZE])?, MAX_PAX)?;
                    ahead.read_pax(&records)?;
                    continue;
                }
                kind @ (b'0' | 0 | b'7' | b'1' | b'2') => {
                    let name = ahead.name.take().unwrap_or_else(|| own_name(&header));
                    let is_link = matches!(kind, b'1' | b'2');
                    return self.entry(name, size, is_link).map(Some);
                }
                // Folders, and what a program may add, such as `g`.
                _ => {}
            }
            self.skip(padded(size)?)?;
            ahead = Ahead::default();
        }
        Ok(None)
    }

    fn entry(&mut self, name: Vec<u8>, size: u64, is_link: bool) -> io::Result<Entry> {
        let name = PathBuf::from(OsString::from_vec(name));
        let leads_in = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_inside = name.components().all(leads_in);
        let left_out = match (is_inside, is_link) {
            (false, _) => Content::LeadsOut,
            (true, true) => Content::Link,
            (true, false) if size > MAX_FILE as u64 => Content::TooLarge,
            (true, false) => {
                let content = Content::Bytes(self.bytes(size, MAX_FILE)?);
                return Ok(Entry { name, content });
            }
        };
        self.skip(padded(size)?)?;
        Ok(Entry {
            name,
            content: left_out,
        })
    }

    /// Reads a header; none for the two empty blocks at the end.
    fn header(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        if self.has_ended {
            return Ok(None);
        }
        let mut header = [0; BLOCK];
        self.fill(&mut header)?;
        if header == [0; BLOCK] {
            self.fill(&mut header)?;
            if header != [0; BLOCK] {
                return Err(invalid("an empty block stands before its end"));
            }
            self.has_ended = true;
            self.drain();
            return Ok(None);
        }
        let told = number(&header[CHECKSUM])?;
        let blank = |(at, byte): (usize, &u8)| match CHECKSUM.contains(&at) {
            true => u64::from(b' '),
            false => u64::from(*byte),
        };
        match header.iter().enumerate().map(blank).sum::<u64>() == told {
            true => Ok(Some(header)),
            false => Err(invalid("a header has a wrong checksum")),
        }
    }

    /// Reads the bytes of an entry, and those that fill its last block.
    fn bytes(&mut self, size: u64, most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
        let length = usize::try_from(size).ok().filter(|length| *length <= most);
        let length = length.ok_or_else(|| invalid("a name or its header is too long"))?;
        let mut bytes = Zeroizing::new(vec![0; length]);
        self.fill(&mut bytes)?;
        self.skip(padded(size)? - size)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes).map_err(early)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let mut rest = self.reader.by_ref().take(length);
        let skipped = io::copy(&mut rest, &mut io::sink())?;
        match skipped == length {
            true => Ok(()),
            false => Err(early(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Takes what fills the last record, which would end the program that writes it with SIGPIPE.
    fn drain(&mut self) {
        let mut rest = self.reader.by_ref().take(MAX_REST);
        // The archive is whole, whatever follows it.
        let _ = io::copy(&mut rest, &mut io::sink());
    }
}

impl Ahead {
    /// Reads the records of pax, `LENGTH KEY=VALUE` with a line feed (POSIX, pax, "pax Extended
    /// Header").
    fn read_pax(&mut self, mut records: &[u8]) -> io::Result<()> {
        let wrong = || invalid("a pax header can't be read");
        while !records.is_empty() {
            let space = records.iter().position(|byte| *byte == b' ');
            let space = space.ok_or_else(wrong)?;
            let length = std::str::from_utf8(&records[..space]).ok();
            let length: usize = length.and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
            let record = records.get(space + 1..length).ok_or_else(wrong)?;
            let record = record.strip_suffix(b"\n").ok_or_else(wrong)?;
            if let Some(name) = record.strip_prefix(b"path=") {
                self.name = Some(name.to_vec());
            } else if let Some(size) = record.strip_prefix(b"size=") {
                let size = std::str::from_utf8(size).ok();
                let size = size.and_then(|text| text.parse().ok());
                self.size = Some(size.ok_or_else(wrong)?);
            }
            records = &records[length..];
        }
        Ok(())
    }
}

/// Returns the name in a header: ustar has its beginning in a field of its own.
fn own_name(header: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_nul(&header[..100]);
    let prefix = match header[257..].starts_with(b"ustar\0") {
        true => until_nul(&header[345..500]),
        false => &[],
    };
    match prefix.is_empty() {
        true => name.to_vec(),
        false => [prefix, b"/", name].concat(),
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Reads a number, octal digits. Binary ones, of files over 8 GiB (GNU), are not taken.
fn number(field: &[u8]) -> io::Result<u64> {
    let wrong = || invalid("a header has a wrong number");
    let text = std::str::from_utf8(until_nul(field)).map_err(|_| wrong())?;
    match text.trim() {
        "" => Ok(0),
        digits => u64::from_str_radix(digits, 8).map_err(|_| wrong()),
    }
}

/// Returns the length of whole blocks.
fn padded(size: u64) -> io::Result<u64> {
    let padded = size.checked_next_multiple_of(BLOCK as u64);
    padded.ok_or_else(|| invalid("a header has a wrong number"))
}

fn early(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid("the archive ends in the middle"),
        _ => error,
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Bytes of a header, and of what an entry is filled up to.
const BLOCK: usize = 512;
/// Fields of a header.
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
/// Bytes of a long name: Linux has no longer paths.
const MAX_NAME: usize = 4096;
/// Bytes of a pax header: a name, times, and attributes of a file.
const MAX_PAX: usize = 64 * 1024;
/// Bytes after the end that are taken: GNU tar writes records of 10 KiB, others of up to 1 MiB.
const MAX_REST: u64 = 1 << 20;
