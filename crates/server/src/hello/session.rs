//! Finds out whether a ClientHello offers a session, which rustls does not tell.

/// Returns whether the ClientHello in `record`, a whole TLS record, offers a session of
/// TLS 1.3: `pre_shared_key` is then its last extension (RFC 8446, section 4.2.11). False
/// where the message goes on in another record, or can't be read.
pub(super) fn is_offered(record: &[u8]) -> bool {
    last_extension(record) == Some(PRE_SHARED_KEY)
}

/// Walks over the fields of a ClientHello (RFC 8446, section 4.1.2).
fn last_extension(record: &[u8]) -> Option<u16> {
    let session_id = record.get(BEFORE_SESSION_ID..)?;
    let cipher_suites = skip_short(session_id)?;
    let compression_methods = split_long(cipher_suites)?.1;
    let extensions = skip_short(compression_methods)?;
    let mut rest = split_long(extensions)?.0;
    let mut last = None;
    while let Some((kind, data)) = rest.split_first_chunk() {
        last = Some(u16::from_be_bytes(*kind));
        rest = split_long(data)?.1;
    }
    last
}

/// Returns what follows a vector with a length of one byte.
fn skip_short(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(usize::from(*length)..)
}

/// Splits off a vector with a length of two bytes.
fn split_long(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Headers of the record and of the message, version and random.
const BEFORE_SESSION_ID: usize = 5 + 4 + 2 + 32;

/// Number of the extension `pre_shared_key` (RFC 8446, section 4.2).
const PRE_SHARED_KEY: u16 = 41;
