//! Requests whose `Authorization` is a user's, is none, or looks like one.

use super::super::case::{LOCKED, Piece};
use super::{ANN, EVE, Entry, GUESTS, IsUser, OTHER_ANN, Request, Stream};

pub(super) fn entries() -> Vec<Entry> {
    let texts = [
        (IsUser::Yes, &YES[..]),
        (IsUser::No, &NO),
        (IsUser::Perhaps, &PERHAPS),
    ];
    let texts = texts
        .into_iter()
        .flat_map(|(is_user, lines)| lines.iter().map(move |lines| text(lines, is_user)));
    let streams = [(IsUser::Yes, &STREAMS_YES[..]), (IsUser::No, &STREAMS_NO)];
    let streams = streams.into_iter().flat_map(|(is_user, fields)| {
        fields
            .iter()
            .map(move |fields| stream(LOCKED, LOCKED, fields, is_user))
    });
    let elsewhere = ["x", ANN, EVE, OTHER_ANN].map(|pair| {
        let value = format!("Basic {pair}");
        // A host of another tenant, over a connection whose certificate covers it. With the
        // password of its user, it may answer.
        let is_user = if pair == ANN {
            IsUser::Perhaps
        } else {
            IsUser::No
        };
        stream(GUESTS, LOCKED, &[("authorization", &value)], is_user)
    });
    texts
        .chain(streams)
        .chain(elsewhere)
        .chain(long())
        .chain(hidden())
        .collect()
}

/// Makes a POST of HTTP/1.1 with these fields, `|` between two.
fn text(lines: &str, is_user: IsUser) -> Entry {
    let request = post(
        &format!(
            "{}\r\nContent-Length: 0\r\n",
            filled(lines).replace('|', "\r\n")
        ),
        "",
    );
    Entry::new(LOCKED, lines, request, is_user)
}

fn post(fields: &str, body: &str) -> Request {
    Request::Text(format!(
        "POST /case/{{id}} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n{body}"
    ))
}

/// Makes a POST of HTTP/2 to a host over the connection of another one.
fn stream(via: &'static str, to: &str, fields: &[(&str, &str)], is_user: IsUser) -> Entry {
    let request = Request::Stream(Stream {
        fields: stream_fields(to, fields),
        pieces: vec![Piece::Data("hello".to_owned())],
    });
    let what = format!("HTTP/2 to {to} {fields:?}");
    Entry::new(via, &what, request, is_user)
}

fn stream_fields(to: &str, fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let pseudo = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", to),
        (":path", "/case/{id}"),
    ];
    let all = pseudo.iter().chain(fields);
    all.map(|(name, value)| ((*name).to_owned(), filled(value)))
        .collect()
}

/// Pairs that are too long, in a field that fits and in one that does not.
fn long() -> [Entry; 2] {
    [3000, 200_000].map(|length| {
        let value = format!("Authorization: Basic {ANN}{}\r\n", "A".repeat(length));
        let what = format!("{length} bytes behind a pair");
        Entry::new(LOCKED, &what, post(&value, ""), IsUser::No)
    })
}

/// Requests without a password, with one where none belongs: in a hidden request, in
/// trailers, in the target.
fn hidden() -> Vec<Entry> {
    let hidden = format!(
        "GET /smuggled/{{id}} HTTP/1.1\r\nHost: {{host}}\r\nAuthorization: Basic {ANN}\r\n\r\n"
    );
    let length = super::super::case::length(&hidden);
    let size = format!("{length:x}");
    let trailer = format!("0\r\nAuthorization: Basic {ANN}\r\n\r\n");
    let mut entries: Vec<_> = [
        (format!("Content-Length: {length}\r\n"), hidden.clone()),
        (
            format!("Content-Length: {length}\r\nExpect: 100-continue\r\n"),
            hidden.clone(),
        ),
        (
            CHUNKED.to_owned(),
            format!("{size}\r\n{hidden}\r\n0\r\n\r\n"),
        ),
        (CHUNKED.to_owned(), trailer.clone()),
        (
            format!("{CHUNKED}Trailer: Authorization\r\n"),
            format!("5\r\nhello\r\n{trailer}"),
        ),
    ]
    .iter()
    .map(|(fields, body)| {
        let what = format!("hidden behind {fields}{body:.20}");
        Entry::new(LOCKED, &what, post(fields, body), IsUser::No)
    })
    .collect();
    let target = "POST https://ann:secret@{host}/case/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n";
    entries.push(Entry::new(
        LOCKED,
        "in the target",
        Request::Text(target.to_owned()),
        IsUser::No,
    ));
    let trailers = Stream {
        fields: stream_fields(LOCKED, &[]),
        pieces: vec![
            Piece::Data(hidden),
            Piece::Trailers(vec![("authorization".to_owned(), format!("Basic {ANN}"))]),
        ],
    };
    entries.push(Entry::new(
        LOCKED,
        "HTTP/2 trailers",
        Request::Stream(trailers),
        IsUser::No,
    ));
    entries
}

/// Puts pairs into a text.
fn filled(text: &str) -> String {
    text.replace("ANN", ANN)
        .replace("EVE", EVE)
        .replace("OTHER", OTHER_ANN)
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

const YES: [&str; 6] = [
    "Authorization: Basic ANN",
    "authorization: basic ANN",
    "AUTHORIZATION: BASIC ANN",
    "Authorization:Basic ANN",
    "Authorization: \tBasic ANN \t",
    "Authorization: Basic   ANN",
];

/// The right pair in forms that differ from server to server.
const PERHAPS: [&str; 6] = [
    "X: y\nAuthorization: Basic ANN",
    "X: y\r\n Authorization: Basic ANN",
    "Authorization: Basic\r\n ANN",
    "Authorization: Basic\tANN",
    "Connection: Authorization|Authorization: Basic ANN",
    "Authorization : Basic ANN",
];

const NO: [&str; 56] = [
    "X: y",
    "Authorization:",
    "Authorization: Basic",
    "Authorization: Basic =",
    "Authorization: Basic ====",
    "Authorization: Bearer ANN",
    "Authorization: Digest ANN",
    "Authorization: BasicANN",
    "Authorization: Basic,ANN",
    "Authorization: Basic: ANN",
    "Authorization: ANN",
    // `:`, `:secret`, `ann:`, `ann`, `ann:wrong`.
    "Authorization: Basic Og==",
    "Authorization: Basic OnNlY3JldA==",
    "Authorization: Basic YW5uOg==",
    "Authorization: Basic YW5u",
    "Authorization: Basic YW5uOndyb25n",
    // `ann:secret` and NUL, NUL in the name, CRLF at the end, another user's name behind LF.
    "Authorization: Basic YW5uOnNlY3JldAA=",
    "Authorization: Basic YW5uADpzZWNyZXQ=",
    "Authorization: Basic YW5uOnNlY3JldA0K",
    "Authorization: Basic ZXZlCmFubjpzZWNyZXQ=",
    // ` ann:secret`, `ann :secret`, `ANN:secret`, `ann:SECRET`, `ann:secret `.
    "Authorization: Basic IGFubjpzZWNyZXQ=",
    "Authorization: Basic YW5uIDpzZWNyZXQ=",
    "Authorization: Basic QU5OOnNlY3JldA==",
    "Authorization: Basic YW5uOlNFQ1JFVA==",
    "Authorization: Basic YW5uOnNlY3JldCA=",
    // A name in Latin-1.
    "Authorization: Basic 5DpzZWNyZXQ=",
    "Authorization: Basic YW5u OnNlY3JldA==",
    "Authorization: Basic YW5u\tOnNlY3JldA==",
    "Authorization: Basic YW5uOnNlY3JldA",
    "Authorization: Basic YW5uOnNlY3JldA=",
    "Authorization: Basic YW5uOnNlY3JldA===",
    "Authorization: Basic YW5uOnNlY3JldB==",
    "Authorization: Basic ANN,",
    "Authorization: Basic ANN, Basic ANN",
    "Authorization: Basic ANN;",
    "Authorization: Basic \"ANN\"",
    "Authorization: Basic ANN\u{0}",
    "Authorization: Basic \u{0}ANN",
    "Authorization: Basic ANN\u{ff}",
    "Authorization: Basic\u{a0}ANN",
    "Authorization: Basic\u{b}ANN",
    "Authorization: Basic ANN|Authorization: Basic ANN",
    "Authorization: Basic ANN|authorization: Basic EVE",
    "Authorization: Basic EVE|Authorization: Basic ANN",
    "Authorization:|Authorization: Basic ANN",
    "Authorization: Basic EVE",
    "Authorization: Basic OTHER",
    "Proxy-Authorization: Basic ANN",
    "X-Authorization: Basic ANN",
    "Authorization_: Basic ANN",
    "Remote-User: ann",
    "REMOTE_USER: ann",
    "X-Remote-User: ann|X-Forwarded-User: ann|Auth-Type: Basic",
    "Cookie: Authorization=Basic ANN",
    "X-Original-URL: /open|X-Rewrite-URL: /open",
    "X-HTTP-Method-Override: OPTIONS",
];

const STREAMS_YES: [&[(&str, &str)]; 2] = [
    &[("authorization", "Basic ANN")],
    &[("authorization", "bAsIc ANN")],
];

const STREAMS_NO: [&[(&str, &str)]; 15] = [
    &[],
    &[("authorization", "")],
    &[("authorization", "Basic EVE")],
    &[("authorization", "Basic OTHER")],
    &[
        ("authorization", "Basic ANN"),
        ("authorization", "Basic ANN"),
    ],
    &[
        ("authorization", "Basic ANN"),
        ("authorization", "Basic EVE"),
    ],
    &[("Authorization", "Basic ANN")],
    &[("authorization ", "Basic ANN")],
    &[("authorization", "Basic ANN\u{0}")],
    &[("authorization", "Basic ANN\r\nx: y")],
    &[("x", "y\r\nauthorization: Basic ANN")],
    &[("x\r\nauthorization", "Basic ANN")],
    &[(":authorization", "Basic ANN")],
    &[("proxy-authorization", "Basic ANN")],
    &[("remote_user", "ann"), ("remote-user", "ann")],
];
