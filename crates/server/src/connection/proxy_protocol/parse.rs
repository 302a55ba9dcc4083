//! Parses a header of the PROXY protocol.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Source;

/// Reason why the first bytes of a connection are no header, for the log.
type Malformed = &'static str;

/// Parses the header that `bytes` begin with. Returns the source of the
/// connection and the header's length; None if the header is not complete.
///
/// If `bytes` are a header with more behind it, no shorter prefix of them is a
/// complete header or malformed.
///
/// # Errors
/// The reason, as soon as no further byte can complete a header.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    if let Some(rest) = bytes.strip_prefix(SIGNATURE) {
        let parsed = version2(rest)?;
        return Ok(parsed.map(|(source, length)| (source, SIGNATURE.len() + length)));
    }
    if bytes.starts_with(KEYWORD) {
        return version1(bytes);
    }
    if SIGNATURE.starts_with(bytes) || KEYWORD.starts_with(bytes) {
        return Ok(None);
    }
    Err("the first bytes are of neither version")
}

/// Describes what [`parse`] makes of `bytes`, and the header's length; None if
/// the header is not complete.
#[cfg(fuzzing)]
#[must_use]
pub fn proxy_header(bytes: &[u8]) -> Option<(String, usize)> {
    match parse(bytes) {
        Ok(None) => None,
        Ok(Some((source, length))) => Some((format!("{source:?}"), length)),
        Err(malformed) => Some((malformed.to_owned(), 0)),
    }
}

/// Parses a line such as `PROXY TCP4 192.0.2.1 192.0.2.2 49152 443`, which ends
/// with CRLF (section 2.1).
fn version1(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        if bytes.len() >= LONGEST_LINE {
            return Err("version 1: the line is longer than 107 bytes");
        }
        return Ok(None);
    };
    let line = line[..end].strip_suffix(b"\r");
    let line = line.ok_or("version 1: the line does not end with CRLF")?;
    let text = std::str::from_utf8(&line[KEYWORD.len()..]);
    let text = text.map_err(|_| "version 1: the line is not ASCII")?;
    Ok(Some((fields(text)?, end + 1)))
}

fn fields(text: &str) -> Result<Source, Malformed> {
    let mut fields = text.split(' ');
    let family = fields.next();
    if family == Some("UNKNOWN") {
        // Anything may follow, and is ignored.
        return Ok(Source::Unknown);
    }
    let mut address = || -> Option<IpAddr> {
        let text = fields.next()?;
        match family? {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            _ => None,
        }
    };
    let addresses = address().zip(address());
    let ports = fields
        .next()
        .and_then(port)
        .zip(fields.next().and_then(port));
    match (addresses, ports, fields.next()) {
        (Some((client, _)), Some((port, _)), None) => Ok(client_at(client, port)),
        _ => Err("version 1: a field is missing or malformed"),
    }
}

/// Parses a port, which has no leading zeros.
fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// Parses what follows the signature (section 2.2). The TLVs behind the
/// addresses are skipped.
fn version2(rest: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    if rest.first().is_some_and(|byte| byte >> 4 != 2) {
        return Err("version 2: the version is unknown");
    }
    let Some((&[version, family, high, low], block)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST_BLOCK {
        return Err("version 2: addresses and TLVs are too long");
    }
    let Some(block) = block.get(..length) else {
        return Ok(None);
    };
    let source = match version & 0x0f {
        LOCAL => Source::Local,
        PROXY => addresses(family, block)?,
        _ => return Err("version 2: the command is unknown"),
    };
    Ok(Some((source, FIXED + length)))
}

fn addresses(family: u8, block: &[u8]) -> Result<Source, Malformed> {
    let client = match family {
        TCP4 => client_of::<4>(block),
        TCP6 => client_of::<16>(block),
        // A receiver takes those that it has no use for as unspecified (section
        // 2.2).
        UNSPECIFIED | UDP4 | UDP6 | UNIX_STREAM | UNIX_DATAGRAM => return Ok(Source::Unknown),
        _ => return Err("version 2: the address family is unknown"),
    };
    client.ok_or("version 2: the addresses are cut")
}

/// Returns the client of a block: addresses of client and server, of `N` bytes each, then
/// their ports.
fn client_of<const N: usize>(block: &[u8]) -> Option<Source>
where
    IpAddr: From<[u8; N]>,
{
    let address: &[u8; N] = block.first_chunk()?;
    let ports = block.get(2 * N..2 * N + 4)?;
    let port = u16::from_be_bytes([ports[0], ports[1]]);
    Some(client_at((*address).into(), port))
}

fn client_at(address: IpAddr, port: u16) -> Source {
    Source::Client(SocketAddr::new(address.to_canonical(), port))
}

pub(super) const KEYWORD: &[u8] = b"PROXY ";
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes between the signature and the addresses.
const FIXED: usize = 4;

/// The longest line of version 1, CRLF included (section 2.1).
const LONGEST_LINE: usize = 107;
/// Bytes of addresses and TLVs. Load balancers send some hundreds; those with
/// the client's certificate a few thousand.
const LONGEST_BLOCK: usize = 8 << 10;

const LOCAL: u8 = 0;
const PROXY: u8 = 1;

const UNSPECIFIED: u8 = 0x00;
pub(super) const TCP4: u8 = 0x11;
const UDP4: u8 = 0x12;
pub(super) const TCP6: u8 = 0x21;
const UDP6: u8 = 0x22;
const UNIX_STREAM: u8 = 0x31;
const UNIX_DATAGRAM: u8 = 0x32;

#[cfg(test)]
mod tests;
