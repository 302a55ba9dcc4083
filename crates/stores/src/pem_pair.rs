//! A chain and its key in PEM, written by others under a name of the host's.
//! Shared by the stores `redis://`, `https://` and `files:`.

use std::fmt::Display;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use sekisho_certs::credential::{Credential, CredentialId};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, Found, Result, StoreError};

/// PEM, wiped when dropped.
pub(crate) type Bytes = Zeroizing<Vec<u8>>;

/// The result of reading a pair once.
pub(crate) enum PairRead {
    Answer(Answer<OpenKey>),
    /// Half a pair, or two halves that do not fit: says what is wrong, and where.
    Unfit(String),
}

/// Reads again for a quarter of a second while the halves do not fit, since a
/// renewal may just be writing them. After that, the pair is corrupt.
pub(crate) async fn read_until_fit<F>(mut read: impl FnMut() -> F) -> Result<Answer<OpenKey>>
where
    F: Future<Output = Result<PairRead>>,
{
    let mut pauses = PAUSES.into_iter();
    loop {
        let unfit = match read().await? {
            PairRead::Answer(answer) => return Ok(answer),
            PairRead::Unfit(why) => why,
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(StoreError::Corrupt(unfit.into())),
        }
    }
}

/// Half a pair: where it is stored, and its bytes if it is there.
pub(crate) struct Half<P> {
    pub(crate) place: P,
    pub(crate) bytes: Option<Bytes>,
}

/// Parses a pair; none if neither half is there.
pub(crate) fn pair<P: Display>(
    host: &HostPattern,
    chain: Half<P>,
    key: Half<P>,
) -> Option<PairRead> {
    let (at_chain, at_key) = (chain.place, key.place);
    let half = |there: &P, missing: &P| {
        let text = format!("host {host}: {there} is there, but {missing} is missing");
        Some(PairRead::Unfit(text))
    };
    let (chain, key) = match (chain.bytes, key.bytes) {
        (None, None) => return None,
        (Some(_), None) => return half(&at_chain, &at_key),
        (None, Some(_)) => return half(&at_key, &at_chain),
        (Some(chain), Some(key)) => (chain, key),
    };
    Some(match found(host, &chain, &key) {
        Ok(found) => PairRead::Answer(Answer::found(found)),
        Err(why) => PairRead::Unfit(format!("host {host}: {at_chain} with {at_key}: {why}")),
    })
}

/// Parses a chain and a key that stand in one PEM text, in any order.
#[cfg(feature = "http")]
pub(crate) fn bundle(
    host: &HostPattern,
    pem: &[u8],
) -> std::result::Result<Found<OpenKey>, String> {
    let credential = Credential::parse_stored_bundle(pem).map_err(|why| why.to_string())?;
    Ok(served_with(host, credential, identity(pem, &[])))
}

fn found(
    host: &HostPattern,
    chain: &[u8],
    key: &[u8],
) -> std::result::Result<Found<OpenKey>, String> {
    let credential = Credential::parse_stored(chain, key).map_err(|why| why.to_string())?;
    Ok(served_with(host, credential, identity(chain, key)))
}

/// Makes the record of a host that has this credential alone.
fn served_with(
    host: &HostPattern,
    credential: Credential,
    (id, version): (CredentialId, u64),
) -> Found<OpenKey> {
    let mut stored = credential.into_stored(id);
    stored.version = version;
    let mut record = HostRecord::new(host.clone());
    record.references.set(stored.key_type, Some(id));
    record.version = version;
    Found {
        record,
        credentials: vec![stored],
        shadowed: true,
        fresh_for: None,
    }
}

/// Digests a pair into an id and a version: a renewal is another credential.
fn identity(chain: &[u8], key: &[u8]) -> (CredentialId, u64) {
    let mut digest = Context::new(&SHA256);
    digest.update(&(chain.len() as u64).to_be_bytes());
    digest.update(chain);
    digest.update(key);
    let digest = digest.finish();
    let number = |at: usize| {
        let bytes = digest.as_ref()[at..at + 8].try_into();
        u64::from_be_bytes(bytes.expect("8 of 32 bytes"))
    };
    (CredentialId::from_u64(number(0)), number(8))
}

/// Bytes of each half: far more than a chain of ten certificates.
pub(crate) const MAX_HALF: usize = 1 << 20;
/// How long a renewal has between its two halves, a quarter of a second in
/// all: well within the deadline of a call.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(190),
];
