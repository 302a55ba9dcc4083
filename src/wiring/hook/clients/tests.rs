//! Clients against real servers.

use std::path::Path;

use sekisho_testkit::{Answer, Endpoint, Key, RedisServer, Speaks, TestCa, services};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn clients(databases: &[(&str, &str)]) -> Clients {
    clients_with(databases, None)
}

/// Makes clients that believe the authorities of this file.
fn clients_with(databases: &[(&str, &str)], ca: Option<&Path>) -> Clients {
    let parsed = |&(name, url): &(&str, &str)| {
        let url = postgres::Url::parse(url, Path::new("/")).unwrap();
        (name.to_owned(), url)
    };
    let databases = databases.iter().map(parsed).collect();
    let bound = Duration::from_secs(10);
    Clients::new(&databases, bound, ca, "/".into(), &Handle::current()).unwrap()
}

fn request(url: &str) -> HttpRequest {
    HttpRequest {
        url: url.into(),
        headers: vec![("x-token".into(), "42".into())],
        timeout: Duration::from_secs(10),
        client: None,
    }
}

async fn error(clients: &Clients, request: HttpRequest) -> String {
    clients.http_get(request).await.unwrap_err().to_string()
}

/// Answers one request with these bytes, and gives its head.
async fn serve(answer: String) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let length = socket.read(&mut head).await.unwrap();
        // The client may go away amid a long answer.
        let _ = socket.write_all(answer.as_bytes()).await;
        head.truncate(length);
        String::from_utf8(head).unwrap()
    });
    (format!("http://{address}/a?b"), served)
}

#[tokio::test]
async fn redis_answers_each_command_and_keeps_absent_and_failed_apart() {
    let mut server = RedisServer::start();
    server.set("a", "1");
    server.cli(&["hset", "h", "k", "v"]);
    let clients = clients(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let get = |key: &str| clients.redis(&url, RedisCommand::Get(key.into()));
    assert_eq!(get("a").await, Ok(RedisReply::Value(Some(b"1".to_vec()))));
    assert_eq!(get("none").await, Ok(RedisReply::Value(None)));
    let unfit = get("h").await.unwrap_err();
    assert!(matches!(&unfit, CallError::Refused(why) if why.contains("holds no string")));
    let mget = RedisCommand::Mget(vec![b"none".to_vec(), b"a".to_vec()]);
    let values = vec![None, Some(b"1".to_vec())];
    assert_eq!(
        clients.redis(&url, mget).await,
        Ok(RedisReply::Values(values))
    );
    let all = |key: &str| clients.redis(&url, RedisCommand::Hgetall(key.into()));
    let fields = vec![(b"k".to_vec(), b"v".to_vec())];
    assert_eq!(all("h").await, Ok(RedisReply::Fields(fields)));
    assert_eq!(all("none").await, Ok(RedisReply::Fields(Vec::new())));
    server.stop();
    let away = get("none").await.unwrap_err();
    assert!(matches!(away, CallError::Outage(_)), "{away}");
}

#[tokio::test]
async fn urls_of_redis_are_bounded_and_checked() {
    let clients = clients(&[]);
    let get = |url: String| {
        let clients = &clients;
        async move {
            clients
                .redis(&url, RedisCommand::Get(b"a".to_vec()))
                .await
                .unwrap_err()
        }
    };
    // A client may have named the URL: such calls are charged.
    let not_sent = get("http://127.0.0.1".into()).await;
    assert!(matches!(&not_sent, CallError::Refused(why) if why.contains("redis")));
    // Nobody listens at port 1.
    for database in 0..MAX_REDIS {
        let away = get(format!("redis://127.0.0.1:1/{database}")).await;
        assert!(matches!(away, CallError::Outage(_)), "{away}");
    }
    let not_sent = get("redis://127.0.0.2:1".into()).await;
    assert!(matches!(&not_sent, CallError::Refused(why) if why.contains("16 URLs")));
}

/// URLs whose files can't be read take no place, and are tried again.
#[tokio::test]
async fn files_of_redis_urls_are_read_again_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    let clients = clients(&[]);
    let get = |port: usize| {
        let url = format!("rediss://127.0.0.1:{port}?ca={}", authority.display());
        let clients = &clients;
        async move {
            let get = RedisCommand::Get(b"a".to_vec());
            clients.redis(&url, get).await.unwrap_err().to_string()
        }
    };
    for port in 1..=MAX_REDIS + 4 {
        let why = get(port).await;
        assert!(why.contains("ca.pem"), "{why}");
    }
    std::fs::write(&authority, sekisho_testkit::TestCa::new().root_pem()).unwrap();
    let why = get(1).await;
    assert!(!why.contains("ca.pem"), "{why}");
}

#[tokio::test]
async fn each_status_of_http_is_an_answer() {
    let clients = clients(&[]);
    for status in [200, 302, 404, 500] {
        let body = "x".repeat(10);
        let fields = "Location: /elsewhere\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 10";
        let (url, served) = serve(format!("HTTP/1.1 {status} X\r\n{fields}\r\n\r\n{body}")).await;
        let answer = clients.http_get(request(&url)).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()));
        assert_eq!(answer.headers["x-a"], "1, 2");
        let head = served.await.unwrap();
        assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("x-token: 42\r\n") && head.contains("user-agent: sekisho/"));
    }
}

#[tokio::test]
async fn http_that_is_late_endless_or_too_long_fails() {
    let clients = clients(&[]);
    let long = format!("Content-Length: {}\r\n\r\n", MAX_BODY + 1);
    let cut = "Content-Length: 20\r\n\r\nhalf".to_owned();
    for (rest, wanted, is_outage) in [
        (long, "over 1 MiB", false),
        ("\r\nand so on".into(), "neither", true),
        (cut, "broke off", true),
    ] {
        let (url, _served) = serve(format!("HTTP/1.1 200 OK\r\n{rest}")).await;
        let error = clients.http_get(request(&url)).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(matches!(error, CallError::Outage(_)), is_outage, "{error}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut silent = request(&format!("http://{}/", listener.local_addr().unwrap()));
    silent.timeout = Duration::from_millis(50);
    let why = error(&clients, silent).await;
    assert!(why.contains("no answer within"), "{why}");
    for url in ["ftp://a.example/", "/path", "https://", "http://a b/"] {
        let why = error(&clients, request(url)).await;
        assert!(why.contains("URL"), "{url}: {why}");
    }
    let secret = "ftp://user:hush@a.example/path?token=hush#hush";
    let why = error(&clients, request(secret)).await;
    assert!(why.contains("\"ftp://a.example/path\" must"), "{why}");
    assert!(!why.contains("hush"), "{why}");
}

/// `[hook] ca` takes the place of the system's authorities.
#[tokio::test]
async fn a_private_authority_is_believed_only_where_it_is_named() {
    let (ca, other) = (TestCa::new(), TestCa::named("other"));
    let folder = tempfile::tempdir().unwrap();
    let file = |ca: &TestCa| {
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, ca.root_pem()).unwrap();
        clients_with(&[], Some(&file))
    };
    let pair = ca.issue(&["localhost"], Key::P256);
    for speaks in [Speaks::Http1(&pair), Speaks::Http2(&pair)] {
        let endpoint = Endpoint::start(speaks);
        endpoint.put("/a", Answer::ok("body"));
        let url = format!("https://localhost:{}/a", endpoint.address.port());
        let answer = file(&ca).http_get(request(&url)).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"body"[..]));
        for clients in [file(&other), clients(&[])] {
            let error = clients.http_get(request(&url)).await.unwrap_err();
            assert!(matches!(error, CallError::Outage(_)), "{error}");
            let why = error.to_string();
            assert!(why.contains("certificate"), "{why}");
        }
    }
}

/// A URL that hangs, or one network, leaves turns to the others.
#[tokio::test]
async fn a_slow_server_takes_no_turn_of_others() {
    let clients = Arc::new(clients(&[]));
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!("http://{}/", slow.local_addr().unwrap());
    let mut hanging = JoinSet::new();
    for network in 0..100 {
        let (clients, mut request) = (Arc::clone(&clients), request(&slow));
        request.client = Some([192, 0, network, 1].into());
        hanging.spawn(async move { clients.http_get(request).await });
    }
    tokio::task::yield_now().await;
    let (url, served) = serve("HTTP/1.1 204 X\r\n\r\n".into()).await;
    let mut other = request(&url);
    other.client = Some([192, 0, 2, 1].into());
    assert_eq!(clients.http_get(other).await.unwrap().status, 204);
    served.await.unwrap();
    assert_eq!(hanging.len(), 100);
    assert!(hanging.try_join_next().is_none(), "all hang");
}

#[tokio::test]
async fn databases_have_the_names_of_the_configuration() {
    let url = services::Postgres::shared().database();
    let clients = clients(&[("customers", &url)]);
    let text = "SELECT $1::text AS domain, $2::bytea AS raw, $3::int8 AS number";
    let sent = [
        SqlValue::Text("a.example".into()),
        SqlValue::Bytes(vec![255, 0]),
        SqlValue::Integer(7),
    ];
    let rows = clients.sql("customers", text.into(), sent.to_vec()).await;
    let row: Vec<_> = rows.unwrap().remove(0);
    let names: Vec<_> = row.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["domain", "raw", "number"]);
    let values: Vec<_> = row.into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, sent);
    let error = clients.sql("orders", text.into(), Vec::new()).await;
    let why = error.unwrap_err().to_string();
    assert!(why.contains("\"orders\"; it has: customers"), "{why}");
}

/// A failure that the text of a client causes is no outage: the client is charged.
#[tokio::test]
async fn queries_that_the_database_refuses_are_no_outage() {
    let url = services::Postgres::shared().database();
    let away = "postgres://sekisho@127.0.0.1:1/none";
    let clients = clients(&[("customers", &url), ("away", away)]);
    let query = |database: &'static str, text: &str| {
        let sent = vec![SqlValue::Text("shop.example".into())];
        clients.sql(database, text.to_owned(), sent)
    };
    let raises = "CREATE FUNCTION unknown_name(name text) RETURNS text LANGUAGE plpgsql \
                  AS $$ BEGIN RAISE EXCEPTION 'no domain %', name; END $$";
    let made = clients.sql("customers", raises.into(), Vec::new()).await;
    made.unwrap();
    for refused in [
        "SELECT $1::text::int",
        "SELECT repeat($1, 1)::timestamptz",
        "SELECT * FROM absent WHERE domain = $1",
        "SELECT $1, (SELECT generate_series(1, 2))",
        "SELECT unknown_name($1)",
        "SELECT $1, generate_series(1, 1001)",
        "SELECT repeat($1, 1000000)",
        "SELECT $1, 1.5::numeric",
    ] {
        let error = query("customers", refused).await.unwrap_err();
        assert!(matches!(error, CallError::Refused(_)), "{refused}: {error}");
    }
    for (database, text) in [
        ("away", "SELECT $1::text"),
        (
            "customers",
            "SELECT $1::text, pg_terminate_backend(pg_backend_pid())",
        ),
    ] {
        let error = query(database, text).await.unwrap_err();
        assert!(matches!(error, CallError::Outage(_)), "{text}: {error}");
    }
}
