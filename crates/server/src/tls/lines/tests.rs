use super::*;

/// Passes pieces of `cut` bytes. Returns the bytes of heads and bodies up to each
/// end of a head, and whether a bare LF came.
fn pass(bytes: &[u8], cut: usize, bodies: &[Framing]) -> (Vec<usize>, bool) {
    let (mut parser, mut ends, mut done) = (LineParser::default(), Vec::new(), 0);
    for piece in bytes.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            let passed = parser.pass(rest, || bodies.get(ends.len() - 1).copied());
            let passed = match passed {
                Passed::All(passed) | Passed::Head(passed, _) => passed,
                Passed::Refused(_) => return (ends, true),
            };
            assert!(passed > 0);
            (rest, done) = (&rest[passed..], done + passed);
            if parser == LineParser::Behind {
                ends.push(done);
            }
        }
    }
    (ends, false)
}

#[test]
fn heads_end_however_the_bytes_are_cut() {
    let (get, post) = ("GET / HTTP/1.1\r\nA: b\r\n\r\n", "POST / HTTP/1.1\r\n\r\n");
    let chunks = "3;x=y\r\n\n\n\n\r\n0A\r\n0123456\n\r\n\r\n0\r\nT: u\r\n\r\n";
    let bytes = format!("\r\n{get}{post}a\n\r\n\r\n{post}{chunks}{get}{post}0\r\n\r\n{get}");
    let bodies = [
        Framing::Length(0),
        Framing::Length(6),
        Framing::Chunked,
        Framing::Length(0),
        Framing::Chunked,
    ];
    let mut expected = vec![2 + get.len()];
    for more in [
        post.len(),
        6 + post.len(),
        chunks.len() + get.len(),
        post.len(),
        5 + get.len(),
    ] {
        expected.push(expected.last().unwrap() + more);
    }
    for cut in 1..bytes.len() {
        assert_eq!(
            pass(bytes.as_bytes(), cut, &bodies),
            (expected.clone(), false),
            "{cut}"
        );
    }
}

#[test]
fn a_bare_lf_is_found_however_the_bytes_are_cut() {
    let chunked = "POST / HTTP/1.1\r\n\r\n1\r\nx\r\n0\r\n";
    for bytes in [
        "\nGET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n\n",
        "GET / HTTP/1.1\r\nA: b\r\r\n\n",
        &format!("{chunked}T: u\n\r\n"),
        &format!("{chunked}\n"),
        &format!("{chunked}\r\nGET / HTTP/1.1\n\r\n"),
    ] {
        for cut in 1..=bytes.len() {
            let (_, is_bare) = pass(bytes.as_bytes(), cut, &[Framing::Chunked]);
            assert!(is_bare, "{bytes:?} {cut}");
        }
    }
}

#[test]
fn a_line_before_a_chunk_is_bounded() {
    let chunk = |line: &str| format!("POST / HTTP/1.1\r\n\r\n{line}\r\nx\r\n0\r\n\r\n");
    for (line, refused) in [
        ("0000000000000001", false),
        ("00000000000000001", true),
        ("fffffffffffffffff", true),
        (&format!("1{}", " ".repeat(4093)), false),
        (&format!("1{}", " ".repeat(4096)), true),
        (&format!("1;{}", "a".repeat(4096)), true),
    ] {
        let bytes = chunk(line);
        for cut in [1, 7, bytes.len()] {
            let (_, is_refused) = pass(bytes.as_bytes(), cut, &[Framing::Chunked]);
            assert_eq!(is_refused, refused, "{line} {cut}");
        }
    }
}

#[test]
fn a_length_is_noted_however_the_bytes_are_cut() {
    for (fields, expected) in [
        ("Content-Length: 3\r\n", true),
        ("A: b\r\ncONTENT-lENGTH:3\r\nB: c\r\n", true),
        ("", false),
        ("Content-Lengths: 3\r\nX-Content-Length: 3\r\n", false),
        ("A: Content-Length:\r\nContent-Type: b\r\n", false),
    ] {
        let bytes = format!("POST / HTTP/1.1\r\n{fields}\r\n");
        for cut in 1..=bytes.len() {
            let mut parser = LineParser::default();
            let passed = bytes.as_bytes().chunks(cut).map(|piece| {
                let passed = parser.pass(piece, || None);
                assert!(!matches!(passed, Passed::Refused(_)));
                passed
            });
            let Some(Passed::Head(_, has_length)) = passed.last() else {
                panic!("no head: {bytes:?}");
            };
            assert_eq!(has_length, expected, "{fields:?} {cut}");
        }
    }
}
