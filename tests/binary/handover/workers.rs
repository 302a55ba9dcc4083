//! Tests other numbers of workers while clients connect.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use sekisho_testkit::client;
use tokio::runtime::Builder;

use super::{HOST, Handed};
use crate::sandbox::ca;

#[test]
fn more_and_fewer_workers_refuse_no_connection() {
    let handed = Handed::start("[server]\nworkers = 2\n");
    let (stops, visits) = (AtomicBool::new(false), AtomicU32::new(0));
    let https = handed.server.https;
    thread::scope(|scope| {
        let clients = [(); 2].map(|()| {
            scope.spawn(|| {
                let runtime = Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                while !stops.load(Ordering::Relaxed) {
                    let fetch = client::fetch(https, HOST, "/", client::config(ca()));
                    runtime.block_on(fetch)?;
                    visits.fetch_add(1, Ordering::Relaxed);
                }
                std::io::Result::Ok(())
            })
        });
        for (generation, workers) in [(2, 4), (3, 1), (4, 3), (5, 2)] {
            handed.reload(generation, "", &format!("[server]\nworkers = {workers}\n"));
        }
        stops.store(true, Ordering::Relaxed);
        for client in clients {
            let ended = client.join().expect("no panic");
            assert!(ended.is_ok(), "{ended:?}: {}", handed.server.log());
        }
    });
    assert!(visits.load(Ordering::Relaxed) > 50, "{visits:?}");
}
