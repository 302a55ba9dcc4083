//! Content type of a file, by its name.

use http::HeaderValue;

/// Returns the media type of the last extension, with charset UTF-8 for text.
pub(crate) fn content_type(name: &str) -> HeaderValue {
    let file = name.rsplit('/').next().unwrap_or(name);
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    let kind = mime_guess::from_ext(extension).first_raw();
    let kind = match kind.unwrap_or("application/octet-stream") {
        // The only name that is not obsolete (RFC 9239, section 6).
        "application/javascript" => "text/javascript",
        kind => kind,
    };
    let known = TEXT
        .iter()
        .find(|text| text.split(';').next() == Some(kind));
    match known {
        // Answers copy a constant without counting references.
        Some(text) => HeaderValue::from_static(text),
        None if kind.starts_with("text/") => {
            HeaderValue::try_from(format!("{kind}; charset=utf-8"))
                .expect("the table holds visible ASCII")
        }
        None => HeaderValue::from_static(kind),
    }
}

/// Usual texts, and types besides `text/` for which browsers use the charset parameter.
const TEXT: [&str; 12] = [
    "text/html; charset=utf-8",
    "text/css; charset=utf-8",
    "text/javascript; charset=utf-8",
    "text/plain; charset=utf-8",
    "text/xml; charset=utf-8",
    "text/markdown; charset=utf-8",
    "text/csv; charset=utf-8",
    "text/calendar; charset=utf-8",
    "text/vtt; charset=utf-8",
    "text/cache-manifest; charset=utf-8",
    "application/xhtml+xml; charset=utf-8",
    "application/xml; charset=utf-8",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_decides() {
        for (name, kind) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("data.json", "application/json"),
            ("module.wasm", "application/wasm"),
            ("logo.svg", "image/svg+xml"),
            ("photo.jpeg", "image/jpeg"),
            ("font.woff2", "font/woff2"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("page.xhtml", "application/xhtml+xml; charset=utf-8"),
            ("graph.ttl", "text/turtle; charset=utf-8"),
            ("archive.tar.gz", "application/gzip"),
            ("clip.mp4", "video/mp4"),
            ("LICENSE", "application/octet-stream"),
            ("v1.2/LICENSE", "application/octet-stream"),
            ("name.", "application/octet-stream"),
            ("x.unknown-extension", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), kind, "{name}");
        }
    }
}
