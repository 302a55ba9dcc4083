//! Runs what examples/hook has, unchanged: docs/hook.md shows it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::{Key, RedisServer};

use crate::redis::put;
use crate::sandbox::{Ran, Sandbox, ca, until};

#[test]
fn files_are_served_as_in_the_papers() {
    let sandbox = Sandbox::new();
    sandbox.pair("certificates/a.example", &["a.example"], Key::P256);
    sandbox.page("a.example", "page of a");
    let folder = sandbox.path("certificates");
    hook(&sandbox, "files.luau", &format!("folders = [{folder:?}]\n"));
    sandbox.ok(&["check"]);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    assert!(server.refusal("b.example").contains("UnrecognisedName"));
    sandbox.pair("certificates/b.example", &["c.example"], Key::P256);
    sandbox.pair("certificates/half.example", &["half.example"], Key::P256);
    fs::remove_file(sandbox.path("certificates/half.example.key")).expect("it is there");
    assert!(server.refusal("half.example").contains("InternalError"));
    server.stop();
}

/// All examples with Redis have one address in them: one test runs them in turn.
#[test]
fn redis_and_openresty_are_served_as_in_the_papers() {
    let (_lock, redis) = redis();
    for name in ["a.example", "b.example"] {
        put(&redis, name);
    }
    for script in ["redis.luau", "redis-kept.luau"] {
        let sandbox = Sandbox::new();
        sandbox.page("a.example", "page of a");
        hook(&sandbox, script, "");
        sandbox.ok(&["check"]);
        let server = sandbox.serve();
        assert!(server.shows("a.example", "page of a"), "{script}");
        assert!(server.refusal("none.example").contains("UnrecognisedName"));
        redis.pause();
        assert!(server.refusal("b.example").contains("InternalError"));
        let cached = script == "redis-kept.luau";
        assert_eq!(server.fetch("a.example").is_ok(), cached, "{script}");
        redis.resume();
        until("Redis goes on", SOON, || server.fetch("b.example").is_ok());
        server.stop();
    }
    let pair = ca().issue(&["shop.example"], Key::P256);
    let (certificate, key) = (pair.chain_pem(), pair.key_pem());
    let fields = ["certificate", &certificate, "key", &key, "tenant", "acme"];
    redis.cli(&[&["hset", "host:shop.example"], &fields[..]].concat());
    let sandbox = Sandbox::new();
    sandbox.page("shop.example", "page of the shop");
    hook(&sandbox, "openresty.luau", "");
    sandbox.ok(&["check"]);
    let server = sandbox.serve();
    assert!(server.shows("shop.example", "page of the shop"));
    assert!(server.refusal("none.example").contains("UnrecognisedName"));
    server.stop();
    let _nginx = OpenResty::start(&sandbox);
    let ran = curl(&sandbox, "shop.example");
    assert_eq!(
        (&*ran.out, ran.code),
        ("openresty\n", Some(0)),
        "{}",
        ran.err
    );
    assert_ne!(curl(&sandbox, "none.example").code, Some(0));
}

/// nginx with the modules of OpenResty. Dropping it ends the process.
struct OpenResty(Child);

impl OpenResty {
    fn start(sandbox: &Sandbox) -> Self {
        let conf = fs::read_to_string(example("openresty.conf")).expect("it is there");
        sandbox.write("openresty.conf", &conf);
        sandbox.pair("fallback", &["fallback.example"], Key::P256);
        let prefix = sandbox.root().display().to_string();
        let log = File::create(sandbox.path("nginx.log")).expect("a file");
        let child = Command::new("nginx")
            .args(["-p", &prefix, "-c"])
            .arg(sandbox.path("openresty.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let mut nginx = Self(child.expect("nginx; run `make deps`"));
        until("nginx listens", SOON, || {
            let log = || fs::read_to_string(sandbox.path("nginx.log")).unwrap_or_default();
            let ended = nginx.0.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{}", log());
            TcpStream::connect(NGINX).is_ok()
        });
        nginx
    }
}

impl Drop for OpenResty {
    fn drop(&mut self) {
        // Killed, it would leave its worker behind.
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("a child has an id"), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn curl(sandbox: &Sandbox, host: &str) -> Ran {
    sandbox.write("ca.pem", &ca().root_pem());
    let url = format!("https://{host}:{}/", NGINX.port());
    let output = Command::new("curl")
        .args(["-sS", "--noproxy", "*", "--cacert"])
        .arg(sandbox.path("ca.pem"))
        .args([
            "--resolve",
            &format!("{host}:{}:{}", NGINX.port(), NGINX.ip()),
        ])
        .arg(url)
        .output();
    Ran::of(&output.expect("curl; run `make deps`"))
}

/// Starts Redis at the port of the examples. The lock keeps other runs of this test
/// away.
fn redis() -> (File, RedisServer) {
    let path = std::env::temp_dir().join("sekisho-hook-examples.lock");
    let lock = File::options().create(true).append(true).open(path);
    let lock = lock.expect("a file");
    lock.lock().expect("it can be locked");
    (lock, RedisServer::start_on(6390))
}

/// Configures the script of an example, beside a store with another host.
fn hook(sandbox: &Sandbox, script: &str, more: &str) {
    sandbox.import(&["stored.example"]);
    let script = example(script);
    sandbox.configure(&format!("[hook]\nscript = {script:?}\n{more}"));
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/hook")
        .join(name)
}

const NGINX: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6391);
const SOON: Duration = Duration::from_secs(30);
