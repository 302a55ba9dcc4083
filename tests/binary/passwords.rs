//! Tests passwords of sites on the command line.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Hashes of `secret` that htpasswd made.
const BCRYPT: &str = "$2y$04$QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq";
const APR1: &str = "$apr1$2ON9CmX9$CmHckxv3AYtQZqxYvMg511";
/// Digest of the first.
const DIGEST: &str = "sha256:5eea1f67f8dd27e393522fe2e7f5b06bd4e656225be1a9b8b484e856c80c9999";

fn show(sandbox: &Sandbox, more: &[&str]) -> Value {
    let args = [&["host", "show", "a.example", "--json"], more].concat();
    sandbox.json(&args)["site"].clone()
}

#[test]
fn a_file_of_htpasswd_makes_the_users_of_a_site() {
    let sandbox = Sandbox::new();
    let file = format!("# staff\nann:{BCRYPT}\n\nbob:{APR1}\r\n");
    sandbox.write("staff.htpasswd", &file);
    sandbox.import(&["a.example"]);
    let set = ["host", "set", "a.example", "--auth", "staff.htpasswd"];
    sandbox.ok(&[&set[..], &["--status", "410"]].concat());
    let users = json!({"ann": BCRYPT, "bob": APR1});
    let expected = json!({"status": 410, "auth": {"users": users}});
    assert_eq!(show(&sandbox, &["--secrets"]), expected);
    let answer = sandbox.serve().fetch("a.example").unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let challenge = "www-authenticate: Basic realm=\"Restricted\", charset=\"UTF-8\"\r\n";
    assert!(answer.contains(challenge), "{answer}");
    for action in [&["--default-site"][..], &["--site", "x.json"], &[]] {
        let ran = sandbox.run(&[&set[..], action].concat());
        assert_eq!(ran.code, Some(2), "{action:?}: {}", ran.err);
    }
}

#[test]
fn an_error_names_file_and_line_and_repeats_no_hash() {
    let sandbox = Sandbox::new();
    for (file, expected) in [
        (
            "ann:hush\n",
            "line 1: plain text is not taken; write a hash that `htpasswd -nB",
        ),
        (
            &format!("ann:{BCRYPT}\n\nbob:rOioh4Wh3Qw7.\n"),
            "line 3: DES crypt",
        ),
        (
            &format!("ann:{BCRYPT}\nann:{BCRYPT}\n"),
            "line 2: the user ann stands twice",
        ),
        ("hush\n", "line 1: is no line of htpasswd"),
        ("# nobody\n", "staff.htpasswd has no user"),
    ] {
        sandbox.write("staff.htpasswd", file);
        let args = ["host", "set", "a.example", "--status", "410"];
        let error = sandbox.fails(&[&args[..], &["--auth", "staff.htpasswd"]].concat());
        assert!(error.contains("staff.htpasswd"), "{error}");
        assert!(error.contains(expected), "{error}");
        for hash in ["hush", &BCRYPT[8..], "rOioh4Wh3Qw7."] {
            assert!(!error.contains(hash), "{error}");
        }
    }
}

#[test]
fn a_digest_stands_for_a_hash_and_leaves_it_unchanged() {
    let sandbox = Sandbox::new();
    let own = json!({"path": "/b", "status": 410, "auth": {"users": {"bob": APR1}}});
    let auth = json!({"realm": "A", "users": {"ann": BCRYPT}});
    let site = json!({"status": 404, "auth": auth, "paths": [own]});
    let set = |site: &Value| {
        sandbox.write("site.json", &site.to_string());
        sandbox.run(&["host", "set", "a.example", "--site", "site.json"])
    };
    assert_eq!(set(&site).code, Some(0));
    let mut shown = show(&sandbox, &[]);
    assert_eq!(shown["auth"]["users"]["ann"], DIGEST);
    let digest = shown["paths"][0]["auth"]["users"]["bob"].clone();
    assert!(digest.as_str().unwrap().starts_with("sha256:"));
    for command in [&["host", "show", "a.example"][..], &["host", "list"]] {
        for more in [&["--json"][..], &[]] {
            let args = [command, more].concat();
            let (hidden, all) = (
                sandbox.ok(&args),
                sandbox.ok(&[&args[..], &["--secrets"]].concat()),
            );
            assert!(
                hidden.contains(DIGEST) && !hidden.contains("$2y$"),
                "{hidden}"
            );
            assert!(all.contains(BCRYPT) && !all.contains("sha256:"), "{all}");
        }
    }
    // Set as it was shown, nothing changes; a digest may move to another user.
    assert_eq!(set(&shown).code, Some(0));
    assert_eq!(show(&sandbox, &["--secrets"]), site);
    shown["auth"]["users"]["eve"] = digest;
    assert_eq!(set(&shown).code, Some(0));
    assert_eq!(show(&sandbox, &["--secrets"])["auth"]["users"]["eve"], APR1);
    // A digest of no hash of the host is refused.
    let other = DIGEST.replace("sha256:", "sha256:0")[..DIGEST.len()].to_owned();
    shown["paths"][0]["auth"]["users"]["bob"] = other.into();
    let ran = set(&shown);
    let expected = "`paths[0].auth.users.bob`: no password of the host has this digest";
    assert!(
        ran.code == Some(1) && ran.err.contains(expected),
        "{}",
        ran.err
    );
    sandbox.ok(&["host", "remove", "a.example"]);
    assert!(set(&shown).err.contains("has this digest"));
    sandbox.fails(&["host", "show", "a.example"]);
}

#[test]
fn hashes_in_the_configuration_are_not_shown() {
    let sandbox = Sandbox::new();
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).unwrap();
    let auth = format!("[site]\nauth = {{ users = {{ ann = \"{BCRYPT}\" }} }}\n");
    let config = config.replace("[site]\n", &auth);
    sandbox.write("sekisho.toml", &config);
    sandbox.ok(&["host", "set", "a.example"]);
    let shown = sandbox.ok(&["config", "show"]);
    assert!(shown.contains("***") && !shown.contains("$2y$"), "{shown}");
    sandbox.write("sekisho.toml", &config.replace(BCRYPT, "hush"));
    let error = sandbox.fails(&["check"]);
    assert!(error.contains("plain text is not taken"), "{error}");
    assert!(!error.contains("hush"), "{error}");
}
