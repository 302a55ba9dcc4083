//! A chain and its key as others write them: what the stores share that find
//! both as plain PEM under a name of the host's.

use std::fmt::Display;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use sekisho_certs::credential::{Credential, CredentialId};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{Answer, Found, Result, Source, StoreError};

/// PEM, wiped when dropped.
pub(crate) type Bytes = Zeroizing<Vec<u8>>;

/// What one look at a name gave.
pub(crate) enum Reading {
    Answer(Answer),
    /// Half a pair, or none that fits: says what, and where.
    Unfit(String),
}

/// Looks again for a quarter of a second while what is there does not fit,
/// since a renewal may just be writing it; then that is an error.
pub(crate) async fn settled<F>(mut look: impl FnMut() -> F) -> Result<Answer>
where
    F: Future<Output = Result<Reading>>,
{
    let mut pauses = PAUSES.into_iter();
    loop {
        let unfit = match look().await? {
            Reading::Answer(answer) => return Ok(answer),
            Reading::Unfit(why) => why,
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(StoreError::Corrupt(unfit.into())),
        }
    }
}

/// One half of a pair: where it is looked for, and what is there.
pub(crate) struct Half<P> {
    pub(crate) place: P,
    pub(crate) bytes: Option<Bytes>,
}

/// None if neither half is there.
pub(crate) fn pair<P: Display>(
    host: &HostPattern,
    chain: Half<P>,
    key: Half<P>,
) -> Option<Reading> {
    let (at_chain, at_key) = (chain.place, key.place);
    let (chain, key) = match (chain.bytes, key.bytes) {
        (None, None) => return None,
        (Some(chain), Some(key)) => (chain, key),
        (chain, _) => {
            let (there, missing) = match chain {
                Some(_) => (at_chain, at_key),
                None => (at_key, at_chain),
            };
            let text = format!("host {host}: {there} is there, but {missing} is missing");
            return Some(Reading::Unfit(text));
        }
    };
    Some(match found(host, &chain, &key) {
        Ok(found) => Reading::Answer(Answer::Found(Box::new(found))),
        Err(why) => Reading::Unfit(format!("host {host}: {at_chain} with {at_key}: {why}")),
    })
}

/// The same of a chain and a key in one PEM text, in any order.
pub(crate) fn bundle(host: &HostPattern, pem: &[u8]) -> std::result::Result<Found, String> {
    let credential = Credential::parse_stored_bundle(pem).map_err(|why| why.to_string())?;
    Ok(served_with(host, credential, identity(pem, &[])))
}

fn found(host: &HostPattern, chain: &[u8], key: &[u8]) -> std::result::Result<Found, String> {
    let credential = Credential::parse_stored(chain, key).map_err(|why| why.to_string())?;
    Ok(served_with(host, credential, identity(chain, key)))
}

/// A host that has nothing but this credential.
fn served_with(
    host: &HostPattern,
    credential: Credential,
    (id, version): (CredentialId, u64),
) -> Found {
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
        source: Source::Store,
    }
}

/// Equal for equal pairs only, so that a renewal is another credential.
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

/// For each half: far more than a chain of ten certificates.
pub(crate) const MAX_HALF: usize = 1 << 20;
/// How long a renewal has between its two halves, a quarter of a second in
/// all: well within the deadline of a call.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(190),
];
