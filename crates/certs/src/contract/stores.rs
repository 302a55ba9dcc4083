//! The suite on the catalog in memory, alone and sealed.

use super::Fixture;

mod memory {
    use super::*;
    crate::catalog_contract!(async { Fixture::memory() });
}

mod sealed_memory {
    use super::*;
    crate::catalog_contract!(Fixture::memory().sealing());
}
