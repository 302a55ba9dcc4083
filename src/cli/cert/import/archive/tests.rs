use super::super::tar::tests::{archive, entry};
use super::*;
use crate::cli::cert::import::layout::{Found, recognise};

/// Reads the pairs of an archive; shows them and the refusals.
fn read(bytes: Vec<u8>, layout: Layout) -> Vec<String> {
    let archive = Archive::new(Path::new("x.tar"), Box::new(io::Cursor::new(bytes)));
    let pairs = archive.pairs(layout);
    let shown = pairs.map(|pair| match pair {
        Ok(pair) => shown(pair),
        Err(refused) => format!("{} {}", refused.place.display(), refused.reason),
    });
    shown.collect()
}

fn shown(pair: Pair) -> String {
    let text = |half: Half| match half {
        Half::Bytes(place, bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            format!("{}={}", place.display(), text.trim())
        }
        Half::File(path) => panic!("{}", path.display()),
    };
    let (chain, issuers) = (text(pair.chain), pair.issuers.map(text));
    let key = match pair.key {
        Key::Apart(half) | Key::InChainOr(half) => text(half),
        Key::InChain => "inside".to_owned(),
    };
    format!("{chain} {key} {}", issuers.unwrap_or_default())
        .trim_end()
        .to_owned()
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(name, b'0', content.as_bytes())
}

const TWO: &str = "-----BEGIN CERTIFICATE----- -----BEGIN CERTIFICATE-----";

#[test]
fn halves_meet_in_any_order() {
    let le = "etc/letsencrypt/live";
    let bytes = archive(&[
        file(&format!("{le}/README"), ""),
        file(&format!("{le}/a.example/privkey.pem"), "K1"),
        file(&format!("{le}/b.example/fullchain.pem"), "C2"),
        file(&format!("{le}/b.example/cert.pem"), "L2"),
        file(&format!("{le}/b.example/privkey.pem"), "K2"),
        file(&format!("{le}/a.example/fullchain.pem"), "C1"),
        file(&format!("{le}/c.example/fullchain.pem"), "C3"),
        file(&format!("{le}/d.example/privkey.pem"), "K4"),
    ]);
    let at = |name: &str| format!("x.tar: {le}/{name}");
    let pair = |host: &str, number: u8| {
        let chain = at(&format!("{host}/fullchain.pem=C{number}"));
        format!("{chain} {}", at(&format!("{host}/privkey.pem=K{number}")))
    };
    let wanted = [
        pair("b.example", 2),
        pair("a.example", 1),
        at("c.example/fullchain.pem privkey.pem is missing: the archive has ended"),
        at("d.example/privkey.pem fullchain.pem is missing: the archive has ended"),
    ];
    assert_eq!(read(bytes, Layout::Certbot), wanted);
}

#[test]
fn the_layout_is_recognised_by_what_comes_first() {
    let bytes = archive(&[
        file("certificates/le/a.example/a.example.crt", "C"),
        file("certificates/le/a.example/a.example.json", "{}"),
        file("certificates/le/a.example/a.example.key", "K"),
    ]);
    let reader = Box::new(io::Cursor::new(bytes));
    let mut archive = Archive::new(Path::new("-"), reader);
    assert_eq!(recognise(&archive.hold()), Found::One(Layout::Caddy));
    let pairs: Vec<_> = archive.pairs(Layout::Caddy).collect();
    assert_eq!(pairs.len(), 1, "what was held is read, and the end told once");
    assert!(pairs[0].is_ok());
}

#[test]
fn a_leaf_alone_waits_for_its_issuers() {
    let bytes = archive(&[
        file("c/a.example.crt", "C1"),
        file("c/a.example.key", "K1"),
        file("c/b.example.crt", TWO),
        file("c/b.example.key", "K2"),
        file("c/b.example.issuer.crt", "I2"),
        file("c/a.example.issuer.crt", "I1"),
    ]);
    let wanted = [
        format!("x.tar: c/b.example.crt={TWO} x.tar: c/b.example.key=K2"),
        "x.tar: c/a.example.crt=C1 x.tar: c/a.example.key=K1 x.tar: c/a.example.crt=I1".to_owned(),
    ];
    assert_eq!(read(bytes, Layout::Lego), wanted);
}

#[test]
fn links_and_names_that_lead_out_are_told() {
    let bytes = archive(&[
        entry("live/a.example/fullchain.pem", b'2', b""),
        entry("live/a.example/privkey.pem", b'2', b""),
        entry("live/a.example/other", b'2', b""),
        file("../b.example/fullchain.pem", "C"),
        file("live/.hidden/fullchain.pem", "C"),
    ]);
    let read = read(bytes, Layout::Certbot);
    assert_eq!(read.len(), 2, "{read:?}");
    assert!(read[0].contains("../b.example"), "{read:?}");
    assert!(read[1].contains("2 links were passed over"), "{read:?}");
}

#[test]
fn what_came_before_an_early_end_is_read() {
    let mut bytes = archive(&[
        file("a.example/combined", "A"),
        file("b.example/combined", "B"),
    ]);
    bytes.truncate(4 * 512 - 1);
    let read = read(bytes, Layout::Cpanel);
    let told = "x.tar the archive ends in the middle";
    assert_eq!(read, ["x.tar: a.example/combined=A inside", told]);
}

#[test]
fn halves_that_wait_are_bounded() {
    let mut entries: Vec<_> = (0..=MAX_WAITING)
        .map(|number| file(&format!("{number:05}.example.crt"), "C"))
        .collect();
    entries.push(file("00001.example.key", "K"));
    let read = read(archive(&entries), Layout::Flat);
    let first = "x.tar: 00000.example.crt 00000.example.key is missing: it did not come within";
    assert!(read[0].starts_with(first), "{}", read[0]);
    assert_eq!(read[1], "x.tar: 00001.example.crt=C x.tar: 00001.example.key=K");
    assert_eq!(read.len(), MAX_WAITING + 1);
}
