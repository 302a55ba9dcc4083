use super::*;

/// The example of the documentation, without the parts that are not built.
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
[server]
workers = 2
"#;
const LEAST: &str = "listen.https = [\"127.0.0.1:8443\"]\nstore.url = \"sqlite:a.db\"\n";

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
    assert_eq!(config.listen.admin, Some("127.0.0.1:9443".parse().unwrap()));
    assert_eq!(
        config.defaults.of(https).unwrap().as_str(),
        "www.example.com"
    );
    assert_eq!(
        config.store,
        StoreUrl::Sqlite("/etc/sekisho/hosts.db".into())
    );
    assert_eq!(
        config.keys,
        Some(KeySource::File("/etc/sekisho/master.key".into()))
    );
    assert_eq!(config.limits.workers, 2);
    assert_eq!(config.cache.memory, 64 << 20);
    assert_eq!(config.cache.fresh, Duration::from_secs(60));
    assert_eq!(config.cache.absent, Duration::from_secs(5));
}

#[test]
fn applies_the_defaults() {
    let config = parse(LEAST).unwrap();
    assert!(config.listen.http.is_empty());
    assert_eq!(config.listen.admin, None);
    assert_eq!(config.keys, None);
    assert_eq!(config.tickets, None);
    assert_eq!(config.defaults.of("127.0.0.1:8443".parse().unwrap()), None);
    let cache = Cache {
        memory: 64 << 20,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(5),
        files: 16 << 20,
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
        prefix_absent_budget: 600,
        loads: 256,
        prefix_in_flight: 64,
        loads_waiting: 4096,
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
        ("sqlite:/var/a.db", StoreUrl::Sqlite("/var/a.db".into())),
        (
            "sqlite:data/a.db",
            StoreUrl::Sqlite("/etc/sekisho/data/a.db".into()),
        ),
        (
            "files:certs/{host}",
            StoreUrl::Files {
                pattern: "/etc/sekisho/certs/{host}".into(),
            },
        ),
        (
            "files:/c/{host}.crt,k/{host}.key",
            StoreUrl::Files {
                pattern: "/c/{host}.crt,/etc/sekisho/k/{host}.key".into(),
            },
        ),
    ] {
        let text = LEAST.replace("sqlite:a.db", url);
        assert_eq!(parse(&text).unwrap().store, store);
    }
    let text = format!(
        "{LEAST}keys.master = \"file:k\"\ntickets.key_file = \"t\"\n\
         site.root = \"www\"\nlisten.admin_token = \"file:token\""
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.keys, Some(KeySource::File("/etc/sekisho/k".into())));
    assert_eq!(config.tickets, Some("/etc/sekisho/t".into()));
    assert!(format!("{:?}", config.site).contains("/etc/sekisho/www"));
    let token = TokenSource::File("/etc/sekisho/token".into());
    assert_eq!(config.listen.admin_token, Some(token));
}

#[test]
fn a_key_comes_from_a_file_the_environment_or_a_command() {
    for (text, source) in [
        ("file:/k", KeySource::File("/k".into())),
        ("env:MASTER", KeySource::Env("MASTER".into())),
        (
            "command:pass show x | head -1",
            KeySource::Command("pass show x | head -1".into()),
        ),
    ] {
        let config = parse(&format!("{LEAST}keys.master = \"{text}\"")).unwrap();
        assert_eq!(config.keys, Some(source));
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    for (text, expected) in [
        (
            "[listen]\nhtps = []\n",
            "sekisho.toml:2: [listen] htps: unknown key `htps`; did you mean `https`?",
        ),
        (
            "\n\n[lisen]\nhttps = []\n",
            "sekisho.toml:3: [lisen]: unknown key `lisen`; did you mean `listen`?",
        ),
        (
            "[cache]\nmemory = \"64MiB\"\n# note\nfreshh = \"1s\"\n",
            "sekisho.toml:4: [cache] freshh: unknown key `freshh`; did you mean `fresh`?",
        ),
        (
            "cache = { memory = \"64MiB\", sise = 1 }\n",
            "sekisho.toml:1: [cache] sise: unknown key `sise`; known here: memory, fresh, absent, files, redis",
        ),
        (
            "store.url = \"sqlite:a\"\nstore.pool = 3\n",
            "sekisho.toml:2: [store] pool: unknown key `pool`; known here: url",
        ),
        (
            "[site]\nroot = \"/a\"\nindex = \"x\"\n",
            "sekisho.toml:3: [site] index: unknown key `index`; known here: root, redirect, status, upstream",
        ),
        (
            "[server]\n\"worker s\" = 1\n",
            "sekisho.toml:2: [server] \"worker s\": unknown key `worker s`; did you mean `workers`?",
        ),
    ] {
        assert_eq!(refusal(text), format!("/etc/sekisho/{expected}"));
    }
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let redis = refusal(&format!(
        "{LEAST}[cache]\nredis = \"redis://127.0.0.1/0\"\n"
    ));
    assert!(
        redis.contains(".toml:4: [cache] redis: a Redis level is not built yet"),
        "{redis}"
    );
    let upstream = refusal(&format!(
        "{LEAST}[site]\nupstream = \"http://127.0.0.1:8000\"\n"
    ));
    assert!(
        upstream.contains(".toml:4: [site] upstream: `upstream` is not built yet"),
        "{upstream}"
    );
    for url in [
        "postgres://u@h/d",
        "redis://h",
        "rediss://h",
        "redis+sentinel://h",
        "redis+cluster://h",
        "https://h/{host}",
    ] {
        let error = refusal(&LEAST.replace("sqlite:a.db", url));
        let scheme = url.split(':').next().unwrap();
        let expected =
            format!(".toml:2: [store] url: stores of the kind {scheme}:// are not built yet");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_wrong_value_names_line_key_and_remedy() {
    for (line, expected) in [
        (
            "cache.memory = \"64\"",
            "[cache] memory: \"64\" is no size; write a whole number with B",
        ),
        (
            "cache.memory = \"1KiB\"",
            "[cache] memory: 1KiB is out of range; write 1MiB to 1TiB",
        ),
        (
            "cache.memory = 64",
            "[cache] memory: invalid type: integer `64`, expected a text in quotes",
        ),
        ("cache.files = \"1B\"", "[cache] files: 1B is out of range"),
        (
            "cache.fresh = \"1\"",
            "[cache] fresh: \"1\" is no duration; write a whole number with ms",
        ),
        (
            "cache.fresh = \"0s\"",
            "[cache] fresh: 0s is out of range; write 1s to 1d",
        ),
        (
            "cache.absent = \"2h\"",
            "[cache] absent: 2h is out of range; write 100ms to 1h",
        ),
        (
            "server.workers = 0",
            "[server] workers: 0 is out of range; write 1 to 1024",
        ),
        (
            "server.workers = -3",
            "[server] workers: -3 is out of range",
        ),
        (
            "server.workers = \"two\"",
            "[server] workers: invalid type: string \"two\", expected a whole number",
        ),
        (
            "server.workers = 1.5",
            "[server] workers: invalid type: floating point `1.5`",
        ),
        (
            "server.connections = 0",
            "[server] connections: 0 is out of range",
        ),
        (
            "server.handshake_timeout = \"1h\"",
            "[server] handshake_timeout: 1h is out of range; write 100ms to 5m",
        ),
        (
            "server.header_timeout = \"0s\"",
            "[server] header_timeout: 0s is out of range",
        ),
        (
            "server.idle_timeout = \"1ms\"",
            "[server] idle_timeout: 1ms is out of range",
        ),
        (
            "server.body_timeout = \"1d\"",
            "[server] body_timeout: 1d is out of range",
        ),
        (
            "server.drain_timeout = \"2h\"",
            "[server] drain_timeout: 2h is out of range; write 0s to 1h",
        ),
        (
            "server.absent_per_prefix = 0",
            "[server] absent_per_prefix: 0 is out of range",
        ),
        ("server.loads = 0", "[server] loads: 0 is out of range"),
        (
            "server.loads_per_prefix = 257",
            "[server] loads_per_prefix: 257 is out of range; write 1 to 256",
        ),
        (
            "server.loads_waiting = -1",
            "[server] loads_waiting: -1 is out of range",
        ),
        (
            "listen.http = [\"127.0.0.1:1\", \"localhost:80\"]",
            "[listen] http[1]: \"localhost:80\" is no address with a port",
        ),
        (
            "listen.http = [\"127.0.0.1\"]",
            "[listen] http[0]: \"127.0.0.1\" is no address with a port",
        ),
        (
            "listen.http = \"127.0.0.1:80\"",
            "[listen] http: invalid type: string \"127.0.0.1:80\", expected a list in [ ]",
        ),
        (
            "listen.http = [\"127.0.0.1:8443\"]",
            "[listen] http: 127.0.0.1:8443 already stands in https",
        ),
        (
            "listen.admin = \"9443\"",
            "[listen] admin: \"9443\" is no address with a port",
        ),
        (
            "listen.admin = \"0.0.0.0:9443\"",
            "[listen] admin: 0.0.0.0:9443 can be reached from elsewhere; use 127.0.0.1, or write admin_token",
        ),
        (
            "listen.admin = \"[::ffff:192.0.2.1]:1\"",
            "can be reached from elsewhere",
        ),
        (
            "listen.admin_token = \"secret\"",
            "[listen] admin_token: this is no source of a token; write \"file:PATH\" or \"env:NAME\"",
        ),
        (
            "keys.master = \"c2VjcmV0\"",
            "[keys] master: this is no source of a key; write \"file:PATH\"",
        ),
        (
            "keys.master = \"env:\"",
            "[keys] master: \"\" is no name of an environment variable",
        ),
        (
            "keys.master = \"file:\"",
            "[keys] master: the path must not be empty",
        ),
        (
            "keys.master = \"command: \"",
            "[keys] master: this is no source",
        ),
        (
            "tickets.key_file = \"\"",
            "[tickets] key_file: the path must not be empty",
        ),
        (
            "default.\"*\" = \"*.example.com\"",
            "[default] \"*\": \"*.example.com\" is no host name: '*' must not stand",
        ),
        (
            "default.\"*\" = \"127.0.0.1\"",
            "[default] \"*\": \"127.0.0.1\" is no host name: an IP address",
        ),
        (
            "default.\"127.0.0.1:1\" = \"a.example\"",
            "[default] \"127.0.0.1:1\": 127.0.0.1:1 does not stand in [listen] https",
        ),
        (
            "default.x = \"a.example\"",
            "[default] x: \"x\" is no address with a port",
        ),
        (
            "site.status = 200",
            "[site] status: 200 is not a status from 400 to 599",
        ),
        ("site.root = \"\"", "[site] root: a path must not be empty"),
        (
            "site.root = \"/{x}\"",
            "[site] root: \"/{x}\" has braces other than {host}",
        ),
        (
            "site.redirect = \"x\"",
            "[site] redirect: \"x\" is no absolute http or https URL",
        ),
        ("site = {}", "[site]: a site has exactly one of"),
        (
            "site = { root = \"/a\", status = 404 }",
            "[site]: a site has exactly one of",
        ),
        ("site = 3", "[site]: invalid type: integer `3`"),
        ("x", "key with no value"),
        ("[listen", "unclosed table"),
        ("store.url = \"sqlite:b.db\"", "duplicate key"),
    ] {
        let error = refusal(&format!("{LEAST}{line}\n"));
        let place = "/etc/sekisho/sekisho.toml:3: ";
        assert!(
            error.starts_with(place) && error.contains(expected),
            "{line}: {error}"
        );
    }
}

#[test]
fn a_wrong_secret_is_not_repeated() {
    for line in [
        "keys.master = \"c2VjcmV0\"",
        "listen.admin_token = \"c2VjcmV0\"",
    ] {
        assert!(
            !refusal(&format!("{LEAST}{line}")).contains("c2VjcmV0"),
            "{line}"
        );
    }
}

#[test]
fn what_must_be_there_is_asked_for() {
    let file = "/etc/sekisho/sekisho.toml";
    assert_eq!(
        refusal(""),
        format!(
            "{file}: [listen] https: is missing; write https = [\"0.0.0.0:443\", \"[::]:443\"]"
        )
    );
    let empty = refusal("\n[listen]\nhttps = []\n");
    assert!(
        empty.starts_with(&format!("{file}:3: [listen] https: is missing")),
        "{empty}"
    );
    let nearest = refusal("[listen]\nhttps = [\"127.0.0.1:1\"]\n[store]\n");
    assert!(
        nearest.starts_with(&format!("{file}:3: [store] url: is missing")),
        "{nearest}"
    );
    for (url, expected) in [
        (
            "",
            "is no store; write \"sqlite:PATH\" or \"files:PATTERN\"",
        ),
        ("hosts.db", "is no store"),
        ("sqlite:", "the path must not be empty"),
        ("mysql://h/d", "\"mysql\" is no kind of store"),
        ("files:/certs", "no place for the name; write {host}"),
        (
            "files:/{host}.crt,/key",
            "\"/key\" has no place for the name",
        ),
        ("files:/{host},/{host},/{host}", "one pattern, or two"),
    ] {
        let error = refusal(&LEAST.replace("sqlite:a.db", url));
        assert!(
            error.contains(&format!("{file}:2: [store] url: ")),
            "{error}"
        );
        assert!(error.contains(expected), "{url}: {error}");
    }
}

#[test]
fn an_open_admin_listener_needs_a_token() {
    let text =
        format!("{LEAST}listen.admin = \"0.0.0.0:9443\"\nlisten.admin_token = \"env:TOKEN\"");
    let listen = parse(&text).unwrap().listen;
    assert_eq!(listen.admin_token, Some(TokenSource::Env("TOKEN".into())));
    for address in ["127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        let text = format!("{LEAST}listen.admin = \"{address}\"");
        assert!(parse(&text).unwrap().listen.admin.is_some());
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
    fs::write(&second, LEAST).unwrap();
    assert_eq!(search().unwrap().file, second);
    fs::write(&first, LEAST).unwrap();
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
