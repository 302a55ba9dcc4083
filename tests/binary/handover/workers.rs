//! Tests other numbers of workers while clients connect.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use sekisho_testkit::client;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::{HOST, Handed};
use crate::sandbox::{SOON, ca};

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
                    let bounded = async { timeout(SOON, fetch).await };
                    runtime
                        .block_on(bounded)
                        .map_err(|_| ErrorKind::TimedOut)??;
                    visits.fetch_add(1, Ordering::Relaxed);
                }
                std::io::Result::Ok(())
            })
        });
        let stopping = Stopping(&stops);
        for (generation, workers) in [(2, 4), (3, 1), (4, 3), (5, 2)] {
            handed.reload(generation, "", &format!("[server]\nworkers = {workers}\n"));
        }
        drop(stopping);
        for client in clients {
            let ended = client.join().expect("no panic");
            assert!(ended.is_ok(), "{ended:?}: {}", handed.server.log());
        }
    });
    assert!(visits.load(Ordering::Relaxed) > 50, "{visits:?}");
}

/// Ends the clients when it is dropped, also by a failure.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
