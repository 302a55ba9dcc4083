//! Fields that an upstream and a client get.

use crate::world::{HOST, OK, Upstream, World, field, naming_fields, status};

#[tokio::test]
async fn an_upstream_gets_the_request_with_our_fields() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send(
            "GET /a%20b/./c?d=%2F HTTP/1.1\r\nHost: A.example:8443\r\n\
             X-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: evil.example\r\n\
             Forwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n\
             X_Forwarded_For: 192.0.2.1\r\nKeep-Alive: timeout=5\r\n\
             Proxy: http://192.0.2.1\r\n\
             Proxy-Connection: x\r\nTE: gzip, trailers\r\nX-Own: kept\r\n\
             Cookie: a=1\r\nCookie: b=2\r\n\r\n",
        )
        .await;
    let mut server = upstream.accept().await;
    let head = server.head().await;
    assert!(
        head.starts_with("GET /a%20b/c?d=%2F HTTP/1.1\r\n"),
        "{head}"
    );
    for (name, value) in [
        ("host", Some("A.example:8443")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("https")),
        ("x-forwarded-host", Some("A.example:8443")),
        ("forwarded", None),
        ("x-real-ip", None),
        ("x_forwarded_for", None),
        ("keep-alive", None),
        ("proxy-connection", None),
        ("te", Some("trailers")),
        ("connection", Some("te")),
        ("x-own", Some("kept")),
        ("cookie", Some("a=1; b=2")),
        ("cdn-loop", Some("sekisho-07070707070707070707070707070707")),
        ("content-length", None),
        ("transfer-encoding", None),
        ("proxy", None),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
    server.send(OK).await;
    let (head, body) = client.answer().await;
    assert_eq!((status(&head), &*body), (200, "ok"));
}

#[tokio::test]
async fn fields_that_connection_names_are_removed_but_for_ours() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send(
            "GET / HTTP/1.1\r\nHost: a.example\r\nX-Own: 1\r\nCDN-Loop: other\r\n\
             Connection: keep-alive, x-own, Host, X-Forwarded-For, X-Forwarded-Host\r\n\
             Connection: CDN-Loop, x-forwarded-proto\r\n\r\n",
        )
        .await;
    let mut server = upstream.accept().await;
    let head = server.head().await;
    for (name, value) in [
        ("x-own", None),
        ("connection", None),
        ("host", Some("a.example")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-host", Some("a.example")),
        ("x-forwarded-proto", Some("https")),
        (
            "cdn-loop",
            Some("other|sekisho-07070707070707070707070707070707"),
        ),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
}

#[tokio::test]
async fn a_client_gets_the_answer_without_fields_of_its_connection() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    server
        .send(
            "HTTP/1.1 404 Nothing here\r\nContent-Length: 2\r\nX-Own: 1\r\nX-Hop: 1\r\n\
             Connection: x-hop, keep-alive\r\nKeep-Alive: timeout=5\r\n\
             Proxy-Connection: x\r\nUpgrade: h2c\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nno",
        )
        .await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 404 Nothing here\r\n"), "{head}");
    assert_eq!(body, "no");
    for (name, value) in [
        ("x-own", Some("1")),
        ("x-hop", None),
        ("connection", None),
        ("keep-alive", None),
        ("proxy-connection", None),
        ("upgrade", None),
        ("set-cookie", Some("a|b")),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
}

#[tokio::test]
async fn answers_without_a_body_keep_their_length() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    let mut server = None;
    for (method, answer, length) in [
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n",
            Some("42"),
        ),
        ("GET", "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", None),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Some("0"),
        ),
    ] {
        client
            .send(format!("{method} / HTTP/1.1\r\nHost: a.example\r\n\r\n"))
            .await;
        let server = match &mut server {
            Some(server) => server,
            None => server.insert(upstream.accept().await),
        };
        let request = server.head().await;
        assert!(request.starts_with(method));
        server.send(answer).await;
        let head = client.head().await;
        assert_eq!(head.lines().next(), answer.lines().next());
        assert_eq!(
            field(&head, "content-length").as_deref(),
            length,
            "{method} {answer}"
        );
    }
}

#[tokio::test]
async fn a_site_chooses_host_and_fields() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "host": "inner.example", "forwarded": true,
             "underscores": true}}}}"#,
        upstream.address()
    );
    let world = World::of_setup(naming_fields(), &[(HOST, &site)]);
    let mut client = world.connect().await;
    client
        .send(
            "GET / HTTP/1.1\r\nHost: a.example\r\nX-Tenant: evil\r\nx_tenant: evil\r\n\
             Client-Cert: :AAAA:\r\nX_Forwarded_For: evil\r\nX_Own: 1\r\nContent_Length: 5\r\n\r\n",
        )
        .await;
    let head = upstream.accept().await.head().await;
    for (name, value) in [
        ("host", Some("inner.example")),
        ("x-forwarded-host", Some("a.example")),
        (
            "forwarded",
            Some("for=127.0.0.1;host=\"a.example\";proto=https"),
        ),
        ("x_own", Some("1")),
        ("x_forwarded_for", None),
        ("x_tenant", None),
        ("content_length", None),
        ("x-tenant", Some("acme")),
        ("client-cert", None),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
}

/// An application believes the tenant and the certificate that it is told, whichever site
/// led to it.
#[tokio::test]
async fn no_tenant_or_its_client_claims_another_tenant_or_a_certificate() {
    let upstream = Upstream::bind().await;
    let plain = upstream.site();
    let at = upstream.address();
    let forging = |request: &str| format!(r#"{{"upstream": "http://{at}", "request": {request}}}"#);
    let (set, removed) = (
        forging(r#"{"set": {"X-Tenant": "b"}}"#),
        forging(r#"{"remove": ["Client-Cert"]}"#),
    );
    let own = format!(
        r#"{{"paths": [{{"path": "/", "upstream": {{"servers": ["http://{at}"],
             "tenant_field": "X-Other"}}}}]}}"#
    );
    let sites = [
        (HOST, "a", &*plain),
        ("b.example", "b", &*plain),
        ("set.example", "a", &*set),
        ("removed.example", "a", &*removed),
        ("own.example", "a", &*own),
    ];
    let world = World::of_tenants_with(naming_fields(), &sites);
    let mut heads = upstream.answering(OK);
    let forged = "X-Tenant: b\r\nx.tenant: b\r\nClient-Cert: :MIIB:\r\nClient_Cert: :MIIB:\r\n";
    for (host, tenant) in [(HOST, "a"), ("b.example", "b")] {
        let mut client = world.connect_to(host).await;
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{forged}\r\n"))
            .await;
        assert_eq!(status(&client.answer().await.0), 200, "{host}");
        let head = heads.recv().await.unwrap().to_ascii_lowercase();
        let told: Vec<_> = head
            .lines()
            .filter(|line| line.contains("tenant"))
            .collect();
        assert_eq!(told, [format!("x-tenant: {tenant}")], "{head}");
        assert!(!head.contains("miib"), "{head}");
    }
    for host in ["set.example", "removed.example", "own.example"] {
        assert_eq!(world.get(host).await.0, 503, "{host}");
    }
    assert_eq!(world.running.responder.refused().fields.get(), 3);
}

#[tokio::test]
async fn an_untrusted_peer_claims_no_address_port_or_path() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "underscores": true}},
             "request": {{"set": {{"X-Forwarded-Port": "443"}}}}}}"#,
        upstream.address()
    );
    let world = World::new(&site);
    let mut client = world.connect().await;
    client
        .send(
            "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Port: 1337\r\n\
             X-Forwarded-Prefix: /evil\r\nX-Forwarded-Anything: evil\r\nX-Forwarded: evil\r\n\
             True-Client-IP: 127.0.0.9\r\nclient_ip: 127.0.0.9\r\nX-Original-URL: /evil\r\n\
             x.forwarded.for: 127.0.0.9\r\nX!Own: evil\r\nX-Own: 1\r\n\r\n",
        )
        .await;
    let head = upstream.accept().await.head().await;
    assert!(
        !head.contains("evil") && !head.contains("127.0.0.9"),
        "{head}"
    );
    assert_eq!(field(&head, "x-own").as_deref(), Some("1"));
    assert_eq!(field(&head, "x-forwarded-port").as_deref(), Some("443"));
}

#[tokio::test]
async fn a_method_that_shows_the_request_or_has_lower_case_is_not_passed_on() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    for (method, expected) in [("TRACE", 405), ("TRACK", 405), ("get", 501), ("Get", 501)] {
        client
            .send(format!("{method} / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
            .await;
        let head = client.answer().await.0;
        assert_eq!(status(&head), expected, "{method}");
        assert_eq!(field(&head, "allow").is_some(), expected == 405, "{head}");
    }
    assert!(upstream.is_alone());
}

/// WSGI, CGI and PHP read `_` and `-` as one.
#[tokio::test]
async fn a_client_replaces_no_field_of_a_rule_by_underscores() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "underscores": true}},
             "request": {{"remove": ["X-Admin"], "set": {{"X-Auth-User": "guest"}},
                          "add": {{"X-Via": "us"}}}}}}"#,
        upstream.address()
    );
    let world = World::new(&site);
    let mut client = world.connect().await;
    client
        .send(
            "GET / HTTP/1.1\r\nHost: a.example\r\nX_Auth_User: admin\r\nX-Auth_User: admin\r\n\
             X_Admin: 1\r\nX_Via: me\r\n\r\n",
        )
        .await;
    let head = upstream.accept().await.head().await;
    for (name, value) in [
        ("x-auth-user", Some("guest")),
        ("x_auth_user", None),
        ("x-auth_user", None),
        ("x_admin", None),
        ("x_via", Some("me")),
        ("x-via", Some("us")),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
}

#[tokio::test]
async fn a_request_that_was_here_before_is_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let ours = "sekisho-07070707070707070707070707070707";
    for value in [
        ours.to_owned(),
        format!("other, {}; a=b", ours.to_uppercase()),
    ] {
        let answer = world
            .exchange(&format!(
                "GET / HTTP/1.1\r\nHost: {HOST}\r\nCDN-Loop: {value}\r\nConnection: close\r\n\r\n"
            ))
            .await;
        assert_eq!(status(&answer), 508, "{answer}");
    }
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn a_prefix_is_stripped_and_another_added() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"paths": [{{"path": "/api", "upstream": "http://{}", "strip": true, "add": "/v1"}}]}}"#,
        upstream.address()
    );
    let world = World::new(&site);
    let mut heads = upstream.answering(OK);
    for (path, wanted) in [
        ("/api/a?b", "/v1/a?b"),
        ("/api", "/v1"),
        ("/api//%41/../b", "/v1/b"),
    ] {
        world
            .exchange(&format!(
                "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"
            ))
            .await;
        let head = heads.recv().await.unwrap();
        assert!(
            head.starts_with(&format!("GET {wanted} HTTP/1.1\r\n")),
            "{head}"
        );
    }
}
