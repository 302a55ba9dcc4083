//! Content type of a file, by its name.

use http::HeaderValue;

/// Returns the media type of the last extension, with charset UTF-8 for text.
pub(crate) fn content_type(name: &str) -> HeaderValue {
    let file = name.rsplit('/').next().unwrap_or(name);
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    let kind = mime_guess::from_ext(extension).first_raw();
    let kind = kind.unwrap_or("application/octet-stream");
    // `text/javascript` is the only name that is not obsolete (RFC 9239,
    // section 6).
    let kind = kind.replace("application/javascript", "text/javascript");
    let text = kind.starts_with("text/") || TEXT.contains(&kind.as_str());
    let parameter = if text { "; charset=utf-8" } else { "" };
    HeaderValue::from_str(&format!("{kind}{parameter}")).expect("the table holds visible ASCII")
}

/// Types besides `text/` for which browsers use the charset parameter.
const TEXT: [&str; 2] = ["application/xhtml+xml", "application/xml"];

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
