use super::Layout::{AcmeSh, Caddy, Certbot, Cpanel, Dehydrated, Flat, Haproxy, Lego};
use super::*;

/// Shows the part that a file is: its role, the file of the other half, and its hosts.
fn part(layout: Layout, path: &str) -> Option<(Role, String, String)> {
    let part = layout.part(Path::new(path))?;
    let other = match part.role {
        Role::Chain => part.key.unwrap_or_else(|| "inside".into()),
        Role::Key => part.chain,
    };
    let (Names::OfLeaf(named) | Names::WithLeaf(named)) = part.names else {
        panic!("{:?}", part.names);
    };
    let named: Vec<_> = named.iter().map(HostPattern::as_str).collect();
    let other = other.file_name().expect("a file").to_string_lossy();
    Some((part.role, other.into_owned(), named.join(" ")))
}

/// Pairs: the folder, the files of chain and key, and the host that the names tell.
const PAIRS: [(Layout, &str, &str, &str, &str); 16] = [
    (Certbot, "live/a.example", CHAIN, KEY, "a.example"),
    (Certbot, "a.example-0002", CHAIN, KEY, "a.example"),
    (Certbot, "live/my shop", CHAIN, KEY, ""),
    (Dehydrated, "certs/_dmarc.b", CHAIN, KEY, "_dmarc.b"),
    (
        AcmeSh,
        "x/a.example",
        "fullchain.cer",
        "a.example.key",
        "a.example",
    ),
    (
        AcmeSh,
        "a.example_ecc",
        "fullchain.cer",
        "a.example.key",
        "a.example",
    ),
    (AcmeSh, "*.a.b_ecc", "fullchain.cer", "*.a.b.key", "*.a.b"),
    (
        Caddy,
        "le/a.example",
        "a.example.crt",
        "a.example.key",
        "a.example",
    ),
    (
        Caddy,
        "wildcard_.b",
        "wildcard_.b.crt",
        "wildcard_.b.key",
        "*.b",
    ),
    (
        Cpanel,
        "domain_tls/a.example",
        "combined",
        "inside",
        "a.example",
    ),
    (
        Cpanel,
        "domain_tls/*.a.example",
        "combined",
        "inside",
        "*.a.example",
    ),
    (
        Lego,
        "certificates",
        "_.a.example.crt",
        "_.a.example.key",
        "*.a.example",
    ),
    (Haproxy, "certs", "a.example.pem", "inside", "a.example"),
    (
        Haproxy,
        "certs",
        "a.example.pem.rsa",
        "inside",
        "a.example.pem",
    ),
    (Haproxy, "certs", "any", "inside", "any"),
    (Flat, "x", "a.example.crt", "a.example.key", "a.example"),
];

#[test]
fn pairs_are_found_by_the_end_of_their_paths() {
    for (layout, folder, chain, key, named) in PAIRS {
        let found = part(layout, &format!("{folder}/{chain}"));
        let wanted = (Role::Chain, key.to_owned(), named.to_owned());
        assert_eq!(found, Some(wanted), "{layout} {folder}");
        if key != "inside" {
            let found = part(layout, &format!("{folder}/{key}"));
            let wanted = (Role::Key, chain.to_owned(), named.to_owned());
            assert_eq!(found, Some(wanted), "{layout} {folder}");
        }
    }
}

#[test]
fn other_files_of_the_tools_are_no_pairs() {
    for (layout, path) in [
        (Certbot, "live/README"),
        (Certbot, "live/a.example/cert.pem"),
        (Certbot, "archive/a.example/fullchain1.pem"),
        (Certbot, "accounts/ca/directory/1/private_key.json"),
        (Dehydrated, "certs/a.example/fullchain-1700000000.pem"),
        (Dehydrated, "certs/a.example/privkey-1700000000.pem"),
        (AcmeSh, "a.example_ecc/a.example.cer"),
        (AcmeSh, "a.example/backup/fullchain.bak"),
        (AcmeSh, "ca/host/directory/account.key"),
        (Caddy, "le/a.example/a.example.json"),
        (Caddy, "pki/authorities/local/root.crt"),
        (Caddy, "acme/le/users/me/me@a.example.key"),
        (Cpanel, "domain_tls/a.example/certificates"),
        (Lego, "certificates/_.a.example.issuer.crt"),
        (Lego, "certificates/a.example.json"),
        (Lego, "archives/a.example.crt"),
        (Haproxy, "certs/a.pem.issuer"),
        (Haproxy, "certs/a.pem.ocsp"),
        (Haproxy, "certs/a.pem.sctl"),
        (Haproxy, "certs/a.pem.key"),
        (Flat, "pairs/README"),
    ] {
        assert_eq!(part(layout, path), None, "{layout} {path}");
    }
}

#[test]
fn a_flat_file_is_named_after_its_host() {
    let names = |file: &str| Layout::Flat.part(Path::new(file)).unwrap().names;
    let host = |name: &str| vec![HostPattern::parse(name).unwrap()];
    for (file, name) in [
        ("a.example.crt", "a.example"),
        ("_.a.example.crt", "*.a.example"),
        ("_wildcard.a.example.crt", "*.a.example"),
        ("wildcard_.a.example.crt", "*.a.example"),
        ("*.a.example.crt", "*.a.example"),
        ("_dmarc.a.example.crt", "_dmarc.a.example"),
        ("bücher.example.crt", "xn--bcher-kva.example"),
    ] {
        assert_eq!(names(file), Names::WithLeaf(host(name)), "{file}");
    }
    for file in ["_..crt", "a..b.crt", "127.0.0.1.crt", "a b.crt"] {
        assert_eq!(names(file), Names::OfLeaf(Vec::new()), "{file}");
    }
    assert_eq!(names("server.crt"), Names::OfLeaf(host("server")));
}

fn found(files: &[&str]) -> Vec<(Layout, usize)> {
    let files: Vec<_> = files.iter().map(PathBuf::from).collect();
    recognise(Path::new("x"), &files)
}

#[test]
fn each_layout_is_recognised_by_names() {
    let certbot = [
        "le/live/README",
        "le/live/a.example/cert.pem",
        "le/live/a.example/fullchain.pem",
        "le/live/a.example/privkey.pem",
        "le/archive/a.example/fullchain1.pem",
    ];
    let dehydrated = ["a.example/cert-1700000000.pem", "a.example/fullchain.pem"];
    let lego = [
        "c/a.example.crt",
        "c/a.example.issuer.crt",
        "c/a.example.key",
    ];
    let caddy = [
        "acme/le/users/me@a.example/me.json",
        "certificates/le/a.example/a.example.crt",
        "pki/authorities/local/root.crt",
    ];
    for (layout, files) in [
        (Layout::Certbot, &certbot[..]),
        (Layout::Dehydrated, &dehydrated),
        (Layout::AcmeSh, &["a.example_ecc/fullchain.cer"]),
        (Layout::Lego, &lego),
        (Layout::Caddy, &caddy),
        (Layout::Cpanel, &["domain_tls/a.example/combined"]),
        (Layout::Haproxy, &["c/a.example.pem"]),
        (Layout::Flat, &["c/a.example.crt", "c/a.example.key"]),
    ] {
        assert_eq!(found(files), [(layout, 1)], "{files:?}");
    }
    assert!(found(&["x/README"]).is_empty());
}

#[test]
fn doubt_is_told() {
    let both = found(&["x/a.example.crt", "x/a.example.key", "x/b.example.pem"]);
    assert_eq!(both, [(Layout::Haproxy, 1), (Layout::Flat, 1)]);
    let both = found(&["a.example/fullchain.pem", "b.example/fullchain.cer"]);
    assert_eq!(both, [(Layout::Certbot, 1), (Layout::AcmeSh, 1)]);
    // Bundles of the folder itself, which are named after hosts, are no files of certbot's.
    let both = found(&[
        "x/a.example.pem",
        "x/b.example.rsa",
        "x/chain.pem",
        "x/old/c.example.pem",
        "x/old/fullchain.pem",
    ]);
    assert_eq!(both, [(Layout::Certbot, 1), (Layout::Haproxy, 2)]);
}
