//! Content-Length beside Transfer-Encoding, and codings in disguise.

use super::super::case::{Case, Expect, length};
use super::{SMUGGLED, post};

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = CODINGS.iter().flat_map(|line| three(line)).collect();
    let plain = post("Transfer-Encoding: chunked\r\n", HELLO);
    let served = Expect::Served("hello".to_owned());
    cases.push(Case::text("coding", "chunked alone", plain, served));
    for value in UNKNOWN {
        let request = post(&format!("Transfer-Encoding: {value}\r\n"), HELLO);
        cases.push(Case::text("coding", value, request, Expect::Refused));
    }
    cases
}

/// Makes cases of a line: with a length that covers a hidden request (CL.TE), with a
/// length that covers one byte of a chunk with a hidden request (TE.CL), and without.
fn three(line: &str) -> [Case; 3] {
    let covered = format!("0\r\n\r\n{SMUGGLED}");
    let whole = length(&covered);
    let cl_te = post(&format!("Content-Length: {whole}\r\n{line}\r\n"), &covered);
    let size = format!("{:x}", length(SMUGGLED));
    // Bytes behind the first digit are no request.
    let chunk = format!("{size}\r\n{SMUGGLED}\r\n0\r\n\r\n");
    let te_cl = post(&format!("Content-Length: 1\r\n{line}\r\n"), &chunk);
    let alone = post(&format!("{line}\r\n"), HELLO);
    [
        Case::text("CL.TE", line, cl_te, Expect::either(&["", &covered])),
        Case::text(
            "TE.CL",
            line,
            te_cl,
            Expect::either(&[SMUGGLED, &size[..1]]),
        ),
        Case::text("TE", line, alone, Expect::either(&["hello", ""])),
    ]
}

const HELLO: &str = "5\r\nhello\r\n0\r\n\r\n";

/// Lines that one server takes for a chunked body, and another does not.
const CODINGS: [&str; 44] = [
    "Transfer-Encoding: chunked",
    "transfer-encoding: chunked",
    "TRANSFER-ENCODING: CHUNKED",
    "Transfer-Encoding: Chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding\t: chunked",
    "Transfer-Encoding:chunked",
    "Transfer-Encoding:\tchunked",
    "Transfer-Encoding:  chunked  ",
    "Transfer-Encoding: chunked\t",
    "Transfer-Encoding: \u{b}chunked",
    "Transfer-Encoding: \u{c}chunked",
    "Transfer-Encoding: chunked\u{b}",
    "Transfer-Encoding: \u{0}chunked",
    "Transfer-Encoding: chunked\u{0}",
    "Transfer-Encoding: \u{a0}chunked",
    "Transfer-Encoding: chunked\u{85}",
    "Transfer-Encoding: \u{ff}chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding:\n chunked",
    "Transfer-Encoding:\r chunked",
    "Transfer-Encoding\r\n : chunked",
    " Transfer-Encoding: chunked",
    "\tTransfer-Encoding: chunked",
    "X: y\r\n Transfer-Encoding: chunked",
    "X: y\nTransfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked",
    "X: y\r\r\nTransfer-Encoding: chunked",
    "\u{0}Transfer-Encoding: chunked",
    "Transfer-Encoding\u{0}: chunked",
    "Transfer_Encoding: chunked",
    "Transfer-Encoding_: chunked",
    "Transfer-Encod\u{ef}ng: chunked",
    "X-Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: ,chunked",
    "Transfer-Encoding: chunked,",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: \"chunked\"",
];

/// Values of a coding that is not chunked, or not alone.
const UNKNOWN: [&str; 16] = [
    "",
    "identity",
    "gzip",
    "gzip, chunked",
    "chunked, gzip",
    "chunked, identity",
    "identity, chunked",
    "xchunked",
    "chunkedx",
    "chunked x",
    "chunke",
    "chunked/1.1",
    "cow",
    "chunked\u{b}, chunked",
    "deflate",
    "chunked; chunked",
];
