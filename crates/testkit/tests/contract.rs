//! The suite on the catalog in memory, so that tests may take it for any other.

use std::sync::Arc;

use sekisho_testkit::Memory;
use sekisho_testkit::contract::Fixture;

fn memory() -> Fixture {
    let (clock, now) = Fixture::clock();
    Fixture {
        catalog: Arc::new(Memory::keeping(clock, Fixture::KEEP)),
        clock: now,
        keep: Box::new(()),
    }
}

sekisho_testkit::catalog_contract!(async { memory() });
