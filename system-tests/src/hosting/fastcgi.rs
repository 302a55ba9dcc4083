//! FastCGI by hand: requests as a strict server reads them, and records of answers.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) const END: u8 = 3;
pub(crate) const STDOUT: u8 = 6;
pub(crate) const STDERR: u8 = 7;

/// Request of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// The stream of the body has ended.
    pub(crate) is_whole: bool,
    /// The connection is to stay open.
    pub(crate) keep: bool,
}

impl Request {
    /// Returns a parameter; empty if it is not there.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// Reads the next request. None if the connection ended before its parameters did.
    ///
    /// # Errors
    /// If what comes is no FastCGI.
    pub(crate) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<Self>> {
        let mut request = Self::default();
        let mut params = Vec::new();
        let mut has_params = false;
        let mut begun = false;
        loop {
            let Ok((kind, content)) = read_record(stream).await? else {
                return Ok(has_params.then_some(request));
            };
            match (kind, content.is_empty()) {
                (BEGIN, false) if !begun => {
                    check(content[..2] == [0, 1], "no role of a responder")?;
                    request.keep = content[2] == 1;
                    begun = true;
                }
                (PARAMS, false) if begun && !has_params => params.extend(content),
                (PARAMS, true) if begun && !has_params => {
                    request.params = decode(&params)?;
                    has_params = true;
                }
                (STDIN, false) if has_params => request.body.extend(content),
                (STDIN, true) if has_params => {
                    request.is_whole = true;
                    return Ok(Some(request));
                }
                _ => return Err(wrong(format!("a record of type {kind} out of order"))),
            }
        }
    }
}

/// Reads a record; an error of the end if there is none.
async fn read_record<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<Result<(u8, Vec<u8>), ErrorKind>> {
    let mut head = [0; 8];
    // A connection that ends, or is reset, hides no request.
    if let Err(error) = stream.read_exact(&mut head).await {
        return Ok(Err(error.kind()));
    }
    let [version, kind, 0, 1, high, low, padding, _] = head else {
        return Err(wrong(format!("a record's head {head:x?}")));
    };
    check(version == 1, "no record of version 1")?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let mut content = vec![0; length + usize::from(padding)];
    if let Err(error) = stream.read_exact(&mut content).await {
        return Ok(Err(error.kind()));
    }
    content.truncate(length);
    Ok(Ok((kind, content)))
}

fn decode(mut bytes: &[u8]) -> io::Result<BTreeMap<String, String>> {
    let mut params = BTreeMap::new();
    while !bytes.is_empty() {
        let lengths = [length(&mut bytes)?, length(&mut bytes)?];
        let mut texts = lengths.map(|length| {
            let (text, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            // Each byte is one character.
            Some(
                text.iter()
                    .map(|byte| char::from(*byte))
                    .collect::<String>(),
            )
        });
        let [Some(name), Some(value)] = texts.each_mut().map(Option::take) else {
            return Err(wrong("a parameter is cut"));
        };
        check(!params.contains_key(&name), &format!("{name} came twice"))?;
        params.insert(name, value);
    }
    Ok(params)
}

fn length(bytes: &mut &[u8]) -> io::Result<usize> {
    let (length, rest) = match **bytes {
        [short @ ..0x80, ref rest @ ..] => (usize::from(short), rest),
        [a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a & 0x7f, b, c, d]) as usize, rest),
        _ => return Err(wrong("a length is cut")),
    };
    *bytes = rest;
    Ok(length)
}

fn check(is_right: bool, what: &str) -> io::Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(wrong(what)),
    }
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

/// Encodes a record.
pub(crate) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// Encodes a whole answer of this output.
pub(crate) fn answer(output: &[u8]) -> Vec<u8> {
    let pieces = output.chunks(MAX_RECORD).map(|piece| record(STDOUT, piece));
    let ends = [record(STDOUT, b""), record(END, &[0; 8])];
    pieces.chain(ends).flatten().collect()
}

const BEGIN: u8 = 1;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const MAX_RECORD: usize = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_are_read_strictly() {
        let params = [
            &[1, 2][..],
            b"Abc",
            &[1, 0x80, 0, 0, 200, b'B'],
            &[b'x'; 200],
        ]
        .concat();
        let begin = record(BEGIN, &[0, 1, 1, 0, 0, 0, 0, 0]);
        let whole = [
            begin.clone(),
            record(PARAMS, &params),
            record(PARAMS, b""),
            record(STDIN, b"body"),
            record(STDIN, b""),
        ]
        .concat();
        let request = Request::read(&mut whole.as_slice()).await.unwrap().unwrap();
        assert_eq!((request.param("A"), request.param("B").len()), ("bc", 200));
        assert!(request.is_whole && request.keep && request.body == b"body");
        let cut = &whole[..whole.len() - 8];
        assert!(!Request::read(&mut &*cut).await.unwrap().unwrap().is_whole);
        assert!(Request::read(&mut &b""[..]).await.unwrap().is_none());
        let twice = [
            &begin[..],
            &record(PARAMS, b"\x01\x00A\x01\x00A"),
            &record(PARAMS, b""),
        ];
        for wrong in [
            twice.concat(),
            [&begin[..], &begin].concat(),
            record(STDIN, b"a"),
        ] {
            assert!(Request::read(&mut wrong.as_slice()).await.is_err());
        }
    }
}
