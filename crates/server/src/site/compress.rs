//! Content codings that a site's answers may have.

use super::rule::MediaRange;

/// Compression of answers on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compress {
    /// Media types of the answers; empty for the usual ones.
    pub(crate) types: Box<[MediaRange]>,
    /// Level of gzip as nginx counts, 1 to 9.
    pub(crate) level: u8,
    /// Whether answers of upstreams, scripts and programs are compressed.
    pub(crate) upstream: bool,
    /// Whether answers with `Set-Cookie` are compressed. Their length then tells a guesser
    /// whether text in the request repeats a secret of the page (BREACH).
    pub(crate) cookies: bool,
}

impl Compress {
    /// Codings of what is compressed here, in the order of preference.
    pub(crate) const CODINGS: [Coding; 2] = [Coding::Br, Coding::Gzip];

    /// Returns whether answers of a `Content-Type` are compressed.
    pub(crate) fn takes(&self, content_type: &str) -> bool {
        match &*self.types {
            [] => is_usual(content_type),
            types => types.iter().any(|media| media.contains(content_type)),
        }
    }
}

/// Content coding (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Coding {
    /// RFC 7932.
    Br,
    /// RFC 8878.
    Zstd,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// Returns the coding's name, as `Content-Encoding` has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the end of the name of a precompressed file.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Br => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// Returns whether a `Content-Type` is one of text, which compression makes smaller.
fn is_usual(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    let media = media.trim().to_ascii_lowercase();
    let ends = ["+json", "+xml"];
    media.starts_with("text/")
        || ends.iter().any(|end| media.ends_with(end))
        || USUAL.contains(&&*media)
}

/// Media types that are text under another name, and fonts and programs without a compression
/// of their own.
const USUAL: [&str; 9] = [
    "application/javascript",
    "application/json",
    "application/wasm",
    "application/x-javascript",
    "application/xml",
    "application/vnd.ms-fontobject",
    "font/otf",
    "font/ttf",
    "image/bmp",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compressed_unless_the_site_lists_types() {
        let mut compress = Compress {
            types: Box::default(),
            level: 4,
            upstream: false,
            cookies: false,
        };
        for (content_type, expected) in [
            ("text/html; charset=utf-8", true),
            ("Text/CSS", true),
            ("application/json", true),
            ("application/ld+json ;a=b", true),
            ("image/svg+xml", true),
            ("font/ttf", true),
            ("image/png", false),
            ("font/woff2", false),
            ("application/zip", false),
            ("text", false),
            ("", false),
        ] {
            assert_eq!(compress.takes(content_type), expected, "{content_type}");
        }
        compress.types = [MediaRange::Type("image/".into())].into();
        assert!(compress.takes("image/png"));
        assert!(!compress.takes("text/html"));
    }
}
