//! Failures to reach a store.

use std::fmt::Display;

use sekisho_certs::store::StoreError;

/// Makes the error of a store that can't be reached, or broke off.
pub(crate) fn unavailable(why: impl Display) -> StoreError {
    StoreError::Unavailable(why.to_string().into())
}
