use sekisho_certs::HostName;
use sekisho_server::CertificateWaits;
use sekisho_server::admin::Address;

use super::*;

mod acme;
mod admin;
mod documentation;
mod edges;
mod effective;
mod hook;
mod own_addresses;
mod refusals;

/// Returns the documentation's example without the parts that are not built.
const EXAMPLE: &str = r#"
[listen]
https = ["127.0.0.1:8443"]
http  = ["127.0.0.1:8080"]
admin = "127.0.0.1:9443"
[default]
"*" = "www.example.com"
[store]
url = "sqlite:hosts.db"
[keys]
master = "file:master.key"
[cache]
memory = "64MiB"
fresh  = "60s"
absent = "5s"
[site]
root = "/srv/www/{host}"
[sites]
allow = ["/srv/www"]
[server]
workers = 2
"#;
const MINIMAL: &str = "listen.https = [\"127.0.0.1:8443\"]\nstore.url = \"sqlite:a.db\"\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/sekisho/sekisho.toml"))
}

fn refusal(text: &str) -> String {
    match parse(text) {
        Ok(config) => panic!("{text} gave {config:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn reads_the_example() {
    let config = parse(EXAMPLE).unwrap();
    let https: SocketAddr = "127.0.0.1:8443".parse().unwrap();
    assert_eq!(config.listen.https, [https]);
    assert_eq!(config.listen.http, ["127.0.0.1:8080".parse().unwrap()]);
    let admin = Address::Tcp("127.0.0.1:9443".parse().unwrap());
    assert_eq!(config.listen.admin, Some(admin));
    assert_eq!(
        config.defaults.of(https).unwrap().as_str(),
        "www.example.com"
    );
    let database = config.store.url.database();
    assert_eq!(database, Some(Path::new("/etc/sekisho/hosts.db")));
    assert_eq!(
        config.keys,
        Some(KeySource::File("/etc/sekisho/master.key".into()))
    );
    assert_eq!(config.allowed.texts(), ["/srv/www"]);
    assert_eq!(config.limits.workers, 2);
    assert_eq!(config.cache.memory, 64 << 20);
    assert_eq!(config.cache.fresh, Duration::from_secs(60));
    assert_eq!(config.cache.absent, Duration::from_secs(5));
}

#[test]
fn applies_the_defaults() {
    let config = parse(MINIMAL).unwrap();
    assert!(config.listen.http.is_empty() && !config.listen.plain);
    assert_eq!(config.listen.admin, None);
    let beside = KeySource::File("/etc/sekisho/master.key".into());
    assert_eq!(config.keys, Some(beside));
    assert_eq!(config.tickets, None);
    assert!(config.listen.trusted.is_empty() && config.listen.proxy.is_empty());
    assert_eq!(config.access_log, None);
    assert_eq!(config.allowed.texts(), Allowed::default().texts());
    assert_eq!(config.defaults.of("127.0.0.1:8443".parse().unwrap()), None);
    let cache = Cache {
        memory: 64 << 20,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(5),
        files: 16 << 20,
        disk: None,
    };
    assert_eq!(config.cache, cache);
    let cores = std::thread::available_parallelism().unwrap().get();
    let limits = Limits {
        workers: cores,
        connections: 65_536,
        handshake: Duration::from_secs(10),
        head: Duration::from_secs(15),
        idle: Duration::from_secs(60),
        body: Duration::from_secs(30),
        drain: Duration::from_secs(30),
        host_look: Duration::from_mins(1),
        absent_per_prefix: 600,
        loads: 256,
        loads_per_prefix: 64,
        loads_waiting: 4096,
        certificates: CertificateWaits {
            waiting: 1000,
            time: Duration::from_secs(20),
        },
    };
    assert_eq!(config.limits, limits);
}

#[test]
fn the_address_chooses_its_default() {
    let text = "[listen]\nhttps = [\"127.0.0.1:1\", \"[::1]:2\", \"0.0.0.0:3\"]\n\
        [store]\nurl = \"sqlite:a\"\n[default]\n\"127.0.0.1:1\" = \"A.example\"\n\
        \"[::1]:2\" = \"bücher.example\"\n";
    let config = parse(text).unwrap();
    let of = |address: &str| {
        let host = config.defaults.of(address.parse().unwrap());
        host.map(HostName::as_str)
    };
    assert_eq!(of("127.0.0.1:1"), Some("a.example"));
    assert_eq!(of("[::1]:2"), Some("xn--bcher-kva.example"));
    assert_eq!(of("0.0.0.0:3"), None);
    let config = parse(&format!("{text}\"*\" = \"c.example\"\n")).unwrap();
    let of = |address: &str| {
        config
            .defaults
            .of(address.parse().unwrap())
            .unwrap()
            .as_str()
    };
    assert_eq!(of("127.0.0.1:1"), "a.example");
    assert_eq!(of("0.0.0.0:3"), "c.example");
}

#[test]
fn paths_are_relative_to_the_file() {
    for (url, store) in [
        ("sqlite:/var/a.db", "sqlite:/var/a.db"),
        ("sqlite:data/a.db", "sqlite:/etc/sekisho/data/a.db"),
        ("files:certs/{host}", "files:/etc/sekisho/certs/{host}"),
        (
            "files:/c/{host}.crt,k/{host}.key",
            "files:/c/{host}.crt,/etc/sekisho/k/{host}.key",
        ),
    ] {
        let text = MINIMAL.replace("sqlite:a.db", url);
        assert_eq!(parse(&text).unwrap().store.url.to_string(), store);
    }
    let text = format!(
        "{MINIMAL}keys.master = \"file:k\"\ntickets.key = \"file:t\"\n\
         site.root = \"www\"\nsites.allow = [\"www\"]\nlisten.admin_token = \"file:token\""
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.keys, Some(KeySource::File("/etc/sekisho/k".into())));
    assert_eq!(config.tickets, Some("/etc/sekisho/t".into()));
    assert!(format!("{:?}", config.site).contains("/etc/sekisho/www"));
    let is_allowed = |root: &str| config.allowed.folder(Path::new(root), None);
    assert!(is_allowed("/etc/sekisho/www") && !is_allowed("/etc/sekisho"));
    let token = SecretSource::File("/etc/sekisho/token".into());
    assert_eq!(config.listen.admin_token, Some(token));
}

#[test]
fn an_endpoint_has_a_token_and_a_ca() {
    let text = MINIMAL.replace("sqlite:a.db", "https://certs.example/v1/{host}");
    let store = parse(&text).unwrap().store;
    assert_eq!(store.url.to_string(), "https://certs.example/v1/{host}");
    assert_eq!((store.token, store.ca), (None, None));
    let text = format!("{text}store.token = \"file:token\"\nstore.ca = \"ca.pem\"\n");
    let store = parse(&text).unwrap().store;
    let token = SecretSource::File("/etc/sekisho/token".into());
    assert_eq!(store.token, Some(token));
    assert_eq!(store.ca, Some("/etc/sekisho/ca.pem".into()));
    let loopback = MINIMAL.replace("sqlite:a.db", "http://127.0.0.1:8000/{host}");
    parse(&format!("{loopback}store.token = \"env:TOKEN\"\n")).unwrap();
}

#[test]
fn a_redis_store_is_taken_apart_and_shown_without_its_password() {
    for (url, shown) in [
        ("redis://:s3same@h", "redis://:***@h:6379/0"),
        ("rediss://u:s3same@h/1?ca=ca.pem", "rediss://u:***@h:6379/1"),
        (
            "redis+sentinel://a,b/main",
            "redis+sentinel://a:26379,b:26379/main/0",
        ),
        ("redis+cluster://a,b:1", "redis+cluster://a:6379,b:1"),
    ] {
        let config = parse(&MINIMAL.replace("sqlite:a.db", url)).unwrap();
        assert_eq!(config.store.url.to_string(), shown);
        assert!(!format!("{config:?}").contains("s3same"));
    }
    let text = MINIMAL.replace("sqlite:a.db", "rediss://h?ca=ca.pem");
    assert!(format!("{:?}", parse(&text).unwrap()).contains("/etc/sekisho/ca.pem"));
}

#[test]
fn a_redis_cache_is_taken_before_both_catalogs() {
    for store in ["sqlite:a.db", "postgres://u@h/d"] {
        for (url, shown) in [
            ("redis://:s3same@h/3", "redis://:***@h:6379/3"),
            ("rediss://h?ca=ca.pem", "rediss://h:6379/0"),
            ("redis+sentinel://a/main", "redis+sentinel://a:26379/main/0"),
        ] {
            let text = MINIMAL.replace("sqlite:a.db", store);
            let config = parse(&format!("{text}[cache]\nredis = \"{url}\"\n")).unwrap();
            assert_eq!(config.redis_cache.as_ref().unwrap().to_string(), shown);
            assert!(!format!("{config:?}").contains("s3same"));
        }
    }
    assert!(parse(MINIMAL).unwrap().redis_cache.is_none());
}

#[test]
fn copies_on_disk_are_kept_for_stores_elsewhere() {
    let remote = |url: &str, more: &str| {
        let config = parse(&format!("{}{more}", MINIMAL.replace("sqlite:a.db", url)));
        config.unwrap().cache.disk
    };
    let disk = |path: &str, size| {
        let path = path.into();
        Some(Disk { path, size })
    };
    for url in ["postgres://h/d", "redis://h", "https://h/{host}"] {
        let default = disk("/etc/sekisho/disk-cache.db", 256 << 20);
        assert_eq!(remote(url, ""), default, "{url}");
    }
    let more = "[cache]\ndisk = \"/var/cache/sekisho/a\"\ndisk_size = \"4MiB\"\n";
    let wanted = disk("/var/cache/sekisho/a", 4 << 20);
    assert_eq!(remote("redis://h", more), wanted);
    assert_eq!(remote("redis://h", "[cache]\ndisk = \"off\"\n"), None);
    assert_eq!(remote("files:/a/{host}", ""), None);
    let off = parse(&format!("{MINIMAL}[cache]\ndisk = \"off\"\n"));
    assert_eq!(off.unwrap().cache.disk, None);
}

#[test]
fn a_key_comes_from_a_file_the_environment_or_a_command() {
    for (text, source) in [
        ("file:/k", KeySource::File("/k".into())),
        ("env:MASTER", KeySource::Env("MASTER".into())),
        (
            "command:pass show x | head -1",
            KeySource::Command {
                line: "pass show x | head -1".into(),
                hidden: Vec::new(),
            },
        ),
    ] {
        let config = parse(&format!("{MINIMAL}keys.master = \"{text}\"")).unwrap();
        assert_eq!(config.keys, Some(source));
    }
}

#[test]
fn the_first_file_that_exists_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.toml"), folder.path().join("b.toml"));
    let search = || Config::search(&[&first, &second]);
    let error = search().unwrap_err().to_string();
    assert!(
        error.contains("a.toml nor ") && error.contains("--config FILE"),
        "{error}"
    );
    fs::write(&second, MINIMAL).unwrap();
    assert_eq!(search().unwrap().file, second);
    fs::write(&first, MINIMAL).unwrap();
    assert_eq!(search().unwrap().file, first);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let load = |content: &[u8]| {
        fs::write(&file, content).unwrap();
        Config::load(Some(&file)).unwrap_err().to_string()
    };
    assert!(load(b"\xff\xfe").contains("a.toml: can't be read: "));
    assert!(load(&vec![b'#'; 2 << 20]).contains("2097152 bytes are too many"));
    let missing = folder.path().join("missing.toml");
    let error = Config::load(Some(&missing)).unwrap_err().to_string();
    assert!(
        error.contains("missing.toml: can't be read: No such file"),
        "{error}"
    );
    let error = Config::load(Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("can't be read: Is a directory"), "{error}");
}
