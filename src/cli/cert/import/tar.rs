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
pub(super) struct Tar<R>(pub(super) R);

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

impl<R: Read> Tar<R> {
    /// Returns the next file or link; none at the end of the archive.
    ///
    /// # Errors
    /// If the archive ends early, or can't be read.
    pub(super) fn next_file(&mut self) -> io::Result<Option<Entry>> {
        // Of the next entry, from a header before its own.
        let mut name = None;
        while let Some(header) = self.header()? {
            let size = number(&header[SIZE])?;
            match header[TYPE] {
                b'L' => name = Some(until_nul(&self.bytes(size, MAX_NAME)?).to_vec()),
                b'x' => name = path_of_pax(&self.bytes(size, MAX_PAX)?)?.or(name),
                kind => {
                    let name = name.take().unwrap_or_else(|| own_name(&header));
                    if let Some(entry) = self.entry(kind, name, size)? {
                        return Ok(Some(entry));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Reads what follows a header; none for folders, and what a program may add, such as `g`.
    fn entry(&mut self, kind: u8, name: Vec<u8>, size: u64) -> io::Result<Option<Entry>> {
        let name = PathBuf::from(OsString::from_vec(name));
        let leads_in = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_inside = name.components().all(leads_in);
        let content = match kind {
            b'0' | 0 | b'7' if is_inside && size <= MAX_FILE as u64 => {
                let content = Content::Bytes(self.bytes(size, MAX_FILE)?);
                return Ok(Some(Entry { name, content }));
            }
            b'0' | 0 | b'7' if is_inside => Some(Content::TooLarge),
            b'1' | b'2' if is_inside => Some(Content::Link),
            b'0' | 0 | b'7' | b'1' | b'2' => Some(Content::LeadsOut),
            _ => None,
        };
        self.skip(size.next_multiple_of(BLOCK as u64))?;
        Ok(content.map(|content| Entry { name, content }))
    }

    /// Reads a header; none for the two empty blocks at the end.
    fn header(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let mut header = [0; BLOCK];
        self.fill(&mut header)?;
        if header == [0; BLOCK] {
            self.fill(&mut header)?;
            if header != [0; BLOCK] {
                return Err(invalid("an empty block stands before its end"));
            }
            return Ok(None);
        }
        let mut blank = header;
        blank[CHECKSUM].fill(b' ');
        let sum: u64 = blank.iter().map(|byte| u64::from(*byte)).sum();
        match sum == number(&header[CHECKSUM])? {
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
        self.skip(size.next_multiple_of(BLOCK as u64) - size)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes).map_err(early)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let mut rest = self.0.by_ref().take(length);
        match io::copy(&mut rest, &mut io::sink())? == length {
            true => Ok(()),
            false => Err(early(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// Returns the path in a header of pax, which has records `LENGTH KEY=VALUE` with a line feed
/// (POSIX, pax, "pax Extended Header"). Sizes are not read from it: they are there for files
/// over 8 GiB.
fn path_of_pax(mut records: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let wrong = || invalid("a pax header can't be read");
    let mut found = None;
    while !records.is_empty() {
        let space = records.iter().position(|byte| *byte == b' ');
        let space = space.ok_or_else(wrong)?;
        let length = usize::try_from(parse(&records[..space], 10)?).map_err(|_| wrong())?;
        let record = records.get(space + 1..length).ok_or_else(wrong)?;
        let record = record.strip_suffix(b"\n").ok_or_else(wrong)?;
        let path = record.strip_prefix(b"path=").map(<[u8]>::to_vec);
        found = path.or(found);
        records = &records[length..];
    }
    Ok(found)
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
    match until_nul(field).trim_ascii() {
        b"" => Ok(0),
        digits => parse(digits, 8),
    }
}

fn parse(digits: &[u8], radix: u32) -> io::Result<u64> {
    let text = std::str::from_utf8(digits).ok();
    let number = text.and_then(|text| u64::from_str_radix(text, radix).ok());
    number.ok_or_else(|| invalid("a header has a wrong number"))
}

fn early(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid("the archive ends in the middle"),
        _ => error,
    }
}

/// Makes the error of a file that can't be read.
pub(super) fn invalid(what: &str) -> io::Error {
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
