//! Tests `[hook]`.
#![cfg(feature = "hook")]

use sekisho_hook::OnError;

use super::*;

fn hook(text: &str) -> Hook {
    let config = parse(&format!("{MINIMAL}[hook]\n{text}"));
    config.unwrap().hook.expect("a hook")
}

#[test]
fn a_script_has_safe_bounds() {
    let hook = hook("script = \"handshake.luau\"\n");
    assert_eq!(hook.script, Path::new("/etc/sekisho/handshake.luau"));
    assert_eq!(hook.on_error, OnError::Refuse);
    assert!(hook.folders.is_empty() && hook.sql.is_empty() && hook.ca.is_none());
    assert_eq!((hook.memory, hook.waiting), (16 << 20, 1024));
    let times = [hook.cpu, hook.timeout];
    assert_eq!(times, [20, 5000].map(Duration::from_millis));
    assert!(parse(MINIMAL).unwrap().hook.is_none());
}

#[test]
fn a_prefix_has_an_eighth_of_the_waiting_runs() {
    for (waiting, expected) in [(8, 8), (200, 128), (1024, 128), (4096, 512)] {
        let hook = hook(&format!("script = \"a\"\nwaiting = {waiting}\n"));
        assert_eq!(hook.waiting_per_prefix(), expected, "{waiting}");
    }
}

#[test]
fn paths_lie_below_the_configuration() {
    let hook = hook(
        "script = \"/srv/h.luau\"\nfolders = [\"certs\", \"/srv\"]\nca = \"ca.pem\"\n\
         on_error = \"lookup\"\nsql.shops = \"postgres://db/shops\"\n",
    );
    let folders = [Path::new("/etc/sekisho/certs"), Path::new("/srv")];
    assert_eq!(hook.folders, folders);
    assert_eq!(hook.ca.as_deref(), Some(Path::new("/etc/sekisho/ca.pem")));
    assert_eq!(hook.on_error, OnError::Lookup);
    assert_eq!(hook.sql["shops"].to_string(), "postgres://db/shops");
}

#[test]
fn a_wrong_value_says_what_to_write() {
    for (text, expected) in [
        ("", "3: [hook] script: is missing; write script = "),
        (
            "script = \"a\"\non_error = \"absent\"\n",
            "5: [hook] on_error: \"absent\" is no policy; write \"refuse\"",
        ),
        (
            "script = \"a\"\ncpu = \"2s\"\n",
            "5: [hook] cpu: 2s is out of range; write 1ms to 1s",
        ),
        (
            "script = \"a\"\nfolders = [\"\"]\n",
            "5: [hook] folders[0]: ",
        ),
        (
            "script = \"a\"\nsql.shops = \"redis://db\"\n",
            "5: [hook] sql.shops: ",
        ),
        ("scripts = \"a\"\n", "did you mean `script`?"),
    ] {
        let error = refusal(&format!("{MINIMAL}[hook]\n{text}"));
        assert!(error.contains(expected), "{error}");
    }
}

/// What a script refuses must not be served over plain HTTP.
#[test]
fn plain_http_needs_a_configuration_without_a_script() {
    let config = |rest: &str| {
        let listen = "listen.http = [\"127.0.0.1:80\"]\nlisten.plain = true\n";
        format!("{MINIMAL}{listen}{rest}")
    };
    assert!(parse(&config("")).unwrap().listen.plain);
    let error = refusal(&config("[hook]\nscript = \"h.luau\"\n"));
    let says = "4: [listen] plain: a script chooses by ClientHello";
    assert!(error.contains(says), "{error}");
}

#[test]
fn databases_of_the_script_are_no_upstreams() {
    let config =
        format!("{MINIMAL}[hook]\nscript = \"h.luau\"\nsql.a = \"postgres://10.0.0.3/a\"\n");
    let config = parse(&config).unwrap();
    let own = format!("{:?}", config.own_addresses());
    assert!(own.contains("5432"), "{own}");
}

#[test]
fn a_site_that_overlaps_the_hooks_keys_is_refused() {
    let text = |root: &str| {
        format!(
            "{MINIMAL}site.root = \"{root}\"\n[hook]\nscript = \"a\"\nfolders = [\"/srv/certs\"]\n"
        )
    };
    for root in [
        "/",
        "/srv",
        "/srv/{tenant}",
        "/srv/certs",
        "/srv/certs/{host}",
        "/srv/certs/a",
    ] {
        let refused = parse(&text(root)).unwrap_err().to_string();
        assert!(refused.contains("[site] root: "), "{refused}");
        assert!(
            refused.contains("/srv/certs, where [hook] folders"),
            "{refused}"
        );
    }
    for root in ["/srv/www", "/srv/certsx", "/srv/www/{tenant}"] {
        parse(&text(root)).unwrap();
    }
}
