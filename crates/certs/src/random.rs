//! Random bytes.

/// Draws as many random bytes as are asked for.
///
/// # Panics
/// If the system gives none.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}
