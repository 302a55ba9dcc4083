//! Names of processes among the holders of claims.

use data_encoding::HEXLOWER;

/// Draws a name: two holders on one machine are two.
///
/// # Panics
/// If the system gives no random bytes.
#[must_use]
pub fn fresh() -> String {
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).expect("the system gives random bytes");
    format!("{}-{}", std::process::id(), HEXLOWER.encode(&random))
}
