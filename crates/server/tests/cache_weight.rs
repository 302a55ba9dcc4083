//! Compares the weights of virtual hosts and cached files with the memory that they
//! allocate.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Scripted, host};
use http::Request;
use prometheus_client::encoding::text::encode;
use sekisho_certs::metrics::Registry;
use sekisho_certs::{
    ClientCa, Found, HostName, LoadedHost, Lookup, LookupSettings, NeverObtain, OpenKey, Published,
    Tenant, TlsPolicy,
};
use sekisho_server::OpenFiles;
use sekisho_server::site::{Allowed, Guard, OwnFiles, Site, SiteDocument};
use sekisho_server::tickets::Ring;
use sekisho_server::{Publisher, Responder, VirtualHost};
use sekisho_testkit::{Key, TestCa};
use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const COUNT: usize = 5000;
/// As many as hosts: each has one of its own.
const CLIENT_CAS: usize = COUNT;
/// So many that what the threads that read them keep for themselves is far less than a file may
/// weigh too much.
const FILES: usize = 5000;
/// Files before the measurement, for which these threads start. With 200 some started later.
const WARM: usize = 1000;

/// The only test of this binary: the allocator's statistics cover the process.
#[tokio::test]
async fn an_entry_weighs_what_it_takes() {
    endpoints().await;
    for bytes in [0, 700, 9 << 10] {
        let name = format!("file of {bytes} bytes");
        assert_exact(&name, measure_files(bytes).await);
    }
}

async fn endpoints() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let with_site = host("a.example", &[(&pair, Key::P256)]);
    let mut without_site = with_site.clone();
    without_site.record.site = None;
    let default = || vec![TlsPolicy::default()];
    assert_exact("redirect", measure(with_site.clone(), default()).await);
    let plain = assert_exact("no site", measure(without_site.clone(), default()).await);
    let redirects = redirects(40);
    for (name, json) in SITES.iter().copied().chain([("redirects", &*redirects)]) {
        let mut found = with_site.clone();
        found.record.site = Some(SiteDocument::parse(json).unwrap().stored().clone());
        let added = assert_exact(name, measure(found, default()).await) - plain;
        println!("{name} adds {added:.0} bytes");
        assert!(name != "upstream" || added <= 300.0, "{added:.0}");
    }
    let own: Vec<_> = (0..CLIENT_CAS).map(|_| with_client_ca()).collect();
    let measured = measure(without_site.clone(), own).await;
    assert_exact("a client CA of its own", measured);
    // Which host leaves the cache last is not known: each is charged with the whole.
    let (grown, charged) = measure(without_site, vec![with_client_ca()]).await;
    println!("a client CA that all share: {grown:.0} bytes each, charged {charged:.0}");
    assert!(grown < 1000.0 && grown < charged, "{grown}");
}

/// Returns a site with so many redirects, which share its options.
fn redirects(count: usize) -> String {
    let one = |at| format!(r#""/shop/products/{at}": "https://www.example.com/products/{at}""#);
    let all: Vec<String> = (0..count).map(one).collect();
    let all = all.join(", ");
    format!(r#"{{"root": "/srv", "hsts": {{"max_age": 1}}, "redirects": {{{all}}}}}"#)
}

fn assert_exact(name: &str, (grown, charged): (f64, f64)) -> f64 {
    let ratio = charged / grown;
    println!("{name}: {grown:.0} bytes each, charged {charged:.0}, {ratio:.3}");
    assert!((0.85..=1.15).contains(&ratio), "{name}: {ratio}");
    grown
}

fn with_client_ca() -> TlsPolicy {
    let ca = ClientCa::check(TestCa::new().root_pem().as_bytes()).unwrap();
    TlsPolicy {
        client_ca: Some(Arc::new(ca)),
        ..TlsPolicy::default()
    }
}

/// Returns the bytes that one endpoint allocates, and its weight. Endpoints have
/// these policies in turn.
async fn measure(found: Found<OpenKey>, policies: Vec<TlsPolicy>) -> (f64, f64) {
    let allowed = Allowed::parse(&["/srv", "0.0.0.0/0"], Path::new("/")).unwrap();
    let guard = Arc::new(Guard::new(allowed, OwnFiles::default()));
    let publisher = Publisher::new(Arc::new(Ring::random()), Site::not_found(), guard);
    let measured = Arc::new(Mutex::new((0.0, 0.0)));
    let result = Arc::clone(&measured);
    let settings = LookupSettings {
        memory: 16 << 20,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(60),
    };
    let lookup = Lookup::new(
        Arc::new(Scripted::new([found])),
        &settings,
        Arc::new(NeverObtain),
        move |host| {
            let with_policy = |policy: &TlsPolicy| {
                let mut record = host.record.clone();
                record.tls = policy.clone();
                let credentials = host.credentials.clone();
                Arc::new(LoadedHost {
                    record,
                    credentials,
                })
            };
            let hosts: Vec<_> = policies.iter().map(with_policy).collect();
            let hosts = hosts.iter().cycle().take(COUNT);
            let mut kept: Vec<Published<VirtualHost>> = Vec::with_capacity(COUNT);
            let before = allocated();
            kept.extend(hosts.map(|host| publisher.publish(host).expect("published")));
            // The value itself lies in the cache's own allocation.
            let grown = allocated() - before + COUNT * size_of::<VirtualHost>();
            let charged: usize = kept.iter().map(|one| one.weight).sum();
            *result.lock().unwrap() = (grown as f64 / COUNT as f64, charged as f64 / COUNT as f64);
            publisher.publish(host)
        },
    );
    lookup.load(&HostName::parse("a.example").unwrap()).await;
    *measured.lock().unwrap()
}

/// Returns the bytes that one cached file allocates, and its weight.
async fn measure_files(bytes: usize) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let allowed = Allowed::parse(&[folder.path().to_string_lossy()], Path::new("/")).unwrap();
    let guard = Arc::new(Guard::new(allowed, OwnFiles::default()));
    let json = serde_json::json!({ "root": folder.path() }).to_string();
    let site = SiteDocument::parse(&json).unwrap();
    let site = site.site(&Tenant::default()).unwrap();
    let responder = Responder::new(64 << 20, guard);
    let (host, open) = (HostName::parse("a.example").unwrap(), OpenFiles::default());
    let mut before = 0;
    for n in 0..FILES {
        if n == WARM {
            before = allocated();
        }
        let name = format!("{n:04}.html");
        std::fs::write(folder.path().join(&name), vec![b'x'; bytes]).unwrap();
        let request = Request::get(format!("/{name}")).body(()).unwrap();
        let (head, ()) = request.into_parts();
        // Served twice: some memory is only taken when an entry is first shared.
        for _ in 0..2 {
            let answer = responder.respond_locally(&site, &host, &head, &open).await;
            assert_eq!(answer.status(), 200);
        }
    }
    let grown = allocated() - before;
    let mut registry = Registry::default();
    responder.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let charged = text
        .lines()
        .find_map(|line| line.strip_prefix("file_cache_bytes "))
        .unwrap();
    let charged: f64 = charged.parse().unwrap();
    (grown as f64 / (FILES - WARM) as f64, charged / FILES as f64)
}

fn allocated() -> usize {
    epoch::advance().unwrap();
    stats::allocated::read().unwrap()
}

/// Sites by what they have many of.
const SITES: &[(&str, &str)] = &[
    ("upstream", r#"{"upstream": "http://127.0.0.1:3000"}"#),
    (
        "passwords",
        r#"{"root": "/srv/www", "auth": {"realm": "Staff of the shop", "users": {
            "ann": "$2y$04$QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq",
            "bob": "$apr1$2ON9CmX9$CmHckxv3AYtQZqxYvMg511",
            "eve": "$apr1$8sFt66rZ$eup.HOtZcQ/VrnApBM3rR/"}}, "paths": [
            {"path": "/a", "status": 410, "rate": {"host": 1}},
            {"path": "/b", "status": 410, "rate": {"host": 1}}]}"#,
    ),
    (
        "named upstream",
        r#"{"upstream": "https://shop.customers.internal.example:8443"}"#,
    ),
    ("root", r#"{"root": "/srv/www/customers/{host}"}"#),
    (
        "text",
        r#"{"status": 503, "text": "This shop is closed. Please come back later."}"#,
    ),
    (
        "options",
        r#"{
          "upstream": {
            "servers": ["https://10.0.0.1", {"url": "https://10.0.0.2", "weight": 3}],
            "tls": {"name": "app.internal"}, "host": "app.internal",
            "balance": {"cookie": "server"}, "check": {"path": "/health"},
            "timeouts": {"idle": "2m"}
          },
          "request": {"set": {"X-One": "some value", "X-Two": "another value"}},
          "response": {"set": {"X-Frame-Options": "DENY"}, "remove": ["Server", "X-Powered-By"]},
          "hsts": {"max_age": 31536000, "subdomains": true}, "errors": "/srv/errors/{host}",
          "cache": {"text/css": "max-age=3600", "image/*": "max-age=86400", "*/*": "no-cache"},
          "rate": {"client": 50}, "allow": ["10.0.0.0/8", "fd00::/8"], "deny": ["192.0.2.0/24"]
        }"#,
    ),
    (
        "paths",
        r#"{
          "hsts": {"max_age": 31536000}, "root": "/srv/www",
          "paths": [
            {"path": "/application/one", "upstream": "http://10.0.0.1:3000", "strip": true},
            {"path": "/application/two", "upstream": "http://10.0.0.2:3000"},
            {"path": "/application/three", "upstream": "http://10.0.0.3:3000"},
            {"path": "/application/four", "root": "/srv/four", "try": ["{path}", "/index.html"]},
            {"path": "/old", "redirect": "https://new.example"}, {"path": "/gone", "status": 410}
          ]
        }"#,
    ),
    ("as", r#"{"as": "www.shop.customers.example"}"#),
    (
        "coding",
        r#"{
          "root": "/srv/www", "index": ["index.html", "welcome.html"],
          "precompressed": ["br", "zstd", "gzip"],
          "compress": {"types": ["text/*", "application/json", "application/wasm"], "level": 5},
          "paths": [
            {"path": "/api", "upstream": "http://10.0.0.1:3000", "compress": {"upstream": true}},
            {"path": "= /health", "methods": ["GET", "VERSION-CONTROL-OF-ALL"], "status": 404}
          ]
        }"#,
    ),
    (
        "placeholders",
        r#"{
          "upstream": "http://10.0.0.1:3000",
          "request": {"set": {
            "X-Name": "{host} of {tenant}", "X-Who": "{client}", "X-Plan": "{label.plan}-{id}"
          }},
          "response": {"add": {"X-Json": "{{\"a\": \"{host}\"}}", "X-Fixed": "some value"}},
          "rate": {"client": 50, "burst": 100}, "in_flight": 9
        }"#,
    ),
];
