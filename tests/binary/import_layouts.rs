//! Tests imports of other tools' layouts.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use data_encoding::BASE64;
use sekisho_testkit::{Key, Pair};

use crate::sandbox::{Ran, Sandbox, ca};

/// Writes a pair into two files.
fn write(sandbox: &Sandbox, pair: &Pair, chain: &str, key: &str) {
    sandbox.write(chain, &pair.chain_pem());
    sandbox.write(key, &pair.key_pem());
}

/// Imports a source into a store of its own; returns the hosts.
fn imported(sources: &Sandbox, source: &str, options: &[&str]) -> Vec<String> {
    let (sandbox, source) = (Sandbox::new(), sources.path(source));
    let source = source.to_str().expect("UTF-8");
    let out = sandbox.ok(&[&["cert", "import", source], options].concat());
    assert!(out.contains("imported 1,"), "{source}: {out}");
    let list = sandbox.json(&["host", "list", "--json"]);
    let hosts = list.as_array().expect("an array").iter();
    let name = |host: &serde_json::Value| host["name"].as_str().expect("a name").to_owned();
    hosts.map(name).collect()
}

/// Files of chain and key in layouts that have two.
const PAIRS: [[&str; 2]; 6] = [
    [
        "le/live/a.example/fullchain.pem",
        "le/live/a.example/privkey.pem",
    ],
    [
        "dehydrated/a.example/fullchain.pem",
        "dehydrated/a.example/privkey.pem",
    ],
    [
        "acme/a.example_ecc/fullchain.cer",
        "acme/a.example_ecc/a.example.key",
    ],
    [
        "lego/certificates/a.example.crt",
        "lego/certificates/a.example.key",
    ],
    [
        "caddy/certificates/le/a.example/a.example.crt",
        "caddy/certificates/le/a.example/a.example.key",
    ],
    ["flat/a.example.crt", "flat/a.example.key"],
];

/// Writes a pair in each layout of files. Returns the sources.
pub(crate) fn fill(sandbox: &Sandbox, chain: &str, key: &str) -> [&'static str; 11] {
    for [chain_file, key_file] in PAIRS {
        sandbox.write(chain_file, chain);
        sandbox.write(key_file, key);
    }
    sandbox.write("dehydrated/a.example/cert-1700000000.pem", "");
    sandbox.write("lego/certificates/a.example.issuer.crt", "");
    let bundle = format!("{key}{chain}");
    sandbox.write("haproxy/shop.pem", &bundle);
    sandbox.write("cpanel/a.example/combined", &bundle);
    sandbox.write("list.csv", "chain,key\nhaproxy/shop.pem,\n");
    let [chain, key] = [chain, key].map(|half| BASE64.encode(half.as_bytes()));
    let domain = r#"{"main":"a.example","sans":["*.a.example"]}"#;
    let entry = format!(r#"{{"domain":{domain},"certificate":"{chain}","key":"{key}"}}"#);
    let file = format!(r#"{{"le":{{"Account":{{}},"Certificates":[{entry}]}}}}"#);
    sandbox.write("acme.json", &file);
    [
        "le",
        "dehydrated",
        "acme",
        "lego",
        "caddy",
        "flat",
        "haproxy",
        "haproxy/shop.pem",
        "cpanel",
        "list.csv",
        "acme.json",
    ]
}

#[test]
fn each_layout_is_recognised_and_imported() {
    let sandbox = Sandbox::new();
    let names = ["*.a.example", "a.example"];
    let pair = ca().issue(&names, Key::P256);
    for source in fill(&sandbox, &pair.chain_pem(), &pair.key_pem()) {
        assert_eq!(imported(&sandbox, source, &[]), names, "{source}");
    }
}

/// Lego's `--pem` writes each pair as a bundle, too.
#[test]
fn bundles_beside_the_pairs_of_lego_are_no_doubt() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    let folder = "lego/certificates";
    for (ending, text) in [
        ("crt", pair.chain_pem()),
        ("issuer.crt", String::new()),
        ("key", pair.key_pem()),
        ("pem", pair.key_pem() + &pair.chain_pem()),
    ] {
        sandbox.write(&format!("{folder}/a.example.{ending}"), &text);
    }
    for source in ["lego", folder] {
        assert_eq!(imported(&sandbox, source, &[]), ["a.example"]);
    }
    sandbox.write(&format!("{folder}/b.example.pem"), "");
    let ran = sandbox.run(&["cert", "import", folder]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let told = "could be lego (1) or haproxy (1); name the layout with --layout";
    assert!(ran.err.contains(told), "{}", ran.err);
}

#[test]
fn a_bundle_may_have_its_key_beside_it() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    write(
        &sandbox,
        &pair,
        "haproxy/a.pem.ecdsa",
        "haproxy/a.pem.ecdsa.key",
    );
    assert_eq!(imported(&sandbox, "haproxy", &[]), ["a.example"]);
    sandbox.write("haproxy/list", "a.pem a.example\n");
    assert_eq!(imported(&sandbox, "haproxy/list", &[]), ["a.example"]);
    // HAProxy takes the key in the bundle first: the other one may be old.
    let old = ca().issue(&["a.example"], Key::P256);
    sandbox.write("both/a.pem", &(pair.chain_pem() + &pair.key_pem()));
    sandbox.write("both/a.pem.key", &old.key_pem());
    assert_eq!(imported(&sandbox, "both", &[]), ["a.example"]);
}

#[test]
fn a_crt_list_serves_its_names() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["*.a.example", "a.example"], Key::P256);
    sandbox.write("certs/a.pem", &(pair.key_pem() + &pair.chain_pem()));
    sandbox.write("list", "a.pem [alpn h2,http/1.1] a.example www.a.example\n");
    let certs = sandbox.path("certs");
    let prefix = ["--prefix", certs.to_str().expect("UTF-8")];
    let hosts = imported(&sandbox, "list", &prefix);
    assert_eq!(hosts, ["a.example", "www.a.example"]);
    sandbox.write("list", "certs/a.pem b.example\n");
    let error = sandbox.fails(&["cert", "import", "list"]);
    assert!(error.contains("not for b.example"), "{error}");
}

#[test]
fn doubt_names_what_lies_there() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    write(
        &sandbox,
        &pair,
        "pairs/a.example.crt",
        "pairs/a.example.key",
    );
    sandbox.write("pairs/b.example.pem", "");
    let ran = sandbox.run(&["cert", "import", "pairs"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let told = "pairs could be haproxy (1) or flat (1); name the layout with --layout";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(!sandbox.path("hosts.db").exists(), "a store was made");
    let out = sandbox.ok(&["cert", "import", "pairs", "--layout", "flat"]);
    assert!(out.contains("imported 1,"), "{out}");
    // A file of a layout with names of its own does not stand for the pairs beside it.
    fs::remove_file(sandbox.path("pairs/b.example.pem")).expect("a file");
    sandbox.write("pairs/old/fullchain.pem", "");
    let ran = sandbox.run(&["cert", "import", "pairs"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let told = "pairs could be certbot (1) or flat (1); name the layout with --layout";
    assert!(ran.err.contains(told), "{}", ran.err);
}

#[test]
fn the_named_pair_wins_then_the_longest() {
    let sandbox = Sandbox::new();
    let until = |names: &[&str], year: i32| {
        let (from, to) = ((2020, 1, 1), (year, 1, 1));
        ca().issue_valid(names, Key::P256, from, to)
    };
    let own = until(&["a.example"], 2090);
    let longer = until(&["a.example", "b.example"], 2099);
    let longest = until(&["b.example", "c.example"], 2100);
    write(&sandbox, &own, "pairs/a.example.crt", "pairs/a.example.key");
    write(&sandbox, &longer, "pairs/one.crt", "pairs/one.key");
    write(&sandbox, &longest, "pairs/two.crt", "pairs/two.key");
    for _ in 0..2 {
        sandbox.ok(&["cert", "import", "pairs"]);
        for (host, year) in [
            ("a.example", 2090),
            ("b.example", 2100),
            ("c.example", 2100),
        ] {
            let shown = sandbox.json(&["cert", "show", host, "--json"]);
            let until = format!("{year}-01-01T00:00:00Z");
            assert_eq!(shown[0]["not_after"], until, "{host}");
        }
    }
}

#[test]
fn a_named_pair_wins_though_it_was_issued_earlier() {
    let sandbox = Sandbox::new();
    let names = ["a.example", "b.example"];
    let both = ca().issue_valid(&names, Key::P256, (2021, 1, 1), (2099, 1, 1));
    write(&sandbox, &both, "pairs/both.crt", "pairs/both.key");
    sandbox.ok(&["cert", "import", "pairs"]);
    let own = ca().issue_valid(&["a.example"], Key::P256, (2020, 1, 1), (2090, 1, 1));
    write(&sandbox, &own, "pairs/a.example.crt", "pairs/a.example.key");
    for result in ["replaced 1", "skipped 2"] {
        let out = sandbox.ok(&["cert", "import", "pairs"]);
        assert!(out.contains(result), "{out}");
        for (host, year) in [("a.example", 2090), ("b.example", 2099)] {
            let shown = sandbox.json(&["cert", "show", host, "--json"]);
            let until = format!("{year}-01-01T00:00:00Z");
            assert_eq!(shown[0]["not_after"], until, "{host}");
        }
    }
}

#[test]
fn an_archive_is_read_from_standard_input() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    let (chain, key) = ("archive/fullchain1.pem", "archive/privkey1.pem");
    write(&sandbox, &pair, chain, key);
    let lineage = sandbox.path("live/a.example");
    fs::create_dir_all(&lineage).expect("a folder");
    for (to, name) in [(chain, "fullchain.pem"), (key, "privkey.pem")] {
        symlink(sandbox.path(to), lineage.join(name)).expect("a link");
    }
    let archive = |options: &str| {
        let mut tar = Command::new("tar");
        tar.args([options, "archive.tar", "--sort=name", "live"]);
        let status = tar.current_dir(sandbox.root()).status();
        assert!(status.expect("tar runs").success());
        fs::File::open(sandbox.path("archive.tar")).expect("an archive")
    };
    let certbot = ["cert", "import", "--layout", "certbot"];
    let mut import = sandbox.command(&[&certbot[..], &["-"]].concat());
    let ran = Ran::of(&import.stdin(archive("-chf")).output().expect("it runs"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("imported 1,"), "{}", ran.out);
    let _ = archive("-czhf");
    let gzip = [&certbot[..], &["archive.tar"]].concat();
    assert!(sandbox.ok(&gzip).contains("skipped 1"));
    let ran = sandbox.run(&["cert", "import", "archive.tar"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(
        ran.err.contains("name the layout of the archive"),
        "{}",
        ran.err
    );
    // Without -h there are links alone.
    let ran = Ran::of(&import.stdin(archive("-cf")).output().expect("it runs"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("2 links were passed over"), "{}", ran.err);
    // An archive that is cut stores what came before.
    let whole = fs::read(sandbox.path("archive.tar")).expect("an archive");
    fs::write(sandbox.path("cut.tar"), &whole[..1000]).expect("a file");
    let error = sandbox.fails(&[&certbot[..], &["cut.tar"]].concat());
    assert!(error.contains("ends in the middle"), "{error}");
}

/// Contents that no pair has are skipped as they come, and never kept.
#[test]
fn gigabytes_of_zeros_in_an_archive_are_skipped() {
    const SIZE: usize = 2 << 30;
    let sandbox = Sandbox::new();
    let mut import = sandbox.command(&["cert", "import", "-", "--layout", "flat"]);
    let import = import.stdin(Stdio::piped()).stdout(Stdio::piped());
    let import = import.stderr(Stdio::piped()).spawn();
    let mut import = import.expect("the binary runs");
    let mut input = import.stdin.take().expect("a pipe");
    let begin = header("a.example.crt", SIZE);
    input.write_all(&begin).expect("it reads");
    let zeros = vec![0; 1 << 20];
    for _ in 0..SIZE / zeros.len() {
        input.write_all(&zeros).expect("it reads");
    }
    let status = format!("/proc/{}/status", import.id());
    let status = fs::read_to_string(status).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    let peak: usize = peak.expect("a peak").parse().expect("a number");
    assert!(peak < 128 << 10, "{peak} KiB");
    input.write_all(&zeros[..1024]).expect("it reads");
    drop(input);
    let ran = Ran::of(&import.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let told = "a.example.crt: is larger than 256 KiB";
    assert!(ran.err.contains(told), "{}", ran.err);
}

/// Makes a header of tar (POSIX, ustar).
fn header(name: &str, size: usize) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[test]
fn a_second_run_writes_nothing_whoever_covers_whom() {
    // Two batches and more lie between the first and the last line of a list.
    const BETWEEN: usize = 2100;
    let until = |names: &[&str], year: i32| {
        let (from, to) = ((2020, 1, 1), (year, 1, 1));
        ca().issue_valid(names, Key::P256, from, to)
    };
    let own = until(&["a.example"], 2090);
    // One that no host refers to in the end, and one that has a host of its own.
    let covering = until(&["a.example"], 2099);
    let further = until(&["a.example", "c.example"], 2100);
    let between = until(&["between.example"], 2090);
    let lines = "own,own.key,a.example\n".to_owned();
    let others = "covering,covering.key\nfurther,further.key\n";
    let middle = "between,between.key\n".repeat(BETWEEN);
    for list in [
        format!("{others}{middle}{lines}"),
        format!("{lines}{middle}{others}"),
    ] {
        let sandbox = Sandbox::new();
        write(&sandbox, &own, "own", "own.key");
        write(&sandbox, &covering, "covering", "covering.key");
        write(&sandbox, &further, "further", "further.key");
        write(&sandbox, &between, "between", "between.key");
        sandbox.write("list.csv", &list);
        let import = || {
            sandbox.ok(&["cert", "import", "--layout", "list", "list.csv"]);
            sandbox.json(&["host", "list", "--json"])
        };
        let first = import();
        let shown = sandbox.json(&["cert", "show", "a.example", "--json"]);
        assert_eq!(shown[0]["not_after"], "2090-01-01T00:00:00Z");
        // Each write would give its host another version.
        assert_eq!(import(), first);
        assert_eq!(import(), first);
    }
}
