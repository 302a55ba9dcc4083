//! Faults of what a hook's script asks, as clients of the server see them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use sekisho_testkit::services::Postgres;
use sekisho_testkit::{Key, RedisServer, client};

use crate::postgres::name_of;
use crate::redis::put;
use crate::sandbox::{SOON, Sandbox, Server, ca, until};

/// Makes a sandbox with this script, and certificates for these hosts.
fn sandbox(script: &str, more: &str, hosts: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("[hook]\nscript = \"handshake.luau\"\n{more}"));
    sandbox.write("handshake.luau", script);
    for host in hosts {
        sandbox.page(host, &format!("page of {host}"));
    }
    sandbox.import(hosts);
    sandbox.ok(&["check"]);
    sandbox
}

/// Asserts the alert that a client gets. The report of a run says why: the log names
/// one failure per second.
fn assert_refused((sandbox, server): (&Sandbox, &Server), host: &str, alert: &str, why: &str) {
    let seen = server.refusal(host);
    assert!(seen.contains(alert), "{host}: {seen}");
    let ran = sandbox.run(&["hook", "test", "--name", host]);
    assert!(ran.err.contains(why), "{host}, {why}: {}", ran.err);
}

#[test]
fn http_that_fails_is_never_absent() {
    let backend = backend();
    let script = format!(
        "function handshake(tls)
            local path = tls.server_name:match('^[^.]+')
            local answer = http.get('http://{backend}/' .. path, {{timeout = 2}})
            if answer.status == 404 then return tls:refuse('unrecognized_name') end
            if answer.status ~= 200 then error('status ' .. answer.status) end
            tls:use(answer.body)
        end"
    );
    let sandbox = sandbox(&script, "", &["found.example", "a.example"]);
    let server = sandbox.serve();
    assert!(server.shows("found.example", "page of found.example"));
    for (host, alert, why) in [
        ("absent.example", "UnrecognisedName", ""),
        ("broken.example", "InternalError", "status 500"),
        ("moved.example", "InternalError", "status 302"),
        ("endless.example", "InternalError", "over 1 MiB"),
        ("trickle.example", "InternalError", "no answer within"),
        ("closed.example", "InternalError", "connection closed"),
    ] {
        assert_refused((&sandbox, &server), host, alert, why);
    }
    assert!(server.shows("found.example", "page of found.example"));
    server.stop();
}

/// Starts a server whose answer the path says, as long as the tests run.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that leaves is its own matter.
            thread::spawn(move || drop(answer(&stream)));
        }
    });
    address
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let short = |status: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\nConnection: close\r\n\r\na.example")
    };
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    match path {
        "/found" => stream.write_all(short("200 OK").as_bytes()),
        "/absent" => stream.write_all(short("404 Not Found").as_bytes()),
        "/broken" => stream.write_all(short("500 Broken").as_bytes()),
        "/moved" => stream.write_all(short("302 Found\r\nLocation: /found").as_bytes()),
        "/endless" | "/trickle" => {
            stream.write_all(chunked.as_bytes())?;
            let pause = Duration::from_millis(if path == "/trickle" { 50 } else { 0 });
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            for _ in 0..CHUNKS {
                stream.write_all(chunk.as_bytes())?;
                thread::sleep(pause);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[test]
fn text_of_a_client_is_only_a_parameter_of_sql() {
    let postgres = Postgres::shared();
    let url = postgres.database();
    let name = name_of(&url);
    postgres.sql(
        name,
        "CREATE TABLE customers (domain text, host text);
         INSERT INTO customers VALUES ('a.example', 'b.example');
         CREATE TABLE seen (protocol text)",
    );
    let script = "local customers = sql('customers')
        function handshake(tls)
            local protocol = tls.alpn[1] or ''
            if tls.server_name == 'big.example' then
                customers:query(\"SELECT repeat('x', 50000000)\")
            end
            customers:query('INSERT INTO seen VALUES ($1)', protocol)
            local rows = customers:query(
                'SELECT host FROM customers WHERE domain = $1 AND $2 <> host',
                tls.server_name, protocol)
            if not rows[1] then return tls:refuse() end
            tls:use(rows[1].host)
        end";
    let more = format!("[hook.sql]\ncustomers = {url:?}\n");
    let sandbox = sandbox(script, &more, &["a.example", "b.example"]);
    let server = sandbox.serve();
    let evil = "'; DROP TABLE customers; --";
    let mut config = client::config(ca());
    config.alpn_protocols = vec![evil.into(), b"http/1.1".to_vec()];
    let answer = server.fetch_with("a.example", config).expect("an answer");
    assert!(answer.contains("page of a.example"), "{answer}");
    assert!(server.refusal("none.example").contains("UnrecognisedName"));
    assert_refused(
        (&sandbox, &server),
        "big.example",
        "InternalError",
        "over 4 MiB",
    );
    assert!(server.shows("a.example", "page of a.example"));
    let count = format!(
        "SELECT count(*) FROM seen WHERE protocol = '{}'",
        evil.replace('\'', "''")
    );
    assert_eq!(postgres.sql(name, &count).trim(), "1");
    assert_eq!(
        postgres.sql(name, "SELECT * FROM customers").trim(),
        "a.example|b.example"
    );
    server.stop();
}

#[test]
fn redis_that_fails_is_never_absent_and_what_was_kept_is_served_on() {
    let mut redis = RedisServer::start();
    put(&redis, "kept.example");
    put(&redis, "late.example");
    redis.cli(&["hset", "hash.example.crt", "a", "b"]);
    redis.cli(&[
        "eval",
        "redis.call('set', 'long.example.crt', string.rep('x', 10485760))",
        "0",
    ]);
    redis.cli(&["eval", "redis.call('set', 'pem.example.crt', '-----BEGIN CERTIFICATE-----' .. string.rep('x', 1000000))", "0"]);
    let other = ca().issue(&["other.example"], Key::P256);
    redis.set(
        "pair.example.crt",
        &ca().issue(&["pair.example"], Key::P256).chain_pem(),
    );
    redis.set("pair.example.key", &other.key_pem());
    let script = format!(
        "local certificates = redis('redis://127.0.0.1:{}')
        function handshake(tls)
            local name = tls.server_name
            tls:cached(name, if name == 'kept.example' then 0.001 else 60, function()
                local chain = certificates:get(name .. '.crt')
                if not chain then return tls:refuse('unrecognized_name') end
                tls:certificate(chain)
                tls:certificate_key(certificates:get(name .. '.key') or 'none')
            end)
        end",
        redis.port()
    );
    let sandbox = sandbox(&script, "", &["a.example"]);
    for host in ["kept.example", "late.example"] {
        sandbox.page(host, &format!("page of {host}"));
    }
    let server = sandbox.serve();
    assert!(server.shows("kept.example", "page of kept.example"));
    assert_refused((&sandbox, &server), "none.example", "UnrecognisedName", "");
    for (host, why) in [
        ("hash.example", "holds no string"),
        ("long.example", "over 1 MiB"),
        ("pem.example", "at most 262144 bytes"),
        ("pair.example", "does not belong"),
    ] {
        assert_refused((&sandbox, &server), host, "InternalError", why);
    }
    redis.stop();
    // Its limit of a millisecond is over.
    assert!(server.shows("kept.example", "page of kept.example"));
    assert_refused((&sandbox, &server), "late.example", "InternalError", "");
    redis.restart();
    put(&redis, "late.example");
    until("Redis is asked again", SOON, || {
        server.shows("late.example", "page of late.example")
    });
    server.stop();
}

#[test]
fn a_failing_script_leads_where_on_error_says() {
    let script = "function handshake(tls)
        if tls.server_name == 'cut.example' then
            string.rep('a', 1e5):match('[' .. string.rep('b', 150) .. 'a]*')
            while true do end
        end
        error('as the test wants')
    end";
    for (on_error, default, unknown) in [
        ("lookup", "", "UnrecognisedName"),
        ("default", "[default]\n\"*\" = \"a.example\"\n", ""),
    ] {
        let more = format!("on_error = {on_error:?}\n{default}");
        let sandbox = sandbox(script, &more, &["a.example", "cut.example"]);
        let server = sandbox.serve();
        for host in ["a.example", "cut.example"] {
            let page = format!("page of {host}");
            assert!(
                server.shows(host, &page),
                "{host}: {:?}",
                server.fetch(host)
            );
        }
        // The default has another name: the client finds out.
        let seen = server.refusal("unknown.example");
        match unknown {
            "" => assert!(seen.contains("certificate"), "{seen}"),
            alert => assert!(seen.contains(alert), "{seen}"),
        }
        assert!(
            server.log().contains("as the test wants"),
            "{}",
            server.log()
        );
        server.stop();
    }
}

#[test]
fn no_log_line_has_control_or_format_characters() {
    let redis = RedisServer::start();
    let evil = "x\n{\"level\":\"ERROR\"}\u{202e}\u{200b}\u{1b}[31m\r\u{7f}y";
    redis.set("evil", evil);
    let script = format!(
        "function handshake(tls)
            local evil = redis('redis://127.0.0.1:{}'):get('evil')
            log('said', evil)
            error('failed ' .. evil)
        end",
        redis.port()
    );
    let sandbox = sandbox(&script, "", &["a.example"]);
    let server = sandbox.serve();
    assert!(server.refusal("a.example").contains("InternalError"));
    let lines = server.log_lines();
    let texts = || -> Vec<String> {
        let lines = lines.lock().expect("no test panics while it holds the log");
        let fields = lines.iter().filter_map(|line| line["fields"].as_object());
        let texts = fields.flat_map(|fields| fields.values().filter_map(|value| value.as_str()));
        let texts = texts.filter(|text| text.contains("31m"));
        texts.map(str::to_owned).collect()
    };
    until("the log of both", SOON, || texts().len() >= 2);
    for text in texts() {
        assert!(
            !text
                .chars()
                .any(|c| c.is_control() || "\u{202e}\u{200b}".contains(c)),
            "{text:?}"
        );
    }
}

/// Far more than any limit lets pass.
const CHUNKS: usize = 10_000;
