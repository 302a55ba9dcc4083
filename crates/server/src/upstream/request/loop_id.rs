//! Name of the servers of a catalog in `CDN-Loop`.

use data_encoding::HEXLOWER;
use http::HeaderValue;

/// Name that the servers of one catalog have in `CDN-Loop` (RFC 8586). A request
/// that comes with it has been here before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopId(pub(crate) HeaderValue);

impl LoopId {
    /// Makes the name of a catalog's servers, or of others with an identity.
    #[must_use]
    pub fn new(identity: [u8; 16]) -> Self {
        let name = format!("sekisho-{}", HEXLOWER.encode(&identity));
        Self(HeaderValue::try_from(name).expect("letters and digits"))
    }
}
