//! How often a call goes to the server and back.

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;
use sekisho_certs::lineage::{Able, Fence};
use sekisho_certs::record::Tenant;
use sekisho_certs::store::Write;
use sekisho_testkit::contract::fixture::pattern;

/// Stands before the server and counts how often a client had to wait for it.
///
/// Counts trips: what goes together in one leaves the client in any number of pieces.
/// So while it counts, it holds the answers back until all of them have had
/// the time to arrive.
struct Counter {
    url: String,
    trips: Arc<Trips>,
}

#[derive(Default)]
struct Trips {
    counting: AtomicBool,
    count: AtomicU64,
}

/// Part of one connection. The listening one is told things unasked.
struct Conversation {
    trips: Arc<Trips>,
    /// True if the client spoke since answers were last let through.
    asked: AtomicBool,
}

impl Counter {
    fn before(url: &str) -> Self {
        let server = services::Postgres::shared().port();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let trips = Arc::new(Trips::default());
        let counted = Arc::clone(&trips);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let asking = Arc::new(Conversation {
                    trips: Arc::clone(&counted),
                    asked: AtomicBool::new(false),
                });
                let answering = Arc::clone(&asking);
                pass(up, server, move || asking.asked());
                pass(down, client, move || answering.answered());
            }
        });
        let url = url.replace(&format!(":{server}/"), &format!(":{port}/"));
        Self { url, trips }
    }

    async fn trips<T>(&self, call: impl Future<Output = Result<T>>) -> u64 {
        self.trips.count.store(0, Ordering::SeqCst);
        self.trips.counting.store(true, Ordering::SeqCst);
        call.await.unwrap();
        self.trips.counting.store(false, Ordering::SeqCst);
        self.trips.count.load(Ordering::SeqCst)
    }
}

impl Conversation {
    fn asked(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    fn answered(&self) {
        let trips = &self.trips;
        if trips.counting.load(Ordering::SeqCst) && self.asked.load(Ordering::SeqCst) {
            trips.count.fetch_add(1, Ordering::SeqCst);
            thread::sleep(TOGETHER);
        }
        self.asked.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, seen: impl Fn() + Send + 'static) {
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            seen();
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_takes_one_and_a_write_three() {
    for mode in ["", "&pgbouncer=1"] {
        let counter = Counter::before(&database());
        let store = create(&format!("{}{mode}&pool=1", counter.url));
        // The connection is made, and what it prepares prepared.
        store
            .write(Batch::unchecked(host_with("*.example.com", 1, sealed)))
            .await
            .unwrap();
        store
            .write(Batch::unchecked(host_with("a.example.com", 2, sealed)))
            .await
            .unwrap();
        for known in ["a.example.com", "b.example.com", "absent.example"] {
            store.find(&name(known)).await.unwrap();
            assert_eq!(
                counter.trips(store.find(&name(known))).await,
                1,
                "{known}{mode}"
            );
        }
        store.changes(0, 9).await.unwrap();
        assert_eq!(counter.trips(store.changes(0, 9)).await, 1);
        let batch =
            (0..50).flat_map(|number| host_with(&format!("h{number}.example"), number, sealed));
        let trips = counter
            .trips(store.write(Batch::unchecked(batch.collect())))
            .await;
        assert!(trips <= 3, "{trips} for a write{mode}");
        let names = [pattern("h1.example")];
        let mut lineage = Lineage::new(Tenant::default(), names).unwrap();
        lineage.due = Some(0);
        let put = Write::PutLineage(lineage, Fence::Any);
        let trips = counter.trips(store.write(Batch::unchecked(vec![put])));
        assert!(trips.await <= 3, "for a lineage{mode}");
        let due = ToClaim::Due {
            limit: 9,
            able: Able::default(),
        };
        let claim = store.claim(due, "holder", Duration::from_secs(9));
        assert_eq!(counter.trips(claim).await, 1, "{mode}");
    }
}

/// Far longer than one machine takes to send what was written together.
const TOGETHER: Duration = Duration::from_millis(200);
