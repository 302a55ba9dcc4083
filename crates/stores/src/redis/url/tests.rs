use super::*;

fn parsed(url: &str) -> RedisUrl {
    RedisUrl::parse(url, Path::new("/etc")).unwrap_or_else(|why| panic!("{url}: {why}"))
}

fn nodes(url: &RedisUrl) -> Vec<String> {
    url.nodes.iter().map(Node::to_string).collect()
}

#[test]
fn parts_come_back_and_defaults_are_applied() {
    let url = parsed("redis://127.0.0.1");
    assert_eq!(nodes(&url), ["127.0.0.1:6379"]);
    assert_eq!((url.login.db(), url.tls.is_some()), (0, false));
    assert!(url.login.password().is_none() && url.keys == Keys::default());
    assert_eq!(url.to_string(), "redis://127.0.0.1:6379/0");

    let url = parsed("rediss://ada:p%40ss%2Fw%3Ard@[::1]:7000/3?ca=redis-ca.pem");
    assert_eq!(nodes(&url), ["[::1]:7000"]);
    assert_eq!(url.login.username(), Some("ada"));
    assert_eq!(url.login.password(), Some("p@ss/w:rd"));
    assert_eq!(url.login.db(), 3);
    let roots = url.tls.as_ref().unwrap().roots.as_deref();
    assert_eq!(roots, Some(Path::new("/etc/redis-ca.pem")));
    assert_eq!(url.to_string(), "rediss://ada:***@[::1]:7000/3");

    let url = parsed("redis+sentinel://:pw@a,b:1,c/my%20master/2?sentinel_password=other&tls=1");
    assert_eq!(nodes(&url), ["a:26379", "b:1", "c:26379"]);
    let Kind::Sentinel { master, login } = &url.kind else {
        panic!("{url:?}")
    };
    assert_eq!(
        (master.as_str(), login.password()),
        ("my master", Some("other"))
    );
    assert_eq!((url.login.db(), url.tls.is_some()), (2, true));

    let url = parsed("redis+cluster://a,b:7001?client_cert=/c&client_key=k&tls=1");
    assert!(matches!(url.kind, Kind::Cluster));
    let client = url.tls.as_ref().unwrap().client.clone().unwrap();
    assert_eq!(client, ("/c".into(), "/etc/k".into()));
    assert_eq!(url.to_string(), "redis+cluster://a:6379,b:7001");
}

#[test]
fn templates_replace_the_papers_keys() {
    for url in [
        "redis://h/0?chain=tls:{host}:chain&key=tls:{host}:key",
        "redis://h?key=tls:%7Bhost%7D:key&chain=tls:%7bhost%7d:chain",
    ] {
        let wanted = Keys::new("tls:{host}:chain", "tls:{host}:key").unwrap();
        assert_eq!(parsed(url).keys, wanted);
    }
}

#[test]
fn errors_name_what_is_wrong() {
    for (url, wanted) in [
        ("redis:h", "begins with redis://"),
        ("redis://", "HOST:PORT"),
        ("redis://h:0", "HOST:PORT"),
        ("redis://h:70000", "HOST:PORT"),
        ("redis://[::1", "HOST:PORT"),
        ("redis://h h", "HOST:PORT"),
        ("redis://user@h", "user:password@"),
        ("redis://user:@h", "password is empty"),
        ("redis://%ff:x@h", "no UTF-8"),
        ("redis://h/x", "a number"),
        ("redis://h/-1", "a number"),
        ("redis://a,b", "redis+cluster://"),
        ("redis+cluster://h/1", "no databases"),
        ("redis+sentinel://h", "master's name"),
        ("redis+sentinel://h/m/x", "a number"),
        ("redis+sentinel://h/m?sentinel_user=u", "password is empty"),
        ("redis://h?sentinel_password=x", "for redis+sentinel://"),
        ("redis://:100%@h", "two digits"),
        ("redis://h?database=1", "known are chain, key"),
        ("redis://h?ca=a&ca=b", "twice"),
        ("redis://h?ca=a", "rediss://"),
        ("rediss://h?ca=", "must not be empty"),
        (
            "redis://h?tls=1",
            "for redis+sentinel:// and redis+cluster://",
        ),
        ("redis+cluster://h?tls=yes", "1 or 0"),
        ("rediss://h?client_key=k", "belong together"),
        ("redis://h?chain={host}.crt", "both"),
        ("redis://h?chain={host}&key={name}", "{host}"),
        ("redis://h?chain={host}&key={host}", "different"),
    ] {
        let why = RedisUrl::parse(url, Path::new("/")).unwrap_err();
        assert!(why.contains(wanted), "{url}: {why}");
    }
}

#[test]
fn no_text_shows_a_password() {
    for url in [
        "redis://u:sesame@h",
        "redis+sentinel://:sesame@h/m?sentinel_password=sesame",
        "redis+cluster://:sesame@h?tls=1",
    ] {
        let url = parsed(url);
        let shown = format!("{url} {url:?} {:?}", url.nodes);
        assert!(
            !shown.contains("sesame") && shown.contains("***"),
            "{shown}"
        );
    }
    // Characters that must be encoded and are not.
    for url in [
        "redis://u:/sesame@h",
        "redis://u:?sesame@h",
        "redis://u:?sesame&x@h",
        "redis://u:1?sesame=1@h",
        "redis://u:sesame:h",
        "redis://sesame@h",
        "redis://:sesame",
        "redis://:x%ffsesame@h",
    ] {
        let why = RedisUrl::parse(url, Path::new("/")).unwrap_err();
        assert!(!why.contains("sesame"), "{url}: {why}");
    }
}
