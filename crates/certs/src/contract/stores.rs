//! The suite on the catalog in memory.

use super::Fixture;

mod memory {
    use super::*;
    crate::catalog_contract!(async { Fixture::memory() });
}
