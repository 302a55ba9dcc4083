//! Paths that servers read differently, to pages that are for users alone.

use super::{Entry, FILES, FRONT, IsUser, Request, Stream};

pub(super) fn entries() -> Vec<Entry> {
    let hosts = [(FRONT, "{id}"), (FILES, "page")];
    let all = hosts.into_iter().flat_map(|(host, name)| {
        PATHS.iter().flat_map(move |path| {
            let target = path.replace("PAGE", name);
            let what = format!("{path} of {host}");
            [text(&target), stream(&target)]
                .map(|request| Entry::new(host, &what, request, IsUser::No))
        })
    });
    all.collect()
}

fn text(target: &str) -> Request {
    Request::Text(format!("GET {target} HTTP/1.1\r\nHost: {{host}}\r\n\r\n"))
}

fn stream(target: &str) -> Request {
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "{host}"),
        (":path", target),
    ];
    Request::Stream(Stream {
        fields: fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        pieces: Vec::new(),
    })
}

/// Returns whether a target leads below `/private`, as readers of URLs may see it: decoded,
/// with a backslash for a slash, and without empty segments.
pub(super) fn is_private(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let mut text = path.to_owned();
    for (encoded, plain) in DECODED {
        text = text.replace(encoded, plain);
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => _ = segments.pop(),
            other => segments.push(other),
        }
    }
    segments.first() == Some(&"private")
}

const DECODED: [(&str, &str); 7] = [
    ("%2f", "/"),
    ("%2F", "/"),
    ("%2e", "."),
    ("%2E", "."),
    ("%5c", "/"),
    ("%70", "p"),
    ("\\", "/"),
];

/// Paths to a page below `/private`, for some reader.
const PATHS: [&str; 46] = [
    "/private/PAGE",
    "/private/PAGE?a=/open",
    "//private/PAGE",
    "///private//PAGE",
    "/./private/PAGE",
    "/private/./PAGE",
    "/open/../private/PAGE",
    "/open/x/../../private/PAGE",
    "/../private/PAGE",
    "/%70rivate/PAGE",
    "/%70%72%69%76%61%74%65/PAGE",
    "/%2570rivate/PAGE",
    "/private%2fPAGE",
    "/private%2FPAGE",
    "/%2fprivate/PAGE",
    "/private%252fPAGE",
    "/open/%2e%2e/private/PAGE",
    "/open/%2E./private/PAGE",
    "/open/..%2fprivate/PAGE",
    "/open%2f..%2fprivate/PAGE",
    "/open/..%5cprivate/PAGE",
    "/open/..\\private/PAGE",
    "/open\\..\\private\\PAGE",
    "\\private\\PAGE",
    "/\\private/PAGE",
    "/open/%252e%252e/private/PAGE",
    "/open/..;/private/PAGE",
    "/open;/../private/PAGE",
    "/private;a=b/PAGE",
    "/private/;/PAGE",
    "/;/private/PAGE",
    "/PRIVATE/PAGE",
    "/private./PAGE",
    "/private%20/PAGE",
    "/private%00/PAGE",
    "/private/PAGE%00.html",
    "/private/PAGE/",
    "/private/PAGE/x",
    "/private/PAGE#x",
    "/open?/../private/PAGE",
    "/open#/../private/PAGE",
    "/%c0%afprivate/PAGE",
    "/pr\u{ef}vate/../private/PAGE",
    "https://{host}/private/PAGE",
    "https://{host}//private/PAGE",
    "private/PAGE",
];
