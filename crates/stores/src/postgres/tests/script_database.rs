//! Queries of scripts, on tables of somebody else.

use std::sync::atomic::{AtomicUsize, Ordering};

use sekisho_certs::hook::{SqlRow, SqlValue};
use tokio::io;
use tokio::net::{TcpListener, TcpStream};

use super::*;

fn foreign(url: &str, bound: Duration) -> ScriptDatabase {
    let url = Url::parse(url, Path::new("/")).unwrap();
    ScriptDatabase::new(&url, bound, &Handle::current()).unwrap()
}

fn patient() -> ScriptDatabase {
    foreign(&database(), Duration::from_secs(10))
}

async fn query(on: &ScriptDatabase, text: &str, parameters: &[SqlValue]) -> Result<Vec<SqlRow>> {
    on.query(text.into(), parameters.to_vec()).await
}

/// Values of the only row.
async fn row(on: &ScriptDatabase, text: &str, parameters: &[SqlValue]) -> Vec<SqlValue> {
    let rows = query(on, text, parameters).await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].iter().map(|(_, value)| value.clone()).collect()
}

fn text(text: &str) -> SqlValue {
    SqlValue::Text(text.into())
}

async fn refusal(on: &ScriptDatabase, query: &str) -> String {
    match on.query(query.into(), Vec::new()).await {
        Ok(rows) => panic!("{query}: {} rows", rows.len()),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn values_of_each_type_come_back() {
    let on = patient();
    let types = "SELECT $1, $2, $3, $4, $5, $6, 1::int2, 1::int4, 1::oid, 0.5::real, \
                 'x'::name, 'x'::varchar, '{\"a\": 1}'::jsonb, '[1]'::json";
    let sent = [
        SqlValue::Null,
        SqlValue::Bool(true),
        SqlValue::Integer(-5),
        SqlValue::Float(0.25),
        text("é"),
        SqlValue::Bytes(vec![0, 255]),
    ];
    let got = row(&on, types, &sent).await;
    assert_eq!(got[..6], sent);
    let one = SqlValue::Integer(1);
    let rest = [
        one.clone(),
        one.clone(),
        one,
        SqlValue::Float(0.5),
        text("x"),
        text("x"),
        text("{\"a\": 1}"),
        text("[1]"),
    ];
    assert_eq!(got[6..], rest);
}

#[tokio::test]
async fn parameters_are_never_part_of_the_text() {
    let on = patient();
    query(&on, "CREATE TABLE customers (id int, domain varchar)", &[])
        .await
        .unwrap();
    let insert = "INSERT INTO customers VALUES ($1, $2)";
    let sent = [SqlValue::Integer(1), text("a.example")];
    query(&on, insert, &sent).await.unwrap();
    let select = "SELECT id AS number FROM customers WHERE domain = $1 AND id = $2";
    let evil = text("' OR true; DROP TABLE customers; --");
    let found = query(&on, select, &[evil, SqlValue::Integer(1)]).await;
    assert!(found.unwrap().is_empty());
    let found = query(&on, select, &[text("a.example"), SqlValue::Integer(1)]).await;
    let (name, number) = &found.unwrap()[0][0];
    assert_eq!((&**name, number), ("number", &SqlValue::Integer(1)));
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let on = patient();
    let why = refusal(&on, "SELECT * FROM absent").await;
    assert!(why.contains("absent"), "{why}");
    let why = refusal(&on, "SELECT 1.5::numeric AS price").await;
    assert!(
        why.contains("price") && why.contains("column::text"),
        "{why}"
    );
    let why = refusal(&on, "SELECT generate_series(1, 1001)").await;
    assert!(why.contains("1,000 rows"), "{why}");
    let why = refusal(&on, "SELECT repeat('x', 800000) FROM generate_series(1, 2)").await;
    assert!(why.contains("1,000 rows or 1 MiB"), "{why}");
    assert_eq!(
        row(&on, "SELECT 1::int8", &[]).await,
        [SqlValue::Integer(1)]
    );
}

/// The row is never read whole: the connection ends with 4 MiB of it, however it is
/// secured. Other connections stay.
#[tokio::test]
async fn a_row_over_the_bound_ends_its_connection() {
    let server = services::Postgres::shared();
    let url = database();
    let name = name_of(&url);
    let folder = server.sql(name, "SHOW unix_socket_directories");
    let local = format!(
        "postgres:///{name}?user=sekisho&password=correct-horse&host={}&port={}",
        folder.trim(),
        server.port()
    );
    let address = format!(
        "postgres:///{name}?user=sekisho&password=correct-horse&hostaddr=127.0.0.1&port={}",
        server.port()
    );
    for (url, is_secured) in [
        (format!("{}?sslmode=disable", server.url(name)), false),
        (format!("{}?sslmode=prefer", server.url(name)), true),
        (format!("{}?sslmode=require", server.url(name)), true),
        (address, true),
        (local, false),
    ] {
        let on = foreign(&url, Duration::from_secs(10));
        let secured = "SELECT ssl, pg_backend_pid() FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let before = row(&on, secured, &[]).await;
        assert_eq!(before[0], SqlValue::Bool(is_secured), "{url}");
        assert_eq!(
            row(&on, secured, &[]).await,
            before,
            "the connection is kept"
        );
        // Over 4 MiB in all, on one connection.
        for _ in 0..5 {
            let most = row(&on, "SELECT repeat('x', 1048000)", &[]).await;
            assert!(matches!(&most[0], SqlValue::Text(text) if text.len() == 1_048_000));
        }
        assert_eq!(row(&on, secured, &[]).await, before);
        let why = refusal(&on, "SELECT repeat('x', 2000000)").await;
        assert!(why.contains("1,000 rows or 1 MiB"), "{why}");
        // One call has the kept connection, the next one another.
        let slow = "SELECT pg_backend_pid() FROM pg_sleep(0.2)";
        let (neighbour, why) = tokio::join!(
            row(&on, slow, &[]),
            refusal(&on, "SELECT repeat('x', 50000000)")
        );
        assert!(why.contains("over 4 MiB came for one query"), "{why}");
        let after = row(&on, secured, &[]).await;
        assert_eq!(neighbour[0], after[1], "{url}");
    }
}

#[tokio::test]
async fn a_query_that_takes_too_long_ends_at_the_server_too() {
    let url = database();
    let watch = patient();
    let separator = if url.contains('?') { '&' } else { '?' };
    let one = format!("{url}{separator}pool=1");
    let pooled = services::PgBouncer::shared().through(services::Postgres::shared(), &one);
    // Without `statement_timeout`, a request ends it.
    for url_of in [&one, &format!("{one}&pgbouncer=1"), &pooled] {
        let on = foreign(url_of, Duration::from_millis(500));
        let why = refusal(&on, "SELECT pg_sleep(3600)").await;
        assert!(!why.is_empty());
        // The next query has a connection of its own.
        assert_eq!(
            row(&on, "SELECT 1::int8", &[]).await,
            [SqlValue::Integer(1)]
        );
        no_longer_sleeps(&watch, &url).await;
    }
}

async fn no_longer_sleeps(watch: &ScriptDatabase, url: &str) {
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND query LIKE \
                    '%pg_sleep(3600)%' AND state = 'active'";
    let name = [text(name_of(url))];
    in_time(async {
        while row(watch, sleeping, &name).await != [SqlValue::Integer(0)] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Each query fails by its answer, and its cancelling hangs.
#[tokio::test]
async fn cancelling_that_is_slow_keeps_no_more_connections_than_the_pool() {
    let url = database();
    let open = Arc::new(AtomicUsize::new(0));
    let port = never_cancels(Arc::clone(&open)).await;
    let pooled = format!(
        "postgres://sekisho:correct-horse@127.0.0.1:{port}/{}?sslmode=disable&pool=1",
        name_of(&url)
    );
    let on = foreign(&pooled, Duration::from_secs(10));
    for _ in 0..6 {
        let why = refusal(&on, "SELECT generate_series(1, 1001)").await;
        assert!(why.contains("1,000 rows"), "{why}");
    }
    // Sooner than cancelling is given up, after 2 s.
    let closed = tokio::time::timeout(Duration::from_secs(1), async {
        while open.load(Ordering::Relaxed) > 1 {
            tokio::task::yield_now().await;
        }
    });
    let left = closed.await.map_err(|_| open.load(Ordering::Relaxed));
    assert_eq!(left, Ok(()), "open connections");
}

/// Starts a way to the shared server on which requests to cancel are never answered, and
/// counts the other connections.
async fn never_cancels(open: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(forward(client, Arc::clone(&open)));
        }
    });
    port
}

async fn forward(mut client: TcpStream, open: Arc<AtomicUsize>) -> io::Result<()> {
    let mut head = [0; 8];
    while client.peek(&mut head).await? < head.len() {}
    if head[4..] == CANCEL_REQUEST {
        return std::future::pending().await;
    }
    let server = ("127.0.0.1", services::Postgres::shared().port());
    let mut server = TcpStream::connect(server).await?;
    open.fetch_add(1, Ordering::Relaxed);
    let ((mut up, mut down), (mut answers, mut asks)) = (client.split(), server.split());
    // The client's end alone counts: the server's follows the end of its query.
    tokio::select! {
        _ = io::copy(&mut up, &mut asks) => {}
        _ = io::copy(&mut answers, &mut down) => {}
    }
    open.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// Code of a request to cancel, 80877102.
const CANCEL_REQUEST: [u8; 4] = [0x04, 0xd2, 0x16, 0x2e];
