//! Tests `sekisho acme account` at a real CA.

use std::fs;
use std::sync::Arc;

use sekisho_certs::seal::KeySource;
use sekisho_certs::{Clock, Sealer};
use sekisho_issuance::accounts::Accounts;
use sekisho_issuance::acme::{Account, Ca, CaSettings};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use sekisho_testkit::services::{Pebble, PebbleOptions};
use tokio::runtime::Runtime;

use crate::sandbox::Sandbox;

/// Sandbox whose configuration names a CA that runs.
struct AtPebble {
    sandbox: Sandbox,
    pebble: Pebble,
    runtime: Runtime,
}

impl AtPebble {
    fn start() -> Self {
        let (sandbox, pebble) = (Sandbox::new(), Pebble::start(&PebbleOptions::default()));
        sandbox.import(&["a.example"]);
        let root = fs::read_to_string(pebble.root()).expect("a root");
        sandbox.write("root.pem", &root);
        let at = Self {
            sandbox,
            pebble,
            runtime: Runtime::new().expect("a runtime"),
        };
        at.configure("mailto:ops@example.com");
        at
    }

    fn configure(&self, contact: &str) {
        let directory = self.pebble.directory();
        self.sandbox.configure(&format!(
            "[acme]\ncas = [\"internal\", \"other\"]\ncontact = [\"{contact}\"]\nagree = true\n\
             [acme.ca.internal]\ndirectory = \"{directory}\"\nca = \"root.pem\"\n\
             [acme.ca.other]\ndirectory = \"https://127.0.0.1:1/\"\nca = \"root.pem\"\n"
        ));
    }

    fn ca(&self) -> Ca {
        let settings = CaSettings {
            name: "internal".into(),
            directory: self.pebble.directory(),
            root: Some(self.pebble.root()),
            deadline: CaSettings::DEADLINE,
        };
        Ca::new(&settings).expect("a CA")
    }

    /// Returns the account as a server would get it.
    fn account(&self) -> Account {
        self.runtime.block_on(async {
            let file = self.sandbox.path("hosts.db");
            let catalog = Sqlite::open(&file, Mode::Existing).expect("a store");
            let keys = KeySource::File(self.sandbox.path("master.key")).load();
            let sealer = Sealer::open(Arc::new(catalog), keys.expect("keys")).await;
            let contact = vec!["mailto:ops@example.com".to_owned()];
            let accounts = Accounts::new(sealer.expect("its keys"), contact, true, Clock::System);
            accounts.get(&self.ca(), None).await.expect("an account")
        })
    }

    fn show(&self) -> serde_json::Value {
        let args = ["acme", "account", "show", "--ca", "internal", "--json"];
        self.sandbox.json(&args)[0].clone()
    }

    fn rotate(&self) -> String {
        let args = ["acme", "account", "rotate", "--ca", "internal"];
        self.sandbox.ok(&args)
    }
}

const DEACTIVATE: [&str; 6] = ["acme", "account", "deactivate", "--ca", "internal", "--yes"];

#[test]
fn an_account_is_shown_rotated_and_ended() {
    let at = AtPebble::start();
    let none = at.sandbox.ok(&["acme", "account", "show"]);
    assert!(
        none.contains("account  none; the first order makes one"),
        "{none}"
    );
    assert!(at.show()["account"].is_null());

    let old = at.account();
    let shown = at.sandbox.ok(&["acme", "account", "show"]);
    for part in [
        at.ca().directory(),
        old.id(),
        "mailto:ops@example.com",
        "status   valid",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = at.show();
    assert_eq!(
        (&json["ca"], &json["status"]),
        (&"internal".into(), &"valid".into())
    );
    assert_eq!(json["account"], old.id());

    let rotated = at.rotate();
    assert_eq!(
        rotated,
        format!("internal: {} has a new key, which is saved\n", old.id())
    );
    let new = at.account();
    assert_eq!(new.id(), old.id());
    assert_ne!(new.to_bytes(), old.to_bytes());
    assert!(at.runtime.block_on(old.check()).is_err());
    assert_eq!(at.show()["status"], "valid");

    let ended = at.sandbox.ok(&DEACTIVATE);
    assert_eq!(
        ended,
        "internal: the account is deactivated, and removed from the store\n"
    );
    assert!(at.runtime.block_on(new.check()).is_err());
    let error = at.sandbox.fails(&DEACTIVATE);
    let expected = format!(
        "error: internal: the store has no account at {}",
        at.pebble.directory()
    );
    assert!(error.starts_with(&expected), "{error}");
    assert_ne!(at.account().id(), new.id());
}

#[test]
fn an_account_that_was_lost_is_told_and_can_be_removed() {
    let at = AtPebble::start();
    let account = at.account();
    // As if the command had been killed before it saved the key.
    at.runtime.block_on(account.rotate()).expect("a new key");
    let ran = at
        .sandbox
        .run(&["acme", "account", "show", "--ca", "internal"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("status   REFUSED: "), "{}", ran.out);
    let ran = at.sandbox.run(&DEACTIVATE);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("it was not deactivated there"),
        "{}",
        ran.err
    );
    assert!(at.show()["account"].is_null());
}

#[test]
fn what_can_not_be_done_is_said() {
    let at = AtPebble::start();
    let wrong = |args: &[&str]| {
        let ran = at.sandbox.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        ran.err
    };
    let error = wrong(&["acme", "account", "rotate"]);
    assert!(
        error.contains("say which with --ca: internal, other"),
        "{error}"
    );
    let error = wrong(&DEACTIVATE[..5]);
    assert!(error.contains("for ever; confirm it with --yes"), "{error}");
    let error = at
        .sandbox
        .fails(&["acme", "account", "show", "--ca", "nowhere"]);
    assert!(error.contains("it names internal, other"), "{error}");
    let error = at
        .sandbox
        .fails(&["acme", "account", "rotate", "--ca", "internal"]);
    assert!(error.contains("; the first order makes one"), "{error}");

    let account = at.account();
    at.configure("mailto:two@example.com");
    let ran = at
        .sandbox
        .run(&["acme", "account", "show", "--ca", "internal"]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.err.contains("note: [acme] has another contact"),
        "{}",
        ran.err
    );
    at.sandbox.configure(
        "[acme]\ncas = [\"other\"]\nagree = true\n[acme.ca.other]\n\
         directory = \"https://127.0.0.1:1/\"\nca = \"root.pem\"\n",
    );
    let ran = at.sandbox.run(&["acme", "account", "show"]);
    let expected = format!(
        "note: the store has an account at {}",
        at.pebble.directory()
    );
    assert!(ran.err.contains(&expected), "{}", ran.err);
    at.configure("mailto:ops@example.com");
    let sandbox = at.sandbox;
    drop(at.pebble);
    let ran = sandbox.run(&["acme", "account", "show", "--ca", "internal"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.out.contains(account.id()) && ran.out.contains("status   unknown: "),
        "{}",
        ran.out
    );
    let ran = sandbox.run(&DEACTIVATE);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let ran = sandbox.run(&["acme", "account", "show", "--ca", "internal"]);
    assert!(ran.out.contains(account.id()), "{}", ran.out);
}

#[test]
fn a_configuration_without_cas_is_named() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let error = sandbox.fails(&["acme", "account", "show"]);
    assert!(
        error.contains("sekisho.toml: [acme] is missing; it names the CAs"),
        "{error}"
    );
}
