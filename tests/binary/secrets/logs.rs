//! Tests that no log line, at any level, and no error text shows a private key.

use sekisho_testkit::{Answer, Endpoint, RedisServer, Speaks};

use super::*;
use crate::{https_store, redis};

/// Pairs as another program may store them: one good, the others spoilt.
struct Spoilt {
    pair: Pair,
    /// Name, chain and key of each pair.
    files: Vec<(String, String, String)>,
}

/// Makes the pairs: good, another pair's chain, a cut key, a key alone, two
/// keys, and swapped halves.
fn spoilt(key: Key) -> Spoilt {
    let pair = ca().issue(&["*.keys.example"], key);
    let (chain, pem) = (pair.chain_pem(), pair.key_pem());
    let other = ca().issue(&["*.keys.example"], key).chain_pem();
    let cut = pem[..pem.len() / 2].to_owned();
    let files = [
        ("good", chain.clone(), pem.clone()),
        ("other", other, pem.clone()),
        ("cut", chain.clone(), cut),
        ("bare", String::new(), pem.clone()),
        ("twice", chain.clone(), pem.clone() + &pem),
        ("swapped", pem, chain),
    ];
    let named = |(kind, chain, key_pem)| {
        (
            format!("{kind}-{key:?}.keys.example").to_lowercase(),
            chain,
            key_pem,
        )
    };
    Spoilt {
        pair,
        files: files.map(named).into(),
    }
}

fn all() -> Vec<Spoilt> {
    KEYS.map(|(_, key)| spoilt(key)).into()
}

/// Serves with all log levels, fetches each host, and searches the log for
/// keys.
fn check_log(sandbox: &Sandbox, spoilt: &[Spoilt], also: &[&str]) {
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.env("SEKISHO_LOG", "trace");
    let server = Server::start(command);
    for (host, ..) in spoilt.iter().flat_map(|one| &one.files) {
        let answered = server.fetch(host).is_ok();
        // Some stores accept two keys, or swapped halves.
        if !host.starts_with("twice") && !host.starts_with("swapped") {
            assert_eq!(answered, host.starts_with("good"), "{host}");
        }
    }
    let log = server.log();
    // The first error is logged; those right after it are suppressed.
    assert!(log.contains("-p256.keys.example"), "{log}");
    quiet(spoilt, &log);
    for secret in also {
        assert!(!log.contains(secret), "{secret}");
    }
    server.stop();
}

fn quiet(spoilt: &[Spoilt], text: &str) {
    let search = Search::of(spoilt.iter().map(|one| &one.pair));
    if let Some(at) = search.hit(text.as_bytes()) {
        let line = text[..at].matches('\n').count();
        panic!("{}", text.lines().nth(line).expect("a line"));
    }
}

#[test]
fn commands_show_no_key_that_they_refuse() {
    let sandbox = Sandbox::new();
    let spoilt = all();
    for (host, chain, key) in spoilt.iter().flat_map(|one| &one.files) {
        sandbox.write(&format!("pairs/{host}.crt"), chain);
        sandbox.write(&format!("pairs/{host}.key"), key);
        sandbox.write("one.crt", chain);
        sandbox.write("one.key", key);
        let mut import = sandbox.command(&["cert", "import", "--host", host]);
        import.args(["--chain", "one.crt", "--key", "one.key"]);
        let ran = crate::sandbox::Ran::of(&import.output().expect("it runs"));
        quiet(&spoilt, &(ran.out + &ran.err));
    }
    let ran = sandbox.run(&["cert", "import", "--dir", "pairs"]);
    assert_eq!(ran.code, Some(1), "partly refused");
    quiet(&spoilt, &(ran.out + &ran.err));
    let shown = sandbox.ok(&["cert", "list"]) + &sandbox.ok(&["host", "list"]);
    quiet(&spoilt, &shown);
}

#[test]
fn no_log_line_holds_a_key_of_redis() {
    let redis = RedisServer::start_with(
        &["--requirepass", "s3same"],
        &["-a", "s3same", "--no-auth-warning"],
    );
    let spoilt = all();
    for (host, chain, key) in spoilt.iter().flat_map(|one| &one.files) {
        redis.set(&format!("{host}.crt"), chain);
        redis.set(&format!("{host}.key"), key);
    }
    let sandbox = redis::on(&redis, "redis://:s3same@127.0.0.1:PORT");
    check_log(&sandbox, &spoilt, &["s3same"]);
}

#[test]
fn no_log_line_holds_a_key_of_an_endpoint() {
    for http2 in [true, false] {
        let certificate = https_store::certificate();
        let endpoint = Endpoint::start(match http2 {
            true => Speaks::Http2(&certificate),
            false => Speaks::Http1(&certificate),
        });
        endpoint.require(https_store::TOKEN);
        let spoilt = all();
        for (host, chain, key) in spoilt.iter().flat_map(|one| &one.files) {
            endpoint.put(&format!("/{host}"), Answer::ok(chain.clone() + key));
        }
        let sandbox = Sandbox::new();
        https_store::configure(&sandbox, &endpoint);
        check_log(&sandbox, &spoilt, &[https_store::TOKEN]);
    }
}

#[test]
fn no_log_line_holds_a_key_of_files() {
    let sandbox = Sandbox::new();
    let spoilt = all();
    for (host, chain, key) in spoilt.iter().flat_map(|one| &one.files) {
        sandbox.write(&format!("live/{host}/fullchain.pem"), chain);
        sandbox.write(&format!("live/{host}/privkey.pem"), key);
    }
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("sqlite:hosts.db", "files:live/{host}");
    let config = config.replace("[keys]\nmaster = \"file:master.key\"\n", "");
    sandbox.write("sekisho.toml", &config);
    check_log(&sandbox, &spoilt, &[]);
}

#[test]
fn no_log_line_holds_a_key_of_a_catalog() {
    let database = Postgres::shared();
    for sandbox in [Sandbox::new(), on(&database.database())] {
        let spoilt = all();
        for one in &spoilt {
            let (host, chain, key) = &one.files[0];
            sandbox.write("one.crt", chain);
            sandbox.write("one.key", key);
            let import = ["cert", "import", "--chain", "one.crt", "--key", "one.key"];
            sandbox.ok(&[&import[..], &["--host", host]].concat());
        }
        let mut command = sandbox.command(&["serve", "--log", "json"]);
        command.env("SEKISHO_LOG", "trace");
        let server = Server::start(command);
        for one in &spoilt {
            assert!(server.fetch(&one.files[0].0).is_ok());
        }
        let log = server.log();
        assert!(!log.contains("correct-horse"));
        quiet(&spoilt, &log);
        server.stop();
    }
}
