//! Tests keys of earlier versions.

use super::super::super::gone::GONE;
use super::*;

#[test]
fn a_key_of_an_earlier_version_says_what_takes_its_place() {
    for (place, instead) in GONE {
        let place = place.replace("dns.*", "dns.\"a.example\"");
        let line = place.replace('*', "own");
        let error = refusal(&format!("{MINIMAL}{line} = [\"a\"]\n"));
        let (section, key) = line.split_once('.').unwrap();
        let expected = format!("/etc/sekisho/sekisho.toml:3: [{section}] {key}: {instead}");
        assert_eq!(error.lines().next(), Some(&*expected));
    }
}

#[test]
fn a_key_of_this_version_is_not_taken_for_a_gone_one() {
    parse(&format!("{MINIMAL}cache.absent = \"1s\"\n")).unwrap();
    let error = refusal(&format!("{MINIMAL}server.failed = \"1s\"\n"));
    assert!(error.contains("unknown key `failed`"), "{error}");
}
