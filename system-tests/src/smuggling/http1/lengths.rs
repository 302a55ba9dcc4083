//! Content-Length in other forms than digits, and several of them.

use super::super::case::{Case, Expect};
use super::post;

pub(super) fn cases() -> Vec<Case> {
    let case = |lines: &&str, expect| {
        let request = post(&format!("{lines}\r\n"), "hello");
        Case::text("length", lines, request, expect)
    };
    let refused = REFUSED.iter().map(|lines| case(lines, Expect::Refused));
    let either = EITHER
        .iter()
        .map(|lines| case(lines, Expect::either(&["hello"])));
    let plain = case(&"Content-Length: 5", Expect::Served("hello".to_owned()));
    let spaced = case(
        &"Content-Length: \t 5 \t",
        Expect::Served("hello".to_owned()),
    );
    let empty = Case::text(
        "length",
        "none",
        post("", ""),
        Expect::Served(String::new()),
    );
    let ignored = UNDERSCORED
        .iter()
        .map(|line| Case::text("length", line, post(line, ""), Expect::either(&[""])));
    refused
        .chain(either)
        .chain(ignored)
        .chain([plain, spaced, empty])
        .collect()
}

/// Lengths that no server may take for 5, or for anything else.
const REFUSED: [&str; 42] = [
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: -0",
    "Content-Length: 0x5",
    "Content-Length: 5.0",
    "Content-Length: 5e0",
    "Content-Length: 5 5",
    "Content-Length: 5;",
    "Content-Length: 5x",
    "Content-Length: x5",
    "Content-Length: \"5\"",
    "Content-Length: 5\u{0}",
    "Content-Length: \u{0}5",
    "Content-Length: 5\u{b}",
    "Content-Length: \u{b}5",
    "Content-Length: 5\u{c}",
    "Content-Length: \u{a0}5",
    "Content-Length: 5_0",
    "Content-Length: 1,5",
    "Content-Length: 5, 6",
    "Content-Length: 6, 5",
    "Content-Length: 5,",
    "Content-Length: ,5",
    "Content-Length: 0, 5",
    "Content-Length: ",
    "Content-Length:",
    "Content-Length: 18446744073709551621",
    "Content-Length: 4294967301x",
    "Content-Length: 340282366920938463463374607431768211461",
    "Content-Length: \u{b2}",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 6\r\nContent-Length: 5",
    "Content-Length: 5\r\nContent-Length: 0",
    "Content-Length: 0\r\nContent-Length: 5",
    "Content-Length: 5\r\nContent-Length: +5",
    "Content-Length: 5\r\ncontent-length: 05x",
    "Content-Length : 5",
    "Content-Length\t: 5",
    "Content-Length:\n 5",
    "Content-Length: 5\r\n 5",
    "Content-Length: \r\n 5",
    " Content-Length: 5",
];

/// Lengths that may be taken for 5 or be refused.
const EITHER: [&str; 7] = [
    "Content-Length: 05",
    "Content-Length: 0000000000000000000000000000005",
    "Content-Length: 5, 5",
    "Content-Length: 5,5",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5\r\ncontent-length: 5",
    "CONTENT-LENGTH: 5",
];

/// Fields that CGI takes for the length.
const UNDERSCORED: [&str; 3] = [
    "Content_Length: 5\r\n",
    "CONTENT_LENGTH: 5\r\n",
    "Content-Length_: 5\r\n",
];
