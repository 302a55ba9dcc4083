use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::cli::cert::import::layout::{Found, found_in, recognise};

/// Makes a folder with empty files.
fn tree(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    folder
}

/// Reads a folder below the tree; shows its pairs and refusals, sorted, with paths of the tree.
fn read_as(tree: &TempDir, folder: &str, layout: Layout, named_only: bool) -> Vec<String> {
    let folder = Folder::open(&tree.path().join(folder)).unwrap();
    let pairs = folder.pairs(layout).unwrap();
    let pairs = pairs.map(|pair| match named_only {
        true => pair.and_then(|pair| layout.narrow(pair)),
        false => pair,
    });
    let root = format!("{}/", tree.path().display());
    let shown = pairs.map(|pair| match pair {
        Ok(pair) => shown(&pair),
        Err(refused) => format!("{} {}", refused.place.display(), refused.reason),
    });
    let mut shown: Vec<_> = shown.map(|text| text.replace(&root, "")).collect();
    shown.sort();
    shown
}

fn shown(pair: &Pair) -> String {
    let half = |half: &Half| match half {
        Half::File(path) => path.display().to_string(),
        Half::Bytes(place, bytes) => {
            let text = String::from_utf8_lossy(bytes);
            format!("{}={text}", place.display())
        }
    };
    let key = match &pair.key {
        Key::InChain => "inside".to_owned(),
        Key::Apart(key) => half(key),
        Key::InChainOr(key) => format!("inside or {}", half(key)),
    };
    let issuers = pair.issuers.as_ref().map(half).unwrap_or_default();
    let text = format!("{:?} {} {key} {issuers}", pair.names, half(&pair.chain));
    text.trim_end().to_owned()
}

const CERTBOT: [&str; 5] = [
    "le/live/README",
    "le/live/a.example-0001/cert.pem",
    "le/live/a.example-0001/fullchain.pem",
    "le/live/a.example-0001/privkey.pem",
    "le/archive/a.example-0001/fullchain1.pem",
];

#[test]
fn a_source_may_be_a_folder_too_high_or_too_low() {
    let tree = tree(&CERTBOT);
    let chain = "le/live/a.example-0001/fullchain.pem";
    let key = "le/live/a.example-0001/privkey.pem";
    let wanted = [format!("OfLeaf([\"a.example\"]) {chain} {key}")];
    for folder in ["le", "le/live", "le/live/a.example-0001"] {
        let opened = Folder::open(&tree.path().join(folder)).unwrap();
        let found = recognise(&opened.some_files().unwrap());
        assert_eq!(found, Found::One(Layout::Certbot), "{folder}");
        assert_eq!(opened.count(Layout::Certbot).unwrap(), 1);
        let read = read_as(&tree, folder, Layout::Certbot, false);
        assert_eq!(read, wanted, "{folder}");
    }
}

#[test]
fn halves_are_found_beside_each_other() {
    for (layout, files, wanted) in [
        (
            Layout::AcmeSh,
            &[
                "*.a.example_ecc/fullchain.cer",
                "*.a.example_ecc/*.a.example.key",
                "failed.example/failed.example.key",
                "ca/directory/account.key",
            ][..],
            "OfLeaf([\"*.a.example\"]) *.a.example_ecc/fullchain.cer \
             *.a.example_ecc/*.a.example.key",
        ),
        (
            Layout::Lego,
            &[
                "accounts/ca/me@a.example/keys/me@a.example.key",
                "certificates/_.a.example.crt",
                "certificates/_.a.example.issuer.crt",
                "certificates/_.a.example.json",
                "certificates/_.a.example.key",
            ],
            "OfLeaf([\"*.a.example\"]) certificates/_.a.example.crt \
             certificates/_.a.example.key certificates/_.a.example.issuer.crt",
        ),
        (
            Layout::Caddy,
            &[
                "certificates/le/a.example/a.example.crt",
                "certificates/le/a.example/a.example.json",
                "certificates/le/a.example/a.example.key",
                "pki/authorities/local/root.crt",
                "pki/authorities/local/root.key",
            ],
            "OfLeaf([\"a.example\"]) certificates/le/a.example/a.example.crt \
             certificates/le/a.example/a.example.key",
        ),
        (
            Layout::Haproxy,
            &["a.example.pem", "a.example.key", "a.example.pem.ocsp"],
            "OfLeaf([\"a.example\"]) a.example.pem inside or a.example.key",
        ),
        (
            Layout::Haproxy,
            &["a.example.pem.rsa", "a.example.pem.rsa.issuer", "deeper/b.pem"],
            "OfLeaf([\"a.example.pem\"]) a.example.pem.rsa inside a.example.pem.rsa.issuer",
        ),
        (
            Layout::Cpanel,
            &["a.example/certificates", "a.example/combined", ".pending_delete/b/combined"],
            "OfLeaf([\"a.example\"]) a.example/combined inside",
        ),
        (
            Layout::Flat,
            &["a.example.crt", "a.example.key", "README", "deeper/b.crt"],
            "WithLeaf([\"a.example\"]) a.example.crt a.example.key",
        ),
    ] {
        let tree = tree(files);
        let read = read_as(&tree, "", layout, false);
        assert_eq!(read, [wanted], "{layout}");
    }
}

#[test]
fn half_of_a_pair_is_told() {
    let tree = tree(&[
        "a.example/privkey.pem",
        "b.example/cert.pem",
        "lonely.example.key",
    ]);
    let read = read_as(&tree, "", Layout::Certbot, false);
    assert_eq!(read, ["a.example/privkey.pem fullchain.pem is missing"]);
    let read = read_as(&tree, "", Layout::Flat, false);
    assert_eq!(read, ["lonely.example.key lonely.example.crt is missing"]);
}

#[test]
fn only_named_hosts_are_left() {
    let tree = tree(&["a.example.crt", "localhost.crt", "a b.crt", "x/my shop/fullchain.pem"]);
    let read = read_as(&tree, "", Layout::Flat, true);
    let named = |name: &str| format!("Exactly([\"{name}\"]) {name}.crt {name}.key");
    assert_eq!(read[..2], [named("a.example"), named("localhost")]);
    let refused = "a b.crt the file's name is no host: ";
    assert!(read[2].starts_with(refused), "{read:?}");
    let read = read_as(&tree, "x", Layout::Certbot, true);
    let reason = "the source names no host for it";
    assert_eq!(read, [format!("x/my shop/fullchain.pem {reason}")]);
}

#[test]
fn links_are_followed_and_lead_in_no_circle() {
    let tree = tree(&["archive/fullchain1.pem", "live/a.example/README"]);
    let lineage = tree.path().join("live/a.example");
    symlink("../../archive/fullchain1.pem", lineage.join("fullchain.pem")).unwrap();
    symlink("../../archive/gone.pem", lineage.join("privkey.pem")).unwrap();
    symlink("../../live", lineage.join("again")).unwrap();
    symlink("privkey.pem", lineage.join("privkey.pem.old")).unwrap();
    let chain = "live/a.example/fullchain.pem";
    let wanted = format!("OfLeaf([\"a.example\"]) {chain} live/a.example/privkey.pem");
    let read = read_as(&tree, "live", Layout::Certbot, false);
    assert_eq!(read, [wanted]);
}

#[test]
fn the_only_folder_with_flat_pairs_is_read() {
    let tree = tree(&["certs/a.example.crt", "old/README"]);
    let narrowed = |layout| {
        let folder = Folder::open(tree.path()).unwrap();
        let files = folder.some_files().unwrap();
        let narrowed = folder.narrowed(&found_in(&files, layout));
        narrowed.map(|folder| folder.shown)
    };
    assert_eq!(narrowed(Layout::Flat), Some(tree.path().join("certs")));
    fs::write(tree.path().join("old/b.example.crt"), "").unwrap();
    assert_eq!(narrowed(Layout::Flat), None);
}

#[test]
fn documents_are_read_where_they_lie() {
    let tree = tree(&["a.example%3A1700000000", "b.example%3Alatest"]);
    let document = r#"{"fullchain_pem":"C","privkey_pem":"K"}"#;
    fs::write(tree.path().join("a.example%3Alatest"), document).unwrap();
    let read = read_as(&tree, "", Layout::AutoSsl, false);
    let place = "a.example%3Alatest";
    let wanted = format!("WithLeaf([\"a.example\"]) {place}=C {place}=K");
    assert_eq!((read.len(), &read[0]), (2, &wanted));
    let refused = "b.example%3Alatest is no JSON";
    assert!(read[1].starts_with(refused), "{read:?}");
}
