//! Tests passwords of requests.

use std::time::{Duration, Instant};

use data_encoding::BASE64;
use http::{Method, Version};
use http_body_util::{BodyExt, Full};

use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::common::upstream::{self, Upstream};
use crate::fastcgi_server::{FastCgiServer, output};
use crate::world::{Answer, BOTH, Client, HOST, OTHER, World};

/// Hashes of `secret` by htpasswd and openssl; bcrypt with cost 4, as a quick one.
const BCRYPT: &str = "$2y$04$QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq";
const APR1: &str = "$apr1$8sFt66rZ$eup.HOtZcQ/VrnApBM3rR/";
const SHA512: &str = "$6$ab./XY$tarbk7AiSdomvfTUV5JmM7KWUN/nSS6tHP5xXxU3txjMuaA91c9ZT7xpD1v1.IZj2dKmU2VrLTFaV6Fsh2wAB1";
const ARGON2: &str = "$argon2id$v=19$m=64,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$NZM9HruDlpv+svG+Wf5n9elNeM0OXMUpS4QH8zsitbM";

fn site() -> String {
    let auth =
        |realm: &str, users: &str| format!(r#"{{"realm": "{realm}", "users": {{{users}}}}}"#);
    let all = auth(
        "The \\\"staff\\\"",
        &format!(r#""ann": "{BCRYPT}", "bob": "{APR1}", "eve": "{SHA512}", "\u00e4": "{ARGON2}""#),
    );
    let own = auth("Own", &format!(r#""ann": "{APR1}""#));
    format!(
        r#"{{
            "root": "FOLDER", "auth": {all}, "errors": "FOLDER/errors",
            "paths": [
                {{"path": "/open", "root": "FOLDER", "auth": false}},
                {{"path": "/own", "root": "FOLDER", "auth": {own}}},
                {{"path": "/status", "status": 410, "body_limit": "1KiB"}},
                {{"path": "/moved", "redirect": "https://b.example"}}
            ]
        }}"#
    )
}

const FILES: [(&str, &str); 4] = [
    ("index.html", "staff"),
    ("open/index.html", "open"),
    ("own/index.html", "own"),
    ("errors/404.html", "page"),
];

async fn ask(client: &mut Client, path: &str, pair: &str) -> Answer {
    let value = format!("Basic {}", BASE64.encode(pair.as_bytes()));
    client
        .send(Method::GET, path, &[("authorization", &value)])
        .await
}

#[tokio::test]
async fn each_kind_of_answer_asks_for_the_password_of_a_user() {
    let world = World::new(&site(), &FILES);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status) in [
            ("/", 200),
            ("/status", 410),
            ("/moved", 308),
            ("/absent", 404),
        ] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.body, "401 Unauthorized\n");
            let challenge = answer.field("www-authenticate").unwrap();
            let expected = r#"Basic realm="The \"staff\"", charset="UTF-8""#;
            assert_eq!(challenge, expected);
            for pair in ["ann:secret", "bob:secret", "eve:secret", "\u{e4}:secret"] {
                assert_eq!(
                    ask(&mut client, path, pair).await.status,
                    status,
                    "{path} {pair}"
                );
            }
        }
        let preflight = client.send(Method::OPTIONS, "/", &[]).await;
        assert_eq!(preflight.status, 401);
    }
}

#[tokio::test]
async fn a_path_has_users_of_its_own_or_none() {
    let world = World::new(&site(), &FILES);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/open/").await.body, "open");
        for path in ["/own/", "/%6fwn/", "/open/../own/", "//own/"] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 401, "{path}");
            let challenge = answer.field("www-authenticate").unwrap();
            assert!(challenge.contains("realm=\"Own\""), "{challenge}");
        }
        assert_eq!(ask(&mut client, "/own/", "ann:secret").await.body, "own");
    }
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    assert_eq!(ask(&mut client, "/own/", "bob:secret").await.status, 401);
}

#[tokio::test]
async fn what_is_no_pair_is_asked_again_and_costs_nothing() {
    let world = World::new(&site(), &FILES);
    let long = format!("Basic {}", BASE64.encode(&[b'a'; 1025]));
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        // More requests than wrong passwords are taken.
        for _ in 0..5 {
            for value in ["", "Basic", "Basic =", "Basic YQ==", "Bearer YTpi", &long] {
                let fields = [("authorization", value)];
                let answer = client.send(Method::GET, "/", &fields).await;
                assert_eq!(answer.status, 401, "{value}");
            }
            let twice = [
                ("authorization", "Basic YTpi"),
                ("authorization", "Basic YTpi"),
            ];
            let answer = client.send(Method::GET, "/", &twice).await;
            assert_eq!(answer.status, 401);
        }
    }
    let name = r#"sekisho_requests_refused_total{reason="password"}"#;
    assert_eq!(figure(&world.running, name).await, 70);
}

#[tokio::test]
async fn wrong_passwords_are_bounded_by_client_network_and_host() {
    let site = site();
    let world = World::with(LIMITS, &[(HOST, &site), (OTHER, &site)], &FILES);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    assert_eq!(ask(&mut client, "/", "ann:secret").await.status, 200);
    for attempt in 0..10 {
        let name = if attempt % 2 == 0 { "ann" } else { "nobody" };
        let answer = ask(&mut client, "/", &format!("{name}:{attempt}")).await;
        assert_eq!(answer.status, 401, "{attempt}");
    }
    for attempt in 0..300 {
        let answer = ask(&mut client, "/", &format!("ann:{attempt}")).await;
        assert_eq!(answer.status, 429);
        let wait: u64 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=10).contains(&wait), "{wait}");
        // The remembered pair passes.
        assert_eq!(ask(&mut client, "/", "ann:secret").await.status, 200);
    }
    // A right password that is not remembered is not told from a wrong one.
    assert_eq!(ask(&mut client, "/", "bob:secret").await.status, 429);
    let mut other = world.connect(Version::HTTP_11, OTHER).await;
    assert_eq!(ask(&mut other, "/", "bob:secret").await.status, 200);
    let name = r#"sekisho_requests_refused_total{reason="password_rate"}"#;
    assert_eq!(figure(&world.running, name).await, 301);
}

#[tokio::test]
async fn many_requests_at_once_with_one_pair_cost_one_hash() {
    let world = World::new(&site(), &FILES);
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(world.connect(Version::HTTP_11, HOST).await);
    }
    let asked = clients
        .iter_mut()
        .map(|client| ask(client, "/", "eve:secret"));
    let answers = futures_util::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let asked = clients
        .iter_mut()
        .map(|client| ask(client, "/", "eve:wrong"));
    let answers = futures_util::future::join_all(asked).await;
    let count = |status| {
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    assert_eq!((count(401), count(429)), (10, 30));
}

/// Returns a site of users from `user0` on, and others from `slow0` on.
fn many_users() -> String {
    let slow = bcrypt::hash_with_salt("secret", 12, [7; 16]).unwrap();
    let slow = (0..20).map(|number| format!(r#""slow{number}": "{slow}""#));
    let users = (0..200).map(|number| format!(r#""user{number}": "{BCRYPT}""#));
    let users: Vec<_> = slow.chain(users).collect();
    let users = users.join(", ");
    format!(r#"{{"status": 410, "auth": {{"users": {{{users}}}}}}}"#)
}

/// Sends a pair on a connection of its own. Leaves if there is no answer within 100 ms.
async fn ask_briefly(world: &World, pair: &str) -> Option<u16> {
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    let answer = ask(&mut client, "/", pair);
    let answer = tokio::time::timeout(Duration::from_millis(100), answer).await;
    answer.ok().map(|answer| answer.status)
}

#[tokio::test]
async fn right_passwords_at_once_are_no_failures() {
    let world = World::new(&many_users(), &[]);
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(world.connect(Version::HTTP_11, HOST).await);
    }
    let asked = clients.iter_mut().enumerate();
    let asked = asked.map(|(number, client)| async move {
        let pair = format!("user{number}:secret");
        ask(client, "/", &pair).await.status
    });
    let answers = futures_util::future::join_all(asked).await;
    assert_eq!(answers, [410; 40]);
}

#[tokio::test]
async fn a_hash_counts_for_a_client_that_left() {
    let world = World::new(&many_users(), &[]);
    let until = Instant::now() + Duration::from_secs(30);
    // A right one is remembered, and no failure: more clients leave than may fail.
    let mut users = (1..13).chain(std::iter::repeat(0));
    loop {
        let pair = format!("slow{}:secret", users.next().unwrap());
        match ask_briefly(&world, &pair).await {
            Some(410) if pair == "slow0:secret" => break,
            None | Some(410) => assert!(Instant::now() < until, "it is not remembered"),
            Some(other) => panic!("{other}"),
        }
    }
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    for attempt in 0..9 {
        let answer = ask(&mut client, "/", &format!("user0:{attempt}")).await;
        assert_eq!(answer.status, 401, "{attempt}");
    }
    // A wrong one is a failure, after which other users are not let in.
    for number in 1.. {
        ask_briefly(&world, &format!("slow0:{number}")).await;
        let pair = format!("user{number}:secret");
        match ask(&mut client, "/", &pair).await.status {
            429 => break,
            status => assert_eq!(status, 410),
        }
        assert!(Instant::now() < until, "it is not counted");
    }
}

#[tokio::test]
async fn hashes_that_take_long_hold_up_no_other_tenant() {
    let slow = BCRYPT.replace("$04$", "$12$");
    let site =
        |hash: &str| format!(r#"{{"status": 410, "auth": {{"users": {{"ann": "{hash}"}}}}}}"#);
    let sites = [(HOST, &*site(&slow)), (OTHER, &*site(BCRYPT))];
    let world = World::with(LIMITS, &sites, &[]);
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(world.connect(Version::HTTP_11, HOST).await);
    }
    let mut other = world.connect(Version::HTTP_2, OTHER).await;
    let attempts = clients
        .into_iter()
        .enumerate()
        .map(|(attempt, mut client)| {
            tokio::spawn(async move {
                let answer = ask(&mut client, "/", &format!("ann:{attempt}")).await;
                (answer.status, Instant::now())
            })
        });
    let attempts: Vec<_> = attempts.collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ask(&mut other, "/", "ann:secret").await.status, 410);
    let answered = Instant::now();
    let mut after = 0;
    for attempt in attempts {
        let (status, ended) = attempt.await.unwrap();
        assert_eq!(status, 401);
        after += usize::from(ended > answered);
    }
    assert!(after >= 4, "only {after} hashes ended later");
}

#[tokio::test]
async fn an_upstream_gets_the_pair_as_it_came_and_only_with_the_password() {
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let site = format!(
        r#"{{"upstream": "{url}", "body_limit": "1KiB", "auth": {{"users": {{"ann": "{BCRYPT}"}}}}}}"#
    );
    let mut heads = upstream.answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let world = World::new(&site, &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(ask(&mut client, "/", "ann:wrong").await.status, 401);
        let trace = client.send(Method::TRACE, "/", &[]).await;
        assert_eq!(trace.status, 401);
        // A client without a password learns nothing of the limit.
        let large = [("content-length", "2000")];
        let body = Full::new(vec![b'x'; 2000].into())
            .map_err(|never| match never {})
            .boxed();
        let answer = client.begin(Method::PUT, "/", &large, body).await.unwrap();
        assert_eq!(answer.status(), 401);
        let mut client = world.connect(version, HOST).await;
        assert_eq!(ask(&mut client, "/", "ann:secret").await.status, 200);
        let head = heads.recv().await.unwrap();
        let passed = upstream::field(&head, "authorization");
        assert_eq!(passed.as_deref(), Some("Basic YW5uOnNlY3JldA=="));
    }
    assert!(heads.try_recv().is_err());
}

#[tokio::test]
async fn a_changed_record_takes_the_old_password_no_more() {
    let site =
        |hash: &str| format!(r#"{{"status": 410, "auth": {{"users": {{"ann": "{hash}"}}}}}}"#);
    let world = World::new(&site(APR1), &[]);
    let mut before = world.connect(Version::HTTP_2, HOST).await;
    assert_eq!(ask(&mut before, "/", "ann:secret").await.status, 410);
    // openssl passwd -apr1 -salt 8sFt66rZ x
    world.change(HOST, &site("$apr1$8sFt66rZ$j2BEVt9a8XrdWkzTR5wQ5/"));
    let mut after = world.connect(Version::HTTP_11, HOST).await;
    for client in [&mut before, &mut after] {
        assert_eq!(ask(client, "/", "ann:secret").await.status, 401);
        assert_eq!(ask(client, "/", "ann:x").await.status, 410);
    }
}

#[tokio::test]
async fn a_script_learns_the_user_and_runs_only_with_the_password() {
    let site = format!(
        r#"{{"root": "FOLDER/www", "fastcgi": "unix:FOLDER/run/{{tenant}}/php.sock",
            "auth": {{"users": {{"ann": "{BCRYPT}"}}}}, "paths": [
            {{"path": "/open", "root": "FOLDER/www", "fastcgi": "unix:FOLDER/run/{{tenant}}/php.sock",
              "auth": false}}]}}"#
    );
    let world = World::new(&site, &[("www/index.php", ""), ("www/open/index.php", "")]);
    let socket = world.folder.path().join("run/acme/php.sock");
    let scripts = FastCgiServer::start(&socket, |_| output("Content-Type: a/b\r\n\r\n"));
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/").await.status, 401);
        assert_eq!(ask(&mut client, "/", "ann:wrong").await.status, 401);
        assert_eq!(ask(&mut client, "/", "ann:secret").await.status, 200);
        let asked = scripts.last();
        assert_eq!(asked.param("REMOTE_USER"), "ann");
        assert_eq!(asked.param("AUTH_TYPE"), "Basic");
        assert_eq!(asked.param("HTTP_AUTHORIZATION"), "Basic YW5uOnNlY3JldA==");
        // A path without users has no user, whatever the client sends.
        assert_eq!(ask(&mut client, "/open/", "ann:secret").await.status, 200);
        assert_eq!(scripts.last().param("REMOTE_USER"), "");
    }
    assert_eq!(scripts.asked().len(), 4);
}
