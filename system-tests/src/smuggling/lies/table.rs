//! Lies, with what of each a client may believe.

/// Answer of an upstream. Each character is one byte; `{pause}` is a pause.
pub(in crate::smuggling) struct Lie {
    pub(super) name: &'static str,
    pub(super) method: &'static str,
    text: &'static str,
    /// Text that is sent many times behind it.
    again: Option<(&'static str, usize)>,
    pub(in crate::smuggling) closes: bool,
    /// Body that a client may get as a whole answer, if any.
    pub(super) honest: Option<&'static str>,
}

impl Lie {
    pub(in crate::smuggling) fn bytes(&self) -> String {
        let (again, times) = self.again.unwrap_or_default();
        format!("{}{}", self.text, again.repeat(times))
    }

    /// Returns whether bytes come after a complete answer.
    pub(super) fn comes_later(&self) -> bool {
        self.honest.is_some() && self.text.contains("{pause}")
    }

    pub(super) const fn closing(self) -> Self {
        Self {
            closes: true,
            ..self
        }
    }

    pub(super) const fn to(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub(super) const fn then(self, again: &'static str, times: usize) -> Self {
        Self {
            again: Some((again, times)),
            ..self
        }
    }
}

/// Lie of which nothing may be believed.
pub(super) const fn lie(name: &'static str, text: &'static str) -> Lie {
    Lie {
        name,
        method: "GET",
        text,
        again: None,
        closes: false,
        honest: None,
    }
}

/// Answer with this body that is true, and more.
pub(super) const fn more(name: &'static str, honest: &'static str, text: &'static str) -> Lie {
    Lie {
        honest: Some(honest),
        ..lie(name, text)
    }
}

pub(super) const LIES: [Lie; 62] = [
    more("none", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    more("two answers", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("a second answer later", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok{pause}HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("two chunked answers", "ok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("an answer after close", "ok", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("garbage behind", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\u{0}\u{1}garbage\r\n\r\n"),
    more("garbage later", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok{pause}garbage\r\n\r\n"),
    more("an empty line behind", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n"),
    more("204 with a body", "", "HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("204 with an answer", "", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("204 with chunks", "", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n8\r\npoisoned\r\n0\r\n\r\n"),
    more("304 with a body", "", "HTTP/1.1 304 Not Modified\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("HEAD with a body", "", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned").to("HEAD"),
    more("HEAD with chunks", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\npoisoned\r\n0\r\n\r\n").to("HEAD"),
    more("HEAD with an answer", "", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned").to("HEAD"),
    lie("too short a body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").closing(),
    lie("a body that stops", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"),
    lie("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokx"),
    lie("two lengths in one", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nokx"),
    lie("length +2", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok"),
    lie("length -2", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok"),
    lie("length 0x2", "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok"),
    lie("length 2x", "HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok"),
    lie("a huge length", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\nok"),
    more("length and chunks", "ok", "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    lie("coding xchunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    lie("coding chunked, identity", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    lie("coding with a length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\nContent-Length: 2\r\n\r\nok"),
    more("HTTP/1.0 with chunks", "", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").to("HEAD"),
    lie("chunk size of 17 digits", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n"),
    lie("chunk size -2", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n"),
    lie("chunk size 0x2", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n"),
    lie("chunk size g", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ng\r\nok\r\n0\r\n\r\n"),
    lie("a chunk without its end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokxx0\r\n\r\n"),
    lie("close in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok").closing(),
    lie("close before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").closing(),
    lie("close in the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n").closing(),
    lie("close before the head", "").closing(),
    lie("close in the head", "HTTP/1.1 200 OK\r\nContent-").closing(),
    lie("close behind a field", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n").closing(),
    lie("a switch that nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\npoisoned"),
    lie("a switch with an answer", "HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    more("two hints", "ok", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    lie("20 hints", "").then("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 20),
    lie("hints for ever", "").then("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{pause}", 40),
    lie("100 for ever", "").then("HTTP/1.1 100 Continue\r\n\r\n", 5000),
    lie("status 99", "HTTP/1.1 99 x\r\nContent-Length: 2\r\n\r\nok"),
    lie("status 2000", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok"),
    lie("status -200", "HTTP/1.1 -200 OK\r\nContent-Length: 2\r\n\r\nok"),
    lie("status 000", "HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nok"),
    lie("another protocol", "ICY 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    lie("HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    lie("HTTP/0.9", "poisoned").closing(),
    lie("a folded field", "HTTP/1.1 200 OK\r\nX: y\r\n Content-Length: 2\r\n\r\nok").closing(),
    lie("NUL in a value", "HTTP/1.1 200 OK\r\nX: y\u{0}\r\nContent-Length: 2\r\n\r\nok"),
    lie("CR in a value", "HTTP/1.1 200 OK\r\nX: y\rContent-Length: 8\r\nContent-Length: 2\r\n\r\nok"),
    lie("a space before a colon", "HTTP/1.1 200 OK\r\nX : y\r\nContent-Length : 8\r\nContent-Length: 2\r\n\r\nok"),
    lie("a field without a colon", "HTTP/1.1 200 OK\r\nContent-Length 8\r\nContent-Length: 2\r\n\r\nok"),
    lie("a head of 100 KB", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n").then("X-Field: 0123456789012345678901234567890123456789\r\n", 2000),
    lie("a field for ever", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ").then("0123456789", 20_000),
    lie("a preface of HTTP/2", "\u{0}\u{0}\u{0}\u{4}\u{0}\u{0}\u{0}\u{0}\u{0}"),
    lie("an alert of TLS", "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{28}").closing(),
];
