//! Tests that an import tells no key, whatever it reads.

use std::fs;

use data_encoding::BASE64;
use sekisho_testkit::{Key, Pair};

use crate::import_layouts::fill;
use crate::sandbox::{Sandbox, ca};

/// Fails if a text holds a line of a key, or a part of the key as acme.json has it.
pub(crate) fn tells_no_key(pair: &Pair, text: &str) {
    let pem = pair.key_pem();
    let encoded = BASE64.encode(pem.as_bytes());
    let parts = encoded.as_bytes().chunks(64);
    let parts = parts.map(|part| std::str::from_utf8(part).expect("base64"));
    let lines = pem.lines().filter(|line| !line.starts_with('-'));
    for secret in lines.chain(parts) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

/// Entries of acme.json that have a key where something else belongs.
pub(crate) fn strange_entries(pair: &Pair) -> [String; 4] {
    let (chain, key) = (pair.chain_pem(), pair.key_pem());
    let [chain, key] = [chain, key].map(|half| BASE64.encode(half.as_bytes()));
    [
        format!(r#"{{"certificate":7,"key":"{key}"}}"#),
        format!(r#"{{"certificate":{{"x":"{key}"}},"key":""}}"#),
        format!(r#"{{"domain":"{key}","certificate":"{chain}","key":"{key}"}}"#),
        format!(r#"{{"domain":{{"sans":"{key}"}},"certificate":"{chain}","key":"{key}"}}"#),
    ]
}

#[test]
fn no_layout_tells_a_key() {
    let pair = ca().issue(&["a.example"], Key::P256);
    let (chain, key) = (&*pair.chain_pem(), &*pair.key_pem());
    let cut = &key[..key.len() * 2 / 3];
    for (chain, key) in [(chain, key), (key, chain), (key, key), (chain, cut)] {
        let sandbox = Sandbox::new();
        for source in fill(&sandbox, chain, key) {
            let ran = sandbox.run(&["cert", "import", source, "--report", "report"]);
            let report = fs::read_to_string(sandbox.path("report")).expect("a report");
            assert_eq!(report.lines().count(), 1, "{source}: {report}{}", ran.err);
            tells_no_key(&pair, &(report + &ran.out + &ran.err));
        }
    }
}

#[test]
fn strange_entries_of_a_document_tell_no_key() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    let entries = strange_entries(&pair).join(",");
    sandbox.write("acme.json", &format!(r#"{{"Certificates":[{entries}]}}"#));
    for more in [["--report", "report"], ["--json", "--dry-run"]] {
        let ran = sandbox.run(&[&["cert", "import", "acme.json"][..], &more].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        tells_no_key(&pair, &(ran.out + &ran.err));
    }
    let report = fs::read_to_string(sandbox.path("report")).expect("a report");
    assert_eq!(report.lines().count(), 4, "{report}");
    tells_no_key(&pair, &report);
}
