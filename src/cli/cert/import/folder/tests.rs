use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::cli::cert::import::layout::recognise;

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
fn read_as(tree: &TempDir, folder: &str, layout: Layout) -> Vec<String> {
    let pairs = pairs(&tree.path().join(folder), layout, layout.depth()).unwrap();
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
    let key = pair.key.as_ref().map(Half::place);
    let key = key.unwrap_or(Path::new("inside")).display();
    let (Names::OfLeaf(named) | Names::WithLeaf(named)) = &pair.names else {
        panic!("{:?}", pair.names);
    };
    let named: Vec<_> = named.iter().map(ToString::to_string).collect();
    format!(
        "{}: {} {key}",
        named.join(" "),
        pair.chain.place().display()
    )
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
    let wanted = [format!("a.example: {chain} {key}")];
    for folder in ["le", "le/live", "le/live/a.example-0001"] {
        let at = tree.path().join(folder);
        let found = recognise(&at, &some_files(&at).unwrap());
        assert_eq!(found, [(Layout::Certbot, 1)], "{folder}");
        let read = read_as(&tree, folder, Layout::Certbot);
        assert_eq!(read, wanted, "{folder}");
    }
}

const ACMESH: [&str; 4] = [
    "*.a.example_ecc/fullchain.cer",
    "*.a.example_ecc/*.a.example.key",
    "failed.example/failed.example.key",
    "ca/directory/account.key",
];
const LEGO: [&str; 5] = [
    "accounts/ca/me@a.example/keys/me@a.example.key",
    "certificates/_.a.example.crt",
    "certificates/_.a.example.issuer.crt",
    "certificates/_.a.example.json",
    "certificates/_.a.example.key",
];
const CADDY: [&str; 6] = [
    "acme/le/users/default/default.key",
    "certificates/le/a.example/a.example.crt",
    "certificates/le/a.example/a.example.json",
    "certificates/le/a.example/a.example.key",
    "pki/authorities/local/root.crt",
    "pki/authorities/local/root.key",
];
const CPANEL: [&str; 3] = [
    "a.b/certificates",
    "a.b/combined",
    ".pending_delete/b/combined",
];
/// Files of a folder, and the one pair among them.
const PAIRS: [(Layout, &[&str], &str); 8] = [
    (
        Layout::AcmeSh,
        &ACMESH,
        "*.a.example: *.a.example_ecc/fullchain.cer *.a.example_ecc/*.a.example.key",
    ),
    (
        Layout::Lego,
        &LEGO,
        "*.a.example: certificates/_.a.example.crt certificates/_.a.example.key",
    ),
    (
        Layout::Caddy,
        &CADDY,
        "a.example: certificates/le/a.example/a.example.crt \
         certificates/le/a.example/a.example.key",
    ),
    (
        Layout::Haproxy,
        &["a.example.pem", "a.example.key", "a.example.pem.ocsp"],
        "a.example: a.example.pem a.example.key",
    ),
    (
        Layout::Haproxy,
        &["a.example.pem", "a.example.pem.key"],
        "a.example: a.example.pem a.example.pem.key",
    ),
    (
        Layout::Haproxy,
        &["a.rsa", "deeper/b.pem"],
        "a: a.rsa inside",
    ),
    (Layout::Cpanel, &CPANEL, "a.b: a.b/combined inside"),
    (
        Layout::Flat,
        &["a.example.crt", "a.example.key", "README", "deeper/b.crt"],
        "a.example: a.example.crt a.example.key",
    ),
];

#[test]
fn halves_are_found_beside_each_other() {
    for (layout, files, wanted) in PAIRS {
        let tree = tree(files);
        assert_eq!(read_as(&tree, "", layout), [wanted], "{layout}");
    }
}

#[test]
fn half_of_a_pair_is_told() {
    let tree = tree(&["a.example/privkey.pem", "b.example/cert.pem", "lonely.key"]);
    let read = read_as(&tree, "", Layout::Certbot);
    assert_eq!(read, ["a.example/privkey.pem fullchain.pem is missing"]);
    let read = read_as(&tree, "", Layout::Flat);
    assert_eq!(read, ["lonely.key lonely.crt is missing"]);
}

#[test]
fn links_are_followed_and_lead_in_no_circle() {
    let tree = tree(&["archive/fullchain1.pem", "live/a.example/README"]);
    let lineage = tree.path().join("live/a.example");
    symlink(
        "../../archive/fullchain1.pem",
        lineage.join("fullchain.pem"),
    )
    .unwrap();
    symlink("../../archive/gone.pem", lineage.join("privkey.pem")).unwrap();
    symlink("../../live", lineage.join("again")).unwrap();
    let (chain, key) = ("live/a.example/fullchain.pem", "live/a.example/privkey.pem");
    let read = read_as(&tree, "live", Layout::Certbot);
    assert_eq!(read, [format!("a.example: {chain} {key}")]);
}

#[test]
fn a_link_that_leads_nowhere_is_told_where_it_may_be_a_folder() {
    let tree = tree(&["live/a.example/fullchain.pem", "pairs/b.example.crt"]);
    let link = |name: &str, to: &str| symlink(to, tree.path().join(name)).unwrap();
    link("live/c.example", "/nowhere/c.example");
    link("live/a.example/self", "self");
    link("pairs/deeper", "/nowhere/pairs");
    let pair = "a.example: live/a.example/fullchain.pem live/a.example/privkey.pem";
    let wanted = [
        pair,
        "live/a.example/self Too many levels of symbolic links (os error 40)",
        "live/c.example No such file or directory (os error 2)",
    ];
    assert_eq!(read_as(&tree, "live", Layout::Certbot), wanted);
    // No folder below this one is read.
    let read = read_as(&tree, "pairs", Layout::Flat);
    assert_eq!(read, ["b.example: pairs/b.example.crt pairs/b.example.key"]);
}
