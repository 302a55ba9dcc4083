use super::super::tar::tests::{archive, entry};
use super::*;

/// Reads the pairs of an archive; shows them and the refusals.
fn read(bytes: Vec<u8>, layout: Layout) -> Vec<String> {
    let pairs = pairs(Path::new("x.tar"), std::io::Cursor::new(bytes), layout);
    let shown = pairs.map(|pair| match pair {
        Ok(pair) => {
            let key = pair.key.map(text);
            let key = key.unwrap_or_else(|| "inside".to_owned());
            format!("{} {key}", text(pair.chain))
        }
        Err(refused) => format!("{} {}", refused.place.display(), refused.reason),
    });
    shown.collect()
}

fn text(half: Half) -> String {
    match half {
        Half::Bytes(place, bytes) => {
            format!("{}={}", place.display(), String::from_utf8_lossy(&bytes))
        }
        other => panic!("{}", other.place().display()),
    }
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(name, b'0', content.as_bytes())
}

#[test]
fn halves_meet_in_any_order() {
    let le = "etc/letsencrypt/live";
    let bytes = archive(&[
        file(&format!("{le}/README"), ""),
        file(&format!("{le}/a.example/privkey.pem"), "K1"),
        file(&format!("{le}/b.example/fullchain.pem"), "C0"),
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
        at("c.example/fullchain.pem privkey.pem is missing"),
        at("d.example/privkey.pem fullchain.pem is missing"),
    ];
    assert_eq!(read(bytes, Layout::Certbot), wanted);
    // A key that acme.sh left is no lost pair.
    let bytes = archive(&[file("a.example/a.example.key", "K")]);
    assert!(read(bytes, Layout::AcmeSh).is_empty());
}

#[test]
fn links_and_names_that_lead_out_are_told() {
    let bytes = archive(&[
        entry("live/a.example/fullchain.pem", b'2', b""),
        entry("live/a.example/privkey.pem", b'2', b""),
        entry("live/a.example/other", b'2', b""),
        file("../b.example/fullchain.pem", "C"),
        file("/c.example/fullchain.pem", "C"),
        file("live/.hidden/fullchain.pem", "C"),
    ]);
    let read = read(bytes, Layout::Certbot);
    assert_eq!(read.len(), 3, "{read:?}");
    assert!(read[0].contains("../b.example"), "{read:?}");
    assert!(read[1].contains("is no name inside"), "{read:?}");
    assert!(read[2].contains("2 links were passed over"), "{read:?}");
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
    let entries: Vec<_> = (0..=MAX_WAITING)
        .map(|number| file(&format!("{number:05}.example.crt"), "C"))
        .collect();
    let read = read(archive(&entries), Layout::Flat);
    assert!(read[0].contains("tar --sort=name"), "{}", read[0]);
    assert_eq!(read.len(), MAX_WAITING + 2);
}

#[test]
fn paths_of_halves_that_wait_are_bounded() {
    let entries: Vec<_> = (0..3000)
        .flat_map(|number| {
            let name = format!("{}/{number}.crt\0", "x".repeat(4000));
            [entry("long", b'L', name.as_bytes()), file("cut", "")]
        })
        .collect();
    let read = read(archive(&entries), Layout::Flat);
    assert!(read[0].contains("tar --sort=name"), "{}", read[0]);
    assert!((2700..2900).contains(&read.len()), "{}", read.len());
}
