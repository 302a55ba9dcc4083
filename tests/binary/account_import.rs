//! Tests `sekisho acme account import` at a real CA, with accounts that other tools have
//! made: their requests are signed here, and sent by curl.

use std::fs;
use std::process::Command;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use rcgen::{KeyPair, RsaKeySize, SigningKey};
use sekisho_certs::der;
use sekisho_certs::store::DocumentId;
use sekisho_issuance::accounts::KIND;
use sekisho_testkit::services::{Pebble, PebbleOptions};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::acme::sealer;
use crate::sandbox::Sandbox;

/// Another tool's RSA account at a CA, and a sandbox that names the CA.
struct AtTool {
    sandbox: Sandbox,
    pebble: Pebble,
    key: KeyPair,
    /// URL of the account.
    account: String,
}

impl AtTool {
    fn start() -> Self {
        let pebble = Pebble::start(&PebbleOptions::default());
        let sandbox = sandbox(&pebble);
        let rsa = RsaKeySize::_2048;
        let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rsa).expect("a key");
        let mut at = Self {
            sandbox,
            pebble,
            key,
            account: String::new(),
        };
        at.account = at.register();
        at
    }

    /// Makes an account of the key, or finds it (RFC 8555, section 7.3.1); returns its URL.
    fn register(&self) -> String {
        let directory = self.curl(&[&self.pebble.directory()]);
        let body = directory.split_once("\r\n\r\n").expect("a head").1;
        let directory: Value = serde_json::from_str(body).expect("JSON");
        let url = |name: &str| directory[name].as_str().expect("a URL").to_owned();
        let nonce = field(&self.curl(&["--head", &url("newNonce")]), "replay-nonce");
        let to = url("newAccount");
        let [n, e, ..] = numbers(&self.key);
        let jwk = json!({"kty": "RSA", "n": n, "e": e});
        let protected = json!({"alg": "RS256", "jwk": jwk, "nonce": nonce, "url": to});
        let encode = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let protected = encode(protected);
        let payload = encode(json!({"termsOfServiceAgreed": true}));
        let signed = self.key.sign(format!("{protected}.{payload}").as_bytes());
        let signature = BASE64URL_NOPAD.encode(&signed.expect("a signature"));
        let request = json!({"protected": protected, "payload": payload, "signature": signature});
        let kind = "content-type: application/jose+json";
        let answer = self.curl(&["--header", kind, "--data", &request.to_string(), &to]);
        field(&answer, "location")
    }

    /// Returns head and body of an answer.
    fn curl(&self, args: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--http1.1"]);
        command.arg("--cacert").arg(self.pebble.root()).args(args);
        let out = command.output().expect("curl runs");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn import(&self, file: &str, more: &[&str]) -> Vec<String> {
        let args = ["acme", "account", "import", file];
        let args = args.iter().chain(more);
        args.map(|arg| (*arg).to_owned()).collect()
    }

    fn imported(&self, file: &str, more: &[&str]) -> String {
        let args = self.import(file, more);
        self.sandbox
            .ok(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn refused(&self, file: &str, more: &[&str]) -> String {
        let args = self.import(file, more);
        self.sandbox
            .fails(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn shown(&self) -> Value {
        self.sandbox.json(&["acme", "account", "show", "--json"])[0].clone()
    }

    /// Writes the key as certbot does.
    fn write_jwk(&self) {
        let [n, e, d, p, q, dp, dq, qi] = numbers(&self.key);
        let jwk = json!({
            "kty": "RSA", "n": n, "e": e, "d": d, "p": p, "q": q, "dp": dp, "dq": dq, "qi": qi,
        });
        self.sandbox
            .write_private("private_key.json", &jwk.to_string());
    }
}

/// Makes a sandbox with a store whose configuration names the CA.
fn sandbox(pebble: &Pebble) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let root = fs::read_to_string(pebble.root()).expect("a root");
    sandbox.write("root.pem", &root);
    configure(&sandbox, &pebble.directory());
    sandbox
}

fn configure(sandbox: &Sandbox, directory: &str) {
    sandbox.configure(&format!(
        "[acme]\ncas = [\"internal\"]\nagree = true\n\
         [acme.ca.internal]\ndirectory = \"{directory}\"\nca = \"root.pem\"\n"
    ));
}

/// Returns the key of the account in a store, as PEM.
fn stored_key(at: &AtTool) -> String {
    let id = DocumentId::new(KIND, at.pebble.directory());
    let document = Runtime::new().expect("a runtime").block_on(async {
        let sealer = sealer(&at.sandbox).await;
        sealer.document(&id).await.expect("a store")
    });
    let bytes = document.expect("an account").bytes;
    let stored: Value = serde_json::from_slice(bytes.expose()).expect("JSON");
    let key = stored["key_pkcs8"].as_str().expect("a key");
    let key = BASE64URL_NOPAD.decode(key.as_bytes()).expect("base64url");
    let key = BASE64.encode(&key);
    format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n")
}

/// Returns a field of an answer's head.
fn field(answer: &str, name: &str) -> String {
    let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(field, _)| field.eq_ignore_ascii_case(name));
    found
        .unwrap_or_else(|| panic!("no {name}: {answer}"))
        .1
        .to_owned()
}

/// Returns the numbers of an RSA key, in the order of RFC 8017, appendix A.1.2.
fn numbers(key: &KeyPair) -> [String; 8] {
    let key = key.serialize_der();
    let numbers = der::rsa_private(&key).expect("a key of two primes");
    numbers.map(|number| BASE64URL_NOPAD.encode(number))
}

#[test]
fn certbots_account_is_taken_over() {
    let at = AtTool::start();
    at.write_jwk();
    // Nobody has confirmed it.
    let args = ["acme", "account", "import", "private_key.json"];
    let ran = at.sandbox.run(&args);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("confirm it with --yes"), "{}", ran.err);
    assert_eq!(at.register(), at.account);
    assert!(at.shown()["account"].is_null());

    let out = at.imported("private_key.json", &["--yes"]);
    assert_eq!(out, format!("imported {}, key changed\n", at.account));
    let shown = at.shown();
    assert_eq!(
        (&shown["account"], &shown["status"]),
        (&json!(at.account), &json!("valid"))
    );
    // The CA takes the old key for that of somebody new.
    assert_ne!(at.register(), at.account);
    let rotated = at.sandbox.ok(&["acme", "account", "rotate"]);
    assert!(rotated.contains(&at.account), "{rotated}");
}

#[test]
fn keys_in_pem_and_of_traefik_are_taken() {
    let at = AtTool::start();
    at.sandbox
        .write_private("account_key.pem", &at.key.serialize_pem());
    let out = at.imported("account_key.pem", &["--yes"]);
    assert_eq!(out, format!("imported {}, key changed\n", at.account));

    let at = AtTool::start();
    // Traefik has PKCS#1 in base64, which PKCS#8 holds.
    let pkcs8 = at.key.serialize_der();
    let parts = || {
        let (document, _) = der::element(&pkcs8, 0x30)?;
        let (_, rest) = der::element(document, 0x02)?;
        let (_, rest) = der::element(rest, 0x30)?;
        Some(der::element(rest, 0x04)?.0)
    };
    let account = json!({
        "Email": "ops@example.com", "Registration": {"uri": at.account},
        "PrivateKey": BASE64.encode(parts().expect("PKCS#1")), "KeyType": "4096",
    });
    let resolver = json!({"Account": account, "Certificates": null});
    let file = json!({"le": resolver, "other": resolver}).to_string();
    at.sandbox.write_private("acme.json", &file);
    let error = at.refused("acme.json", &["--yes"]);
    assert!(error.contains("--resolver: le, other"), "{error}");
    let out = at.imported("acme.json", &["--yes", "--resolver", "le"]);
    assert_eq!(out, format!("imported {}, key changed\n", at.account));
}

#[test]
fn a_p256_key_is_taken_as_it_is_and_replaces_nothing() {
    let at = AtTool::start();
    at.write_jwk();
    at.imported("private_key.json", &["--yes"]);
    // The new key is like those of lego and Caddy: a second store takes the account by it.
    let other = sandbox(&at.pebble);
    other.write_private("account.key", &stored_key(&at));
    let out = other.ok(&["acme", "account", "import", "account.key"]);
    assert_eq!(out, format!("imported {}\n", at.account));
    let shown = other.json(&["acme", "account", "show", "--json"]);
    assert_eq!(shown[0]["status"], "valid");

    let other = AtTool::start();
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    other
        .sandbox
        .write_private("account.key", &key.serialize_pem());
    let error = other.refused("account.key", &[]);
    assert!(
        error.contains("the CA knows no account of this key"),
        "{error}"
    );
    assert!(!error.contains("PRIVATE KEY"), "{error}");

    // An account that is there stays.
    at.sandbox
        .write_private("account.key", &key.serialize_pem());
    let error = at.refused("account.key", &[]);
    let expected = format!(
        "the store has an account there already, {}; --replace",
        at.account
    );
    assert!(error.contains(&expected), "{error}");
    let error = at.refused("account.key", &["--replace"]);
    assert!(
        error.contains("the CA knows no account of this key"),
        "{error}"
    );
    assert_eq!(at.shown()["account"], json!(at.account));
}

/// As after a kill: the CA has changed the key, and the command has not heard of it.
#[test]
fn a_lost_answer_to_the_key_change_is_repaired() {
    let at = AtTool::start();
    at.write_jwk();
    let proxy = at
        .pebble
        .proxy(|path, status| !(path.contains("rollover") && status.is_some()));
    // The store knows accounts by the URL of the directory: both go through the proxy.
    configure(
        &at.sandbox,
        &format!("https://127.0.0.1:{}/dir", proxy.port()),
    );
    let error = at.refused("private_key.json", &["--yes"]);
    assert!(error.contains("changing the key of the account"), "{error}");
    assert!(at.shown()["account"].is_null());
    let out = at.imported("private_key.json", &["--yes"]);
    assert!(
        out.starts_with("imported ") && out.ends_with(", key changed\n"),
        "{out}"
    );
    assert_eq!(at.shown()["status"], "valid");
}

#[test]
fn files_that_are_no_keys_are_refused_without_their_content() {
    let at = AtTool::start();
    for (text, expected) in [
        ("c2VjcmV0", "it is no key in PEM, no JWK and no acme.json"),
        (
            "{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}",
            "it has no key of an account",
        ),
    ] {
        at.sandbox.write_private("key", text);
        let error = at.refused("key", &["--yes"]);
        assert!(error.contains(&format!("key: {expected}")), "{error}");
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
    let error = at.refused("none", &[]);
    assert!(error.contains("none: "), "{error}");
}
