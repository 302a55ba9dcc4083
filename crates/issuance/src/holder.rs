//! Names of processes among the holders of claims.

use data_encoding::HEXLOWER;

/// Draws a name: two holders on one machine are two.
///
/// # Panics
/// If the system gives no random bytes.
#[must_use]
pub fn fresh() -> String {
    let drawn = sekisho_certs::random::<8>();
    format!("{}-{}", std::process::id(), HEXLOWER.encode(&drawn))
}
