//! Serialized form of a certificate chain.

use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Deserializer, Serializer};
use serde_bytes::Bytes;

pub(super) fn serialize<S: Serializer>(
    chain: &[CertificateDer<'static>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(chain.iter().map(|der| Bytes::new(der)))
}

pub(super) fn deserialize<'a, D: Deserializer<'a>>(
    deserializer: D,
) -> Result<Vec<CertificateDer<'static>>, D::Error> {
    let chain = Vec::<&Bytes>::deserialize(deserializer)?;
    Ok(chain.iter().map(|der| der.to_vec().into()).collect())
}
