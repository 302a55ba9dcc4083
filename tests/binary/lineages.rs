//! Tests what commands tell of lineages. They are written to the store here, as an
//! issuer leaves them.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::seal::KeySource;
use sekisho_certs::store::Write;
use sekisho_certs::{
    CredentialId, Fence, HostPattern, LastError, Lineage, LineageName, Sealer, Secret, Tenant,
    ToClaim,
};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

#[test]
fn a_host_shows_what_becomes_of_its_first_certificate() {
    let sandbox = Sandbox::new();
    let store = Lineages::of(&sandbox, &["a.example"]);
    assert_eq!(shown(&sandbox)["lineages"], json!([]));
    let mut lineage = lineage(&["a.example", "www.a.example"]);
    lineage.due = Some(LATER);
    store.put(&lineage);
    let text = sandbox.ok(&["host", "show", "a.example"]);
    let expected = format!(
        "\nlineage   a.example: a.example, www.a.example\n\
         state     waiting for its first certificate\n\
         next      order due at {LATER_TEXT}\n"
    );
    assert!(text.ends_with(&expected), "{text}");
    let view = &shown(&sandbox)["lineages"][0];
    assert_eq!(view["state"], "waiting");
    assert_eq!(view["names"], json!(["a.example", "www.a.example"]));
    assert_eq!(view["due"], LATER_TEXT);

    lineage.attempts = 2;
    lineage.last_error = Some(refused());
    store.put(&lineage);
    let error = sandbox.fails(&["cert", "show", "a.example"]);
    assert!(
        error.contains("a.example has no certificate: the CA says:\\nno; "),
        "{error}"
    );
    let text = sandbox.ok(&["host", "show", "a.example"]);
    let expected = "state     failing, 2 failures in a row\n\
                    error     2030-01-01T00:00:00Z: the CA says:\\nno\n";
    assert!(text.contains(expected), "{text}");
    let view = &shown(&sandbox)["lineages"][0];
    let error = json!({"at": "2030-01-01T00:00:00Z", "text": "the CA says:\nno"});
    assert_eq!(
        (&view["state"], &view["failures"], &view["last_error"]),
        (&json!("failing"), &json!(2), &error)
    );

    lineage.attempts = 10;
    store.put(&lineage);
    assert_eq!(shown(&sandbox)["lineages"][0]["state"], "suspended");
    store.claim(&lineage.name);
    let text = sandbox.ok(&["host", "show", "a.example"]);
    assert!(
        text.contains("order under way, claimed by server-7 until "),
        "{text}"
    );
    let view = &shown(&sandbox)["lineages"][0];
    assert_eq!(
        (&view["state"], &view["claim"]["holder"]),
        (&json!("ordering"), &json!("server-7"))
    );
    // A lineage of another name that is called the same is not meant.
    let mut other = self::lineage(&["b.example"]);
    other.name = lineage.name;
    store.put(&other);
    assert_eq!(shown(&sandbox)["lineages"], json!([]));
}

#[test]
fn a_certificate_shows_its_renewal() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let id = sandbox.json(&["cert", "list", "--json"])[0]["id"].clone();
    let id = id.as_str().expect("an id");
    let store = Lineages::of(&sandbox, &[]);
    assert!(!sandbox.ok(&["cert", "show", id]).contains("lineage"));
    assert_eq!(
        sandbox.json(&["cert", "show", id, "--json"])["lineage"],
        json!(null)
    );
    let mut lineage = lineage(&["b.example", "a.example"]);
    lineage.credential = Some(id.parse::<CredentialId>().expect("an id"));
    for (due, state, text) in [
        // Later than the certificate's own schedule.
        (
            Some(9_999_999_999),
            "scheduled",
            String::from("state       renewal due at 2286-11-20T17:46:39Z\n"),
        ),
        (
            Some(0),
            "scheduled",
            "state       renewal due since 1970-01-01T00:00:00Z\n".into(),
        ),
        (None, "off", "state       not renewed\n".into()),
    ] {
        lineage.due = due;
        store.put(&lineage);
        for name in [id, "a.example"] {
            let shown = sandbox.ok(&["cert", "show", name]);
            assert!(shown.ends_with(&text), "{shown}");
        }
        let view = &sandbox.json(&["cert", "show", "a.example", "--json"])[0]["lineage"];
        assert_eq!(
            (&view["name"], &view["state"]),
            (&json!("b.example"), &json!(state))
        );
        assert_eq!(shown(&sandbox)["lineages"][0], *view);
    }
}

/// The row of a host that admission refused goes with the host.
#[test]
fn a_host_shows_why_it_was_refused() {
    let sandbox = Sandbox::new();
    let store = Lineages::of(&sandbox, &["a.example"]);
    let mut lineage = lineage(&["a.example"]);
    lineage.attempts = 1;
    lineage.last_error = Some(refused());
    store.put(&lineage);
    let text = sandbox.ok(&["host", "show", "a.example"]);
    assert!(text.contains("state     refused on first access"), "{text}");
    assert!(
        text.contains("error     2030-01-01T00:00:00Z: the CA says"),
        "{text}"
    );
    assert_eq!(shown(&sandbox)["lineages"][0]["state"], "refused");
    let listed = sandbox.ok(&["cert", "list", "--failing"]);
    assert!(
        listed.contains("a.example\trefused on first access"),
        "{listed}"
    );
    sandbox.ok(&["host", "remove", "a.example"]);
    assert_eq!(sandbox.ok(&["cert", "list", "--failing"]), "");
}

/// A lineage is due each time that the CA is asked about its certificate.
#[test]
fn a_look_at_renewal_information_is_no_renewal() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let certificate = sandbox.json(&["cert", "show", "a.example", "--json"])[0].clone();
    let id = certificate["id"].as_str().expect("an id");
    let store = Lineages::of(&sandbox, &[]);
    let mut lineage = lineage(&["a.example"]);
    lineage.credential = Some(id.parse::<CredentialId>().expect("an id"));
    let look = sekisho_certs::Clock::System.now() + 3600;
    lineage.due = Some(look);
    store.put(&lineage);
    let json = &sandbox.json(&["cert", "show", "a.example", "--json"])[0]["lineage"];
    let (due, renewal) = (json["due"].as_str(), json["renewal"].as_str());
    let (due, renewal) = (due.expect("a time"), renewal.expect("a time"));
    assert!(due < renewal, "{json}");
    assert!(
        renewal < certificate["not_after"].as_str().expect("a time"),
        "{json}"
    );
    for command in [["cert", "show"], ["host", "show"]] {
        let text = sandbox.ok(&[command[0], command[1], "a.example"]);
        assert!(
            text.contains(&format!(" renewal due at {renewal}\n")),
            "{text}"
        );
        let look = format!(" look at the CA's renewal information at {due}\n");
        assert!(text.contains(&look), "{text}");
    }
}

#[test]
fn what_fails_is_listed() {
    let sandbox = Sandbox::new();
    let store = Lineages::of(&sandbox, &["a.example"]);
    assert_eq!(
        sandbox.json(&["cert", "list", "--failing", "--json"]),
        json!([])
    );
    for number in 0..3 {
        let mut lineage = lineage(&[&format!("h{number}.example")]);
        lineage.due = Some(LATER);
        lineage.attempts = number % 2 + number;
        lineage.last_error = Some(refused());
        store.put(&lineage);
    }
    let text = sandbox.ok(&["cert", "list", "--failing"]);
    let expected = [1, 2].map(|number| {
        format!(
            "h{number}.example\tfailing, 2 failures in a row\torder due at {LATER_TEXT}\t\
             2030-01-01T00:00:00Z: the CA says:\\nno\n"
        )
    });
    assert_eq!(text, expected.concat());
    let listed = sandbox.json(&["cert", "list", "--failing", "--json"]);
    let names: Vec<_> = listed
        .as_array()
        .expect("an array")
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["h1.example", "h2.example"]);
    assert_eq!(listed[1]["failures"], 2);
}

/// Store of a sandbox, opened as another server does.
struct Lineages {
    sealer: Sealer,
    runtime: tokio::runtime::Runtime,
}

impl Lineages {
    /// Opens the store; the first of these hosts creates it.
    fn of(sandbox: &Sandbox, hosts: &[&str]) -> Self {
        for host in hosts {
            sandbox.ok(&["host", "set", host]);
        }
        let catalog = Sqlite::open(&sandbox.path("hosts.db"), Mode::Existing).expect("a store");
        let ring = KeySource::File(sandbox.path("master.key"))
            .load()
            .expect("a key");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let sealer = runtime
            .block_on(Sealer::open(Arc::new(catalog), ring))
            .expect("the key");
        Self { sealer, runtime }
    }

    fn put(&self, lineage: &Lineage<Secret>) {
        let write = Write::PutLineage(lineage.clone(), Fence::Any);
        self.runtime
            .block_on(self.sealer.write(vec![write]))
            .expect("it is written");
    }

    fn claim(&self, name: &LineageName) {
        let which = ToClaim::Named(vec![name.clone()]);
        let claimed = self
            .sealer
            .catalog()
            .claim(which, "server-7", Duration::from_secs(600));
        assert_eq!(
            self.runtime.block_on(claimed).expect("it is claimed").len(),
            1
        );
    }
}

fn lineage(names: &[&str]) -> Lineage<Secret> {
    let names = names
        .iter()
        .map(|name| HostPattern::parse(name).expect("a name"));
    Lineage::new(Tenant::default(), names).expect("it has names")
}

fn refused() -> LastError {
    LastError {
        at: LATER - 86_400,
        text: "the CA says:\nno".into(),
    }
}

fn shown(sandbox: &Sandbox) -> Value {
    sandbox.json(&["host", "show", "a.example", "--json"])
}

const LATER: i64 = 1_893_542_400;
const LATER_TEXT: &str = "2030-01-02T00:00:00Z";
