use std::io::Read;
use std::net::TcpListener;
use std::time::Instant;

use sekisho_testkit::services::Signal;
use tokio_postgres::config::TargetSessionAttrs;

use super::*;
use sekisho_certs::seal::Sealer;
use sekisho_certs::seal::{KeyRing, MasterKey};

/// Short enough to wait for.
fn impatient() -> Options {
    Options {
        connect: Duration::from_millis(300),
        read: Duration::from_millis(500),
        write: Duration::from_millis(500),
        ..Options::default()
    }
}

/// Writes a host as soon as that is possible.
async fn written(store: &Postgres, host: &str) {
    in_time(async {
        while let Err(error) = store
            .write(Batch::unchecked(host_with(host, 1, sealed)))
            .await
        {
            assert!(error.is_retryable(), "{error}");
            pause().await;
        }
    })
    .await;
}

/// Between two looks.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // This listener accepts, reads, and says nothing.
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || (&stream).read_to_end(&mut Vec::new()));
        }
    });
    let url = format!("postgres://u:hush@127.0.0.1:{port}/d");
    let store = open(&url, Mode::Existing, &impatient());
    let begun = Instant::now();
    let error = store.find(&name("a.example")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(!error.to_string().contains("hush"), "{error}");
    let error = store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_wrong_password_is_a_failure_and_not_shown() {
    let url = database().replace("correct-horse", "battery-staple");
    let error = existing(&url).head().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("28P01") && !text.contains("battery"),
        "{text}"
    );
}

/// Down, back, killed, back, standing still, going on: each time calls fail
/// within their bounds, never say absent, and work again by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_heals_when_the_server_is_back() {
    let server = services::Postgres::start();
    let url = server.database();
    let store = open(&url, Mode::Create, &impatient());
    written(&store, "a.example").await;
    for (down, up) in [
        (Signal::End, None),
        (Signal::Kill, None),
        (Signal::Pause, Some(Signal::Resume)),
    ] {
        server.signal(down);
        let error = store.find(&name("a.example")).await.unwrap_err();
        assert!(error.is_retryable(), "{down:?}: {error}");
        assert!(!error.to_string().contains("correct-horse"), "{error}");
        match up {
            None => server.begin(),
            Some(signal) => server.signal(signal),
        }
        in_time(async {
            while let Err(error) = store.find(&name("a.example")).await {
                assert!(error.is_retryable(), "{down:?}: {error}");
                pause().await;
            }
        })
        .await;
        // So does the listening: another's write is noticed again.
        let changed = store.changed();
        written(&store, "b.example").await;
        in_time(changed).await;
        assert!(finds(&store, "a.example").await);
    }
}

/// Covers a server that starts before its database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_store_opens_at_the_first_contact() {
    let server = services::Postgres::start();
    let url = server.database();
    let ring = |byte| KeyRing::new(MasterKey::new(&[byte; 32]));
    let made = Arc::new(create(&url));
    let made = Sealer::create(made, ring(1)).await.unwrap();
    server.signal(Signal::End);
    let store = |byte| {
        let postgres = Arc::new(open(&url, Mode::Existing, &impatient()));
        Sealer::unopened(postgres, ring(byte))
    };
    let (right, wrong) = (store(1), store(2));
    let error = right.ensure_open().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    server.begin();
    let reached = async |store: &Sealer| loop {
        match store.ensure_open().await {
            Err(error) if error.is_retryable() => pause().await,
            other => break other,
        }
    };
    in_time(reached(&right)).await.unwrap();
    let error = in_time(reached(&wrong)).await.unwrap_err();
    assert!(error.to_string().contains("wrong master key"), "{error}");
    drop(made);
}

/// A standby lags behind: what it answers must not pass for fresh.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_passed_over() {
    let primary = services::Postgres::start();
    let url = primary.database();
    create(&url)
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let standby = primary.standby(primary.port());
    standby.catches_up_with(&primary);
    standby.sql("postgres", "SELECT pg_wal_replay_pause()");
    create(&url)
        .write(Batch::unchecked(host_with("b.example", 2, sealed)))
        .await
        .unwrap();
    let place = |port: u16| format!(":{port}");
    let lagging = url.replace(&place(primary.port()), &place(standby.port()));
    let error = existing(&lagging).find(&name("b.example")).await;
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let both = format!(
        "{},127.0.0.1{}",
        place(standby.port()),
        place(primary.port())
    );
    let both = url.replace(&place(primary.port()), &both);
    assert!(finds(&existing(&both), "b.example").await);
    // A pooler leads there behind the back of a connection that began at the primary.
    let mut behind = Url::parse(&lagging, Path::new("/")).unwrap();
    let any = TargetSessionAttrs::Any;
    behind.config.target_session_attrs(any);
    let behind = Postgres::new(&behind, &Options::default(), &Handle::current()).unwrap();
    for error in [
        behind.find(&name("b.example")).await.unwrap_err(),
        behind.changes(0, 9).await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(error.is_retryable() && text.contains("standby"), "{text}");
    }
}
