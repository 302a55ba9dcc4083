//! Tests placeholders in values of fields, towards upstreams and clients.

use http::Method;

use crate::common::LIMITS;
use crate::common::upstream::{OK, Upstream, field};
use crate::world::{BOTH, FOREIGN, HOST, World};

#[tokio::test]
async fn values_are_filled_both_ways() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{
            "upstream": "{}",
            "request": {{
                "set": {{
                    "X-Who": "{{client}} at {{host}}", "X-Tenant-Name": "{{tenant}}",
                    "X-Plan": "{{label.plan}}", "X-Json": "{{{{\"a\": 1}}}}", "X-Log": "{{id}}"
                }},
                "add": {{"X-Tag": "of {{tenant}}"}}
            }},
            "response": {{
                "set": {{"X-Served-For": "{{host}}", "X-Gone": "{{label.x}}"}},
                "add": {{"X-Client": "{{client}}"}}
            }}
        }}"#,
        upstream.url()
    );
    let mut heads = upstream.answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Gone: app\r\nX-Served-For: app\r\n\r\nok",
    );
    let world = World::with(LIMITS, &[(HOST, &site), (FOREIGN, &site)], &[]);
    for version in BOTH {
        for (host, tenant) in [(HOST, Some("acme")), (FOREIGN, None)] {
            let mut client = world.connect(version, host).await;
            // What a client sends in the place of a value that is not filled.
            let claimed = ["x-tenant-name", "x-plan", "x-log"].map(|name| (name, "claimed"));
            let answer = client.send(Method::GET, "/", &claimed).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.field("x-served-for").unwrap(), host);
            assert_eq!(answer.field("x-gone"), None);
            assert_eq!(answer.field("x-client").unwrap(), "127.0.0.1");
            let head = heads.recv().await.unwrap();
            let who = format!("127.0.0.1 at {host}");
            let tag = tenant.map(|tenant| format!("of {tenant}"));
            for (name, expected) in [
                ("x-who", Some(&*who)),
                ("x-tenant-name", tenant),
                ("x-plan", None),
                ("x-log", None),
                ("x-json", Some(r#"{"a": 1}"#)),
                ("x-tag", tag.as_deref()),
            ] {
                assert_eq!(field(&head, name).as_deref(), expected, "{host} {name}");
            }
        }
    }
}

/// No text of a client gets into the value of another field.
#[tokio::test]
async fn a_host_that_is_asked_for_oddly_is_its_plain_name() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": "{}", "request": {{"set": {{"X-Host": "{{host}}"}}}}}}"#,
        upstream.url()
    );
    let mut heads = upstream.answering(OK);
    let world = World::new(&site, &[]);
    let mut client = world.connect(BOTH[0], HOST).await;
    for host in ["A.EXAMPLE", "a.example:8443"] {
        client.ask_for(host);
        assert_eq!(client.get("/").await.status, 200, "{host}");
        let head = heads.recv().await.unwrap();
        assert_eq!(field(&head, "x-host").as_deref(), Some(HOST), "{host}");
    }
}
