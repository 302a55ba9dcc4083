//! Compares the weight of a virtual host with the memory that it allocates.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Scripted, host};
use sekisho_certs::{HostName, Lookup, LookupSettings, NeverObtain, Published};
use sekisho_server::site::Site;
use sekisho_server::tickets::Ring;
use sekisho_server::{Publisher, VirtualHost};
use sekisho_testkit::{Key, TestCa};
use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const COUNT: usize = 5000;

/// The only test of this binary: the allocator's statistics cover the process.
#[tokio::test]
async fn an_endpoint_weighs_what_it_takes() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let with_site = host("a.example", &[(&pair, Key::P256)]);
    let mut without_site = with_site.clone();
    without_site.record.site = None;
    for found in [with_site, without_site] {
        let has_site = found.record.site.is_some();
        let (grown, charged) = measure(found).await;
        let ratio = charged / grown;
        println!("site {has_site}: {grown:.0} bytes each, charged {charged:.0}, {ratio:.3}");
        assert!((0.85..=1.15).contains(&ratio), "{ratio}");
    }
}

/// Returns the bytes that one endpoint allocates, and its weight.
async fn measure(found: sekisho_certs::Found<sekisho_certs::OpenKey>) -> (f64, f64) {
    let publisher = Publisher::new(Arc::new(Ring::random()), Site::not_found(), Arc::default());
    let measured = Arc::new(Mutex::new((0.0, 0.0)));
    let result = Arc::clone(&measured);
    let settings = LookupSettings {
        memory: 16 << 20,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(60),
    };
    let lookup = Lookup::new(
        Arc::new(Scripted::new([found])),
        &settings,
        Arc::new(NeverObtain),
        move |host| {
            let mut kept: Vec<Published<VirtualHost>> = Vec::with_capacity(COUNT);
            let before = allocated();
            kept.extend((0..COUNT).map(|_| publisher.publish(host).expect("published")));
            // The value itself lies in the cache's own allocation.
            let grown = allocated() - before + COUNT * size_of::<VirtualHost>();
            let charged: usize = kept.iter().map(|one| one.weight).sum();
            *result.lock().unwrap() = (grown as f64 / COUNT as f64, charged as f64 / COUNT as f64);
            publisher.publish(host)
        },
    );
    lookup.load(&HostName::parse("a.example").unwrap()).await;
    *measured.lock().unwrap()
}

fn allocated() -> usize {
    epoch::advance().unwrap();
    stats::allocated::read().unwrap()
}
