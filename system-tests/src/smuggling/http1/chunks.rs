//! Chunk sizes, extensions, ends and trailers.

use super::super::case::{Case, Expect};
use super::{SMUGGLED, post};

pub(super) fn cases() -> Vec<Case> {
    let case = |body: &str, expect| {
        let request = post("Transfer-Encoding: chunked\r\n", body);
        Case::text("chunk", body, request, expect)
    };
    let refused = REFUSED.iter().map(|body| case(body, Expect::Refused));
    let either = EITHER
        .iter()
        .map(|body| case(body, Expect::either(&["hello"])));
    let served = SERVED
        .iter()
        .map(|body| case(body, Expect::Served("hello".to_owned())));
    let sizes = SIZES.iter().map(|size| {
        let body = format!("{size}\r\nhello\r\n0\r\n\r\n");
        case(&body, Expect::Refused)
    });
    let hidden = HIDING.iter().map(|before| {
        let body = format!("{before}{SMUGGLED}");
        case(&body, Expect::Refused)
    });
    let extension = "x".repeat(100_000);
    // The borders of what follows differ for servers that end the line within it.
    let cut = format!("5;{}Xabc\r\n0\r\n\r\n{SMUGGLED}", "a".repeat((4 << 10) - 2));
    let cut = post("Transfer-Encoding: chunked\r\n", &cut);
    let cut = Case::text("long chunk", "5;a…Xabc", cut, Expect::Refused);
    let long = [
        format!("5;{extension}\r\nhello\r\n0\r\n\r\n"),
        format!("5\r\nhello\r\n0\r\nX: {extension}\r\n\r\n"),
        "1;a=b\r\nx\r\n".repeat(20_000) + "0\r\n\r\n",
        format!("5\r\nhello\r\n0\r\n{}\r\n", "X: y\r\n".repeat(20_000)),
    ]
    .map(|body| {
        let request = post("Transfer-Encoding: chunked\r\n", &body);
        Case::text(
            "long chunk",
            &body[..12],
            request,
            Expect::either(&["hello"]),
        )
    });
    refused
        .chain(either)
        .chain(served)
        .chain(sizes)
        .chain(hidden)
        .chain([cut])
        .chain(long)
        .collect()
}

const SERVED: [&str; 4] = [
    "5\r\nhello\r\n0\r\n\r\n",
    "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\r\nX-Trailer: y\r\n\r\n",
    "05\r\nhello\r\n00\r\n\r\n",
];

/// Bodies that may be taken or refused; none has two meanings that both hold.
const EITHER: [&str; 25] = [
    "0000000000000005\r\nhello\r\n0\r\n\r\n",
    "00000000000000005\r\nhello\r\n0\r\n\r\n",
    "5;a\r\nhello\r\n0\r\n\r\n",
    "5;a=b\r\nhello\r\n0\r\n\r\n",
    "5;a=\"b\"\r\nhello\r\n0\r\n\r\n",
    "5;a=\"b;c\"\r\nhello\r\n0;d\r\n\r\n",
    "5 ;a\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\t\r\nhello\r\n0\r\n\r\n",
    "5;\r\nhello\r\n0\r\n\r\n",
    "5;;;\r\nhello\r\n0\r\n\r\n",
    "5;\u{ff}\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n000000000000000000000\r\n\r\n",
    "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
    "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "5\r\nhello\r\n0\r\nHost: other.test\r\n\r\n",
    "5\r\nhello\r\n0\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
    "5\r\nhello\r\n0\r\nConnection: close\r\n\r\n",
    "5\r\nhello\r\n0 \r\n\r\n",
    "5;a=\"\r\nhello\r\n0\r\n\r\n\n",
    "5;a\u{0}\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\r\n\n",
    "5;a=\"\\\"\"\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\r\nX: y\nZ: z\r\n\r\n",
    "5\r\nhello\r\n0\r\n X: y\r\n\r\n",
];

/// Sizes that are none, or too large.
const SIZES: [&str; 24] = [
    "",
    " ",
    "-5",
    "+5",
    "0x5",
    "0X5",
    "\\x5",
    "x5",
    "5x",
    "5 5",
    "5,",
    "5.0",
    "g",
    "\"5\"",
    "\u{0}5",
    "5\u{0}",
    "\u{b}5",
    "\u{a0}5",
    "10000000000000005",
    "ffffffffffffffff5",
    "ffffffffffffffff",
    "fffffffffffffffb",
    "8000000000000005",
    "100000000000000000000000000000005",
];

const REFUSED: [&str; 17] = [
    "5\nhello\r\n0\r\n\r\n",
    "5\rhello\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "5\r\nhello\r0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "5\r\nhelloXX0\r\n\r\n",
    "5\r\nhello\r\n0\n\n",
    "5\n\rhello\n\r0\n\r\n\r",
    "5;\nhello\r\n0\r\n\r\n",
    "5;a\nhello\r\n0\r\n\r\n",
    "5;a\rhello\r\n0\r\n\r\n",
    "5;a\rb\r\nhello\r\n0\r\n\r\n",
    "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
    "5\r\r\nhello\r\n0\r\n\r\n",
    "6\r\nhello\r\n0\r\n\r\n",
    "4\r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
];

/// Beginnings that hide what follows from servers that end a line or a body elsewhere.
const HIDING: [&str; 8] = [
    "5;\n\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\n\n0\r\n\r\n",
    "0;\n\r\n\r\n",
    "2;\nxx\r\n0\r\n\r\n",
    "5\r\nhelloX\n0\r\n\r\n",
    "0\r\nX:\ny\r\n\r\n",
    "0\rX\r\n\r\n",
    "0;a\nb\r\n\r\n",
];
