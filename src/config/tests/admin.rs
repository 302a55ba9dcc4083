//! Tests where the admin listener may listen.

use super::*;

#[test]
fn an_open_admin_listener_needs_a_token() {
    let text =
        format!("{MINIMAL}listen.admin = \"0.0.0.0:9443\"\nlisten.admin_token = \"env:TOKEN\"");
    let listen = parse(&text).unwrap().listen;
    assert_eq!(listen.admin_token, Some(SecretSource::Env("TOKEN".into())));
    for address in ["127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        let text = format!("{MINIMAL}listen.admin = \"{address}\"");
        assert!(parse(&text).unwrap().listen.admin.is_some());
    }
}

#[test]
fn an_admin_listener_on_a_unix_socket_needs_no_token() {
    for (path, absolute) in [
        ("admin.sock", "/etc/sekisho/admin.sock"),
        ("/run/sekisho/admin.sock", "/run/sekisho/admin.sock"),
    ] {
        let text = format!("{MINIMAL}listen.admin = \"unix:{path}\"");
        let admin = parse(&text).unwrap().listen.admin;
        assert_eq!(admin, Some(Address::Unix(absolute.into())));
    }
    let error = parse(&format!("{MINIMAL}listen.admin = \"unix:\"")).unwrap_err();
    assert!(error.to_string().contains("[listen] admin"), "{error}");
}
