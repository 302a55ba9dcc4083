//! Tests a host with an ECDSA and an RSA certificate.

use sekisho_testkit::Key;

use crate::curl_openssl::fingerprint;
use crate::sandbox::Sandbox;

#[test]
fn each_client_gets_a_certificate_it_can_use() {
    let sandbox = Sandbox::new();
    sandbox.import_type(&["a.example"], Key::Rsa2048);
    sandbox.import_type(&["a.example"], Key::P256);
    let shown = sandbox.json(&["cert", "show", "a.example", "--json"]);
    let of = |key_type: &str| {
        let all = shown.as_array().expect("an array");
        let one = all
            .iter()
            .find(|one| one["type"] == key_type)
            .expect(key_type);
        one["sha256"].as_str().expect("text").to_owned()
    };
    let server = sandbox.serve();
    for (args, key_type) in [
        (&["-tls1_3"][..], "ecdsa"),
        (&["-tls1_2"], "ecdsa"),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            "ecdsa",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
            "rsa",
        ),
        (&["-tls1_3", "-sigalgs", "RSA-PSS+SHA256"], "rsa"),
        (&["-tls1_3", "-sigalgs", "ECDSA+SHA256"], "ecdsa"),
    ] {
        assert_eq!(
            fingerprint(server.https, "a.example", args),
            of(key_type),
            "{args:?}"
        );
    }
}
