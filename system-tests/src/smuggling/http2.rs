//! Cases of HTTP/2: what HTTP/1.1 behind it would read otherwise.

use super::case::{Case, Expect, Piece, Stream};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::stream(
            "a body",
            with(&[], &["hello"]),
            Expect::Served("hello".to_owned()),
        ),
        Case::stream("no body", with(&[], &[]), Expect::Served(String::new())),
        Case::stream("pieces", with(&[], &["he", "", "llo"]), hello()),
        cookies(),
    ];
    cases.extend(lengths());
    cases.extend(
        SERVED
            .iter()
            .map(|field| Case::stream(&told(field), with(&[*field], &["hello"]), hello())),
    );
    cases.extend(EITHER.iter().map(|field| {
        let expect = Expect::either(&["hello"]);
        Case::stream(&told(field), with(&[*field], &["hello"]), expect)
    }));
    cases.extend(REFUSED.iter().map(|field| {
        let stream = with(&[*field], &["hello"]);
        Case::stream(&told(field), stream, Expect::Refused)
    }));
    cases.extend(PSEUDO.iter().map(|fields| {
        let stream = Stream {
            fields: owned(fields),
            pieces: vec![Piece::Data("hello".to_owned())],
        };
        let what: Vec<_> = fields.iter().map(told).collect();
        Case::stream(&what.join(" "), stream, Expect::Refused)
    }));
    cases.extend(PATHS.iter().map(|path| {
        let mut stream = with(&[], &["hello"]);
        stream.fields[3].1 = (*path).to_owned();
        Case::stream(&format!(":path {path}"), stream, Expect::either(&["hello"]))
    }));
    cases.extend(TRAILERS.iter().map(|field| {
        let mut stream = with(&[], &["hello"]);
        stream.pieces.push(Piece::Trailers(owned(&[*field])));
        let what = format!("trailer {}", told(field));
        Case::stream(&what, stream, Expect::either(&["hello"]))
    }));
    cases
}

/// Lengths that DATA does not have.
fn lengths() -> Vec<Case> {
    let wrong = [
        "4",
        "6",
        "+5",
        "5, 6",
        "5x",
        "-5",
        "",
        " ",
        "0x5",
        "18446744073709551621",
    ];
    let mut cases: Vec<_> = wrong
        .iter()
        .map(|length| {
            let stream = with(&[("content-length", length)], &["hello"]);
            let what = format!("content-length {length} for hello");
            Case::stream(&what, stream, Expect::Refused)
        })
        .collect();
    let right = with(&[("content-length", "5")], &["hello"]);
    cases.push(Case::stream("content-length 5", right, hello()));
    let twice = with(
        &[("content-length", "5"), ("content-length", "6")],
        &["hello"],
    );
    cases.push(Case::stream("two lengths", twice, Expect::Refused));
    let twice = with(
        &[("content-length", "5"), ("content-length", "5")],
        &["hello"],
    );
    cases.push(Case::stream(
        "a length twice",
        twice,
        Expect::either(&["hello"]),
    ));
    let bare = with(&[("content-length", "5")], &[]);
    cases.push(Case::stream("a length without DATA", bare, Expect::Refused));
    // A request hidden in DATA that the length does not cover. A head that promises nothing
    // may have gone ahead, whole: the stream ends with an error when its DATA come.
    let hidden = "helloGET /smuggled/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n";
    for (length, data, expect) in [
        ("0", "hello", Expect::either(&[""])),
        ("0", hidden, Expect::either(&[""])),
        ("5", hidden, Expect::Refused),
    ] {
        let stream = with(&[("content-length", length)], &[data]);
        let what = format!("content-length {length} for {} bytes", data.len());
        cases.push(Case::stream(&what, stream, expect));
    }
    let chunks = "0\r\n\r\nGET /smuggled/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n";
    let stream = with(&[], &[chunks]);
    cases.push(Case::stream(
        "DATA like chunks",
        stream,
        Expect::Served(chunks.to_owned()),
    ));
    cases
}

/// Crumbs of a cookie become one field (RFC 9113, section 8.2.3).
fn cookies() -> Case {
    let crumbs = [
        ("cookie", "a=1"),
        ("x", "y"),
        ("cookie", "b=2"),
        ("cookie", "c=3"),
    ];
    Case::stream("split cookie", with(&crumbs, &["hello"]), hello())
        .demand("cookie", "a=1; b=2; c=3")
}

fn hello() -> Expect {
    Expect::Served("hello".to_owned())
}

/// Makes a POST with these fields and DATA.
fn with(more: &[(&str, &str)], data: &[&str]) -> Stream {
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "{host}"),
        (":path", "/case/{id}"),
    ];
    Stream {
        fields: owned(&[&fields, more].concat()),
        pieces: data
            .iter()
            .map(|&data| Piece::Data(data.to_owned()))
            .collect(),
    }
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let fields = fields.iter();
    fields
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn told((name, value): &(&str, &str)) -> String {
    format!("{name} {value}")
}

/// Fields that are stripped, replaced or passed on.
const SERVED: [(&str, &str); 17] = [
    ("x-value", "y"),
    ("x-value", ""),
    ("te", "trailers"),
    ("host", "{host}"),
    ("x-forwarded-for", "6.6.6.6"),
    ("x_forwarded_for", "6.6.6.6"),
    ("x-forwarded_for", "6.6.6.6"),
    ("x-real-ip", "6.6.6.6"),
    ("forwarded", "for=6.6.6.6"),
    ("content_length", "0"),
    ("transfer_encoding", "chunked"),
    ("x-forwarded-host", "6.6.6.6"),
    ("proxy-authorization", "6.6.6.6"),
    ("proxy", "6.6.6.6"),
    ("http_proxy", "6.6.6.6"),
    ("script-filename", "/etc/passwd"),
    ("script_filename", "6.6.6.6"),
];

const EITHER: [(&str, &str); 11] = [
    ("expect", "100-continue"),
    ("expect", "x"),
    ("http2-settings", "AAMAAABkAAQAAP__"),
    ("trailer", "content-length"),
    ("x-value", "a\u{80}b"),
    ("x-value", "a\u{ff}b"),
    ("x-value", "a\tb"),
    ("x-value", " a"),
    ("x-value", "a "),
    ("priority", "u=1"),
    ("content-encoding", "gzip"),
];

const REFUSED: [(&str, &str); 47] = [
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "identity"),
    ("transfer-encoding", ""),
    ("transfer-encoding", "\tchunked"),
    ("Transfer-Encoding", "chunked"),
    ("connection", "close"),
    ("connection", "keep-alive"),
    ("connection", "content-length"),
    ("connection", "host"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("upgrade", "h2c"),
    ("upgrade", "websocket"),
    ("te", "chunked"),
    ("te", "trailers, chunked"),
    ("host", "other.test"),
    ("host", "{host}, other.test"),
    ("host", "{host}:x"),
    ("host", ""),
    ("Host", "{host}"),
    ("X-Value", "y"),
    ("x-value", "a\r\nx-injected: b"),
    ("x-value", "a\nx-injected: b"),
    ("x-value", "a\rx-injected: b"),
    (
        "x-value",
        "a\r\n\r\nGET /smuggled/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    ),
    ("x-value", "a\r\ntransfer-encoding: chunked"),
    ("x-value", "a\u{0}b"),
    ("x-value", "\r\n"),
    ("x-value", "\n"),
    ("x-value", "a\u{7f}b"),
    ("x-value", "a\u{1}b"),
    ("x-value: y\r\nx-injected", "z"),
    ("x-value:", "y"),
    ("x-value ", "y"),
    (" x-value", "y"),
    ("x value", "y"),
    ("x\u{0}value", "y"),
    ("x\nvalue", "y"),
    ("x\rvalue", "y"),
    ("transfer-encoding: chunked\r\nx", "y"),
    ("transfer-encoding ", "chunked"),
    ("transfer-encoding:", "chunked"),
    ("x\u{ff}value", "y"),
    ("x(value", "y"),
    ("", "y"),
    (":path", "/smuggled/{id}"),
    (":status", "200"),
];

/// Whole field blocks whose pseudo-fields are wrong.
const PSEUDO: [&[(&str, &str)]; 30] = [
    &[
        METHOD,
        SCHEME,
        HOST,
        PATH,
        ("x", "y"),
        (":authority", "{host}"),
    ],
    &[("x", "y"), METHOD, SCHEME, HOST, PATH],
    &[METHOD, METHOD, SCHEME, HOST, PATH],
    &[METHOD, SCHEME, HOST, PATH, PATH],
    &[METHOD, SCHEME, SCHEME, HOST, PATH],
    &[METHOD, SCHEME, HOST, HOST, PATH],
    &[METHOD, SCHEME, HOST, (":authority", "other.test"), PATH],
    &[METHOD, SCHEME, HOST],
    &[METHOD, HOST, PATH],
    &[SCHEME, HOST, PATH],
    &[METHOD, SCHEME, PATH],
    &[METHOD, SCHEME, (":authority", ""), PATH],
    &[METHOD, SCHEME, (":authority", "other.test"), PATH],
    &[
        METHOD,
        SCHEME,
        (":authority", "other.test"),
        PATH,
        ("host", "{host}"),
    ],
    &[METHOD, SCHEME, (":authority", "{host}@other.test"), PATH],
    &[METHOD, SCHEME, (":authority", "other.test@{host}"), PATH],
    &[
        METHOD,
        SCHEME,
        (":authority", "{host}\r\nx-injected: y"),
        PATH,
    ],
    &[METHOD, SCHEME, (":authority", "{host} other.test"), PATH],
    &[METHOD, SCHEME, (":authority", "{host}/x"), PATH],
    &[METHOD, (":scheme", ""), HOST, PATH],
    &[METHOD, (":scheme", "ftp"), HOST, PATH],
    &[METHOD, (":scheme", "https://other.test/?"), HOST, PATH],
    &[METHOD, (":scheme", "https\r\nx-injected: y"), HOST, PATH],
    &[(":method", ""), SCHEME, HOST, PATH],
    &[
        (":method", "POST /smuggled/{id} HTTP/1.1\r\nx: "),
        SCHEME,
        HOST,
        PATH,
    ],
    &[(":method", "POST\r\n"), SCHEME, HOST, PATH],
    &[(":method", "PO ST"), SCHEME, HOST, PATH],
    &[(":method", "CONNECT"), SCHEME, HOST, PATH],
    &[(":method", "CONNECT"), HOST],
    &[METHOD, (":protocol", "x"), SCHEME, HOST, PATH],
];

const METHOD: (&str, &str) = (":method", "POST");
const SCHEME: (&str, &str) = (":scheme", "https");
const HOST: (&str, &str) = (":authority", "{host}");
const PATH: (&str, &str) = (":path", "/case/{id}");

/// Paths that are no request targets, or several things at once. Either they are
/// refused, or the upstream sees one request.
const PATHS: [&str; 24] = [
    "",
    "case/{id}",
    "*",
    "?case/{id}",
    "https://{host}/case/{id}",
    "https://other.test/case/{id}",
    "//other.test/case/{id}",
    "/case/{id} HTTP/1.1",
    "/case/{id} HTTP/1.1\r\nx-injected: y",
    "/case/{id} HTTP/1.1\r\nHost: {host}\r\n\r\nGET /smuggled/{id}",
    "/case/{id}\r\nx-injected: y",
    "/case/{id}\nx-injected: y",
    "/case/{id}\u{0}",
    "/case/{id}\t",
    "/case/{id} x",
    "/case/{id}#fragment",
    "/case/{id}?a b",
    "/case/{id}?a#b",
    "/case/{id}\u{7f}",
    "/case/{id}\u{ff}",
    "/case/{id}\\..\\x",
    "/case/{id}/%2e%2e%2f",
    "/case/{id}/../x?{id}",
    "/case/{id}%0d%0ax-injected:%20y",
];

/// Trailers that must not become fields of the head.
const TRAILERS: [(&str, &str); 13] = [
    ("x-trailer", "y"),
    ("content-length", "0"),
    ("transfer-encoding", "chunked"),
    ("host", "other.test"),
    ("connection", "close"),
    ("x-forwarded-for", "6.6.6.6"),
    (":path", "/smuggled/{id}"),
    (":status", "200"),
    ("X-Trailer", "y"),
    (
        "x-trailer",
        "a\r\n\r\nGET /smuggled/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    ),
    ("x-trailer", "a\u{0}b"),
    ("x trailer", "y"),
    ("", "y"),
];
