//! Lies of scripts and of FastCGI servers, in the marks of `scripts.rs`.

use super::table::{Lie, lie, more};

pub(super) const SCRIPT_LIES: [Lie; 57] = [
    more("none", "ok", "Content-Length: 2\n\nok{eof}{end}"),
    more("no length", "ok", "A: b\n\nok{end}"),
    more(
        "more than promised",
        "ok",
        "Content-Length: 2\n\nokpoisoned{end}",
    ),
    more(
        "more than promised later",
        "ok",
        "Content-Length: 2\n\nok{pause}poisoned{end}",
    ),
    more(
        "an answer of HTTP behind",
        "ok",
        "Content-Length: 2\n\nokHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned{end}",
    ),
    lie("less than promised", "Content-Length: 9\n\nok{eof}{end}"),
    lie("less than promised, no end", "Content-Length: 9\n\nok"),
    lie("less than promised, closed", "Content-Length: 9\n\nok").closing(),
    lie("no length, no end", "A: b\n\nok"),
    lie("no length, closed", "A: b\n\nok").closing(),
    more(
        "a second answer",
        "ok",
        "Content-Length: 2\n\nok{end}Content-Length: 8\n\npoisoned{end}",
    ),
    more(
        "a second answer later",
        "ok",
        "Content-Length: 2\n\nok{end}{pause}Content-Length: 8\n\npoisoned{end}",
    ),
    more("a second end", "ok", "Content-Length: 2\n\nok{end}{end}"),
    more(
        "a second end later",
        "ok",
        "Content-Length: 2\n\nok{end}{pause}{end}",
    ),
    more(
        "output behind its end",
        "ok",
        "Content-Length: 2\n\nok{eof}poisoned{end}",
    ),
    more(
        "errors behind the end",
        "ok",
        "Content-Length: 2\n\nok{end}{err}poisoned",
    ),
    more(
        "errors amid the answer",
        "ok",
        "Content-Length: 2\n{err}X: poisoned\n\n{}\no{err}poisoned{}k{end}",
    ),
    more(
        "garbage behind",
        "ok",
        "Content-Length: 2\n\nok{end}{raw}garbage\r\n\r\n",
    ),
    more(
        "garbage later",
        "ok",
        "Content-Length: 2\n\nok{end}{pause}{raw}garbage\r\n\r\n",
    ),
    more(
        "half a record later",
        "ok",
        "Content-Length: 2\n\nok{end}{pause}{raw}\u{1}\u{6}\u{0}\u{1}",
    ),
    lie(
        "a record of another request",
        "{raw}\u{1}\u{6}\u{0}\u{2}\u{0}\u{17}\u{0}\u{0}Content-Length: 2\n\nokxx{end}",
    ),
    lie(
        "a record of version 2",
        "{raw}\u{2}\u{6}\u{0}\u{1}\u{0}\u{17}\u{0}\u{0}Content-Length: 2\n\nokxx{end}",
    ),
    lie(
        "a record of input",
        "{raw}\u{1}\u{5}\u{0}\u{1}\u{0}\u{17}\u{0}\u{0}Content-Length: 2\n\nokxx{end}",
    ),
    lie(
        "a record that is cut",
        "{raw}\u{1}\u{6}\u{0}\u{1}\u{7f}\u{ff}\u{0}\u{0}Content-Length: 9\n\nok",
    )
    .closing(),
    lie(
        "an end of 7 bytes",
        "Content-Length: 9\n\nok{raw}\u{1}\u{3}\u{0}\u{1}\u{0}\u{7}\u{0}\u{0}1234567",
    ),
    lie(
        "a request that was not taken",
        "{raw}\u{1}\u{3}\u{0}\u{1}\u{0}\u{8}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{2}\u{0}\u{0}\u{0}",
    ),
    lie(
        "an answer of HTTP instead",
        "{raw}HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned",
    ),
    lie(
        "a head of HTTP",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok{end}",
    ),
    lie("an end without a head", "{end}"),
    lie("a head without an end", "Content-Length: 2\n{end}"),
    lie("an empty head", "\n\npoisoned{end}"),
    more(
        "204 with a body",
        "",
        "Status: 204\nContent-Length: 8\n\npoisoned{end}",
    ),
    more(
        "304 with a body",
        "",
        "Status: 304\nContent-Length: 8\n\npoisoned{end}",
    ),
    more(
        "205 with a body",
        "poisoned",
        "Status: 205\nContent-Length: 8\n\npoisoned{end}",
    ),
    more("HEAD with a body", "", "Content-Length: 8\n\npoisoned{end}").to("HEAD"),
    more("HEAD with a body, no length", "", "A: b\n\npoisoned{end}").to("HEAD"),
    lie(
        "two lengths",
        "Content-Length: 2\nContent-Length: 3\n\nokx{end}",
    ),
    lie("two lengths in one", "Content-Length: 2, 3\n\nokx{end}"),
    lie("length +2", "Content-Length: +2\n\nok{end}"),
    lie("length -2", "Content-Length: -2\n\nok{end}"),
    lie("length 0x2", "Content-Length: 0x2\n\nok{end}"),
    lie(
        "a huge length",
        "Content-Length: 18446744073709551618\n\nok{end}",
    ),
    more(
        "chunks of its own",
        "2\r\nok\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\n\n2\r\nok\r\n0\r\n\r\n{end}",
    ),
    more(
        "length and chunks",
        "2\r\nok\r\n0\r\n\r\n",
        "Content-Length: 12\nTransfer-Encoding: chunked\n\n2\r\nok\r\n0\r\n\r\n{end}",
    ),
    more(
        "fields of a connection",
        "ok",
        "Connection: upgrade, content-length\nUpgrade: websocket\nKeep-Alive: 1\nContent-Length: 2\n\nok{end}",
    ),
    lie(
        "a switch",
        "Status: 101\nUpgrade: websocket\n\npoisoned{end}",
    ),
    lie("a hint", "Status: 103\n\nContent-Length: 2\n\nok{end}"),
    lie("status 99", "Status: 99\nContent-Length: 2\n\nok{end}"),
    lie("status 2000", "Status: 2000\nContent-Length: 2\n\nok{end}"),
    lie("a folded field", "X: y\n Content-Length: 2\n\nok{end}"),
    lie("NUL in a value", "X: y\u{0}\nContent-Length: 2\n\nok{end}"),
    lie(
        "CR in a value",
        "X: y\rContent-Length: 8\nContent-Length: 2\n\nok{end}",
    ),
    lie(
        "a space before a colon",
        "X : y\nContent-Length: 2\n\nok{end}",
    ),
    lie(
        "a field without a colon",
        "Content-Length 8\nContent-Length: 2\n\nok{end}",
    ),
    lie("a head of 100 KB", "").then("X-Field: 0123456789012345678901234567890123456789\n", 2000),
    lie("a field for ever", "X: ").then("0123456789", 20_000),
    lie("1.2 MB of errors", "{err}").then("0123456789", 120_000),
];
