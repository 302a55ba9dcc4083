//! Tests which upstreams of host records are at an own address.

use std::sync::Arc;

use sekisho_certs::{Site as Stored, Tenant};
use sekisho_server::site::{Guard, Site};

use super::*;

/// Networks and sockets that hold every address of these tests.
const ALLOW: &str = "sites.allow = [\"10.0.0.0/8\", \"unix:/run\", \"unix:/etc/sekisho\"]\n";

/// Returns whether a record may have this upstream.
fn admits(config: &Config, upstream: &str) -> bool {
    let guard = Guard::new(config.allowed.clone(), config.own_files());
    let guard = guard.with_addresses(Arc::new(config.own_addresses()));
    let json = format!("{{\"upstream\": \"{upstream}\"}}").into();
    let site = Site::parse(&Stored { format: 2, json }, &Tenant::default());
    site.unwrap().refused(&guard, None).is_none()
}

#[test]
fn listeners_stores_and_caches_are_no_upstreams() {
    let listen = "listen.https = [\"10.0.0.1:8443\"]\n";
    let sqlite = "store.url = \"sqlite:a.db\"\n";
    for (more, own, other) in [
        (
            format!("{sqlite}listen.http = [\"10.0.0.1:8080\"]\nlisten.admin = \"unix:a.sock\"\n"),
            &[
                "http://10.0.0.1:8443",
                "http://10.0.0.1:8080",
                "unix:/etc/sekisho/a.sock",
            ][..],
            &["http://10.0.0.1:8081", "unix:/etc/sekisho/b.sock"][..],
        ),
        (
            format!("{sqlite}listen.admin = \"10.0.0.1:9443\"\nlisten.admin_token = \"env:T\"\n"),
            &["http://10.0.0.1:9443"],
            &["http://10.0.0.1"],
        ),
        (
            "store.url = \"postgres://u@10.0.0.2:6432,10.0.0.3:6433/d\"\n\
             cache.redis = \"redis://10.0.0.4\"\n"
                .into(),
            &[
                "http://10.0.0.2:6432",
                "http://10.0.0.3:6433",
                "http://10.0.0.4:6379",
                // The port counts at any address.
                "http://10.0.0.2:6433",
                "http://10.0.0.9:6379",
            ],
            &["http://10.0.0.2:6434"],
        ),
        (
            "store.url = \"postgres:///d?host=/run/postgresql\"\n".into(),
            &["unix:/run/postgresql/.s.PGSQL.5432"],
            &["unix:/run/apps/a.sock"],
        ),
        // Name servers and CAs, in the operator's own network.
        (
            format!(
                "{sqlite}sites.resolvers = [\"10.0.0.5\"]\nacme.cas = [\"internal\"]\n\
                 acme.agree = true\n\
                 acme.ca.internal.directory = \"https://10.0.0.6:14000/dir\"\n"
            ),
            &["http://10.0.0.5:53", "https://10.0.0.6:14000"],
            &["http://10.0.0.5:54", "https://10.0.0.6"],
        ),
        (
            "store.url = \"postgres://u@db.example/d\"\n".into(),
            &["http://10.0.0.9:5432"],
            &["http://10.0.0.9:5433"],
        ),
        // A name that was never resolved may be any address: each connect judges that.
        (
            "store.url = \"https://db.example/{host}\"\n".into(),
            &[],
            &["http://10.0.0.9:443"],
        ),
        (
            "store.url = \"redis+sentinel://10.0.0.5,10.0.0.6:1/m\"\n".into(),
            &["http://10.0.0.5:26379", "http://10.0.0.6:1"],
            &["http://10.0.0.5:6379"],
        ),
        (
            "store.url = \"https://10.0.0.7/{host}\"\n".into(),
            &["http://10.0.0.7:443"],
            &["http://10.0.0.7"],
        ),
    ] {
        let config = parse(&format!("{listen}{more}{ALLOW}")).unwrap();
        for upstream in own {
            assert!(!admits(&config, upstream), "{upstream}: {more}");
        }
        for upstream in other {
            assert!(admits(&config, upstream), "{upstream}: {more}");
        }
    }
}

#[test]
fn a_served_zone_is_no_upstream() {
    let config = parse(&format!(
        "listen.https = [\"10.0.0.1:8443\"]\nstore.url = \"sqlite:a.db\"\n\
         acme.agree = true\nacme.cas = [\"letsencrypt\"]\n\
         acme.dns.\"dcv.example\".serve = [\"10.0.0.5\"]\n{ALLOW}"
    ))
    .unwrap();
    assert!(!admits(&config, "http://10.0.0.5:53"));
    assert!(admits(&config, "http://10.0.0.5:54"));
}
