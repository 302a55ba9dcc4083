//! Tests `[acme]` as far as no CA is asked, and challenges without it.

use std::fs::{self, DirEntry};
use std::sync::Arc;

use sekisho_certs::seal::KeySource;
use sekisho_certs::store::Precondition;
use sekisho_certs::{ChallengeKind, Challenges, Clock, KeyAuthorization, Sealer};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use tokio::runtime::Runtime;

use crate::sandbox::{SOON, Sandbox, ca, until};

/// A CA that is never reached.
pub(crate) const ACME: &str = "\
[acme]
cas = [\"internal\"]
agree = true
[acme.ca.internal]
directory = \"https://127.0.0.1:1/\"
ca = \"root.pem\"
";

/// Sandbox with a store, and the root of a CA.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.write("root.pem", &ca().root_pem());
    sandbox
}

/// Opens the store of a sandbox.
pub(crate) async fn sealer(sandbox: &Sandbox) -> Sealer {
    let catalog = Sqlite::open(&sandbox.path("hosts.db"), Mode::Existing).expect("a store");
    let keys = KeySource::File(sandbox.path("master.key")).load();
    let sealer = Sealer::open(Arc::new(catalog), keys.expect("keys")).await;
    sealer.expect("its keys")
}

#[test]
fn parts_that_can_not_be_built_are_named_with_their_line() {
    let sandbox = sandbox();
    sandbox.write("empty.pem", "");
    sandbox.write_private("tsig", "not-a-key");
    sandbox.write("open", "hmac-sha256:acme:c2VjcmV0");
    let zone = |tsig: &str| {
        format!("[acme.dns.\"a.example\"]\nrfc2136 = \"192.0.2.1\"\ntsig = \"file:{tsig}\"\n")
    };
    for (text, expected) in [
        (
            ACME.replace("root.pem", "none.pem"),
            ":18: [acme] ca.internal.ca: /",
        ),
        (
            ACME.replace("root.pem", "empty.pem"),
            "empty.pem: holds no certificate",
        ),
        (
            ACME.replace("agree", "ask = \"https://me:hush@h/\"\nagree"),
            ":15: [acme] ask: a user and password are not sent",
        ),
        (
            ACME.replace("agree", "ask = \"https://h/\"\nask_ca = \"no\"\nagree"),
            ":16: [acme] ask_ca: /",
        ),
        (
            format!("{ACME}{}", zone("tsig")),
            ":21: [acme] dns.\"a.example\".tsig: ",
        ),
        (
            format!("{ACME}{}", zone("open")),
            "open: others may read it (mode 644); run chmod 600",
        ),
        (
            format!("{ACME}[acme.ca.twin]\ndirectory = \"https://127.0.0.1:1/\"\n")
                .replace("[\"internal\"]", "[\"internal\", \"twin\"]"),
            ":14: [acme] cas: \"internal\" and \"twin\" are the same CA",
        ),
        (
            format!("{ACME}[acme.dns.\"b.example\"]\nwebhook = \"https://h/?k=hush\"\n"),
            ":20: [acme] dns.\"b.example\".webhook: it is no https://",
        ),
    ] {
        sandbox.configure(&text);
        for command in ["check", "serve"] {
            let error = sandbox.fails(&[command]);
            assert!(error.contains(expected), "{command}: {error}");
            assert!(
                !error.contains("hush") && !error.contains("c2VjcmV0"),
                "{error}"
            );
        }
    }
    sandbox.configure(ACME);
    sandbox.ok(&["check"]);
}

#[test]
fn only_acme_starts_a_thread_of_orders() {
    let sandbox = sandbox();
    for (text, is_there) in [("", false), (ACME, true)] {
        sandbox.configure(text);
        let server = sandbox.serve();
        until("it serves", SOON, || server.fetch("a.example").is_ok());
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        let name = |task: DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        let names: Vec<_> = tasks.flatten().filter_map(name).collect();
        assert_eq!(
            names.iter().any(|name| name == "issuance\n"),
            is_there,
            "{names:?}"
        );
        server.stop();
    }
}

#[test]
fn a_server_without_acme_answers_challenges_of_others() {
    let sandbox = sandbox();
    let server = sandbox.serve();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let sealer = sealer(&sandbox).await;
        let answer = KeyAuthorization::new("thumbprint");
        let expires = Clock::System.now() + 600;
        let kind = ChallengeKind::Http01;
        let put = Challenges::write(kind, TOKEN, &answer, expires, Precondition::Any);
        sealer.write(vec![put]).await.expect("it is written");
    });
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    let answer = server.fetch_plain("new.example", &path);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("thumbprint"), "{answer}");
}

const TOKEN: &str = "abcdefghij-ABCDEFGHIJ_0123";
