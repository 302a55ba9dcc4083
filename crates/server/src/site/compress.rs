//! Content codings that a site's answers may have.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::rule::MediaRange;

/// Compression of answers on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compress {
    /// Media types of the answers; none for the usual ones.
    pub(crate) types: Option<Box<[MediaRange]>>,
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

    /// Returns whether answers of the type that these fields give are compressed.
    pub(crate) fn takes(&self, fields: &HeaderMap) -> bool {
        let kind = fields.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| match &self.types {
            None => is_usual(kind),
            Some(types) => types.iter().any(|media| media.contains(kind)),
        })
    }
}

/// Content coding (RFC 9110, section 8.4.1). The order is that of the weights in
/// `coding::accept`.
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

/// Returns whether a `Content-Type` is one of those that are compressed unless a site lists
/// types: of text, and of other content that compression makes smaller.
fn is_usual(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    let media = media.trim().to_ascii_lowercase();
    let ends = ["+json", "+xml"];
    media.starts_with("text/")
        || ends.iter().any(|end| media.ends_with(end))
        || USUAL.contains(&&*media)
}

/// Media types that are text under another name, and fonts, programs and images without a
/// compression of their own.
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
    use http::HeaderValue;

    use super::*;

    #[test]
    fn text_is_compressed_unless_the_site_lists_types() {
        let mut compress = Compress {
            types: None,
            level: 4,
            upstream: false,
            cookies: false,
        };
        let takes = |compress: &Compress, content_type| {
            let content_type = HeaderValue::from_static(content_type);
            compress.takes(&HeaderMap::from_iter([(CONTENT_TYPE, content_type)]))
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
            assert_eq!(takes(&compress, content_type), expected, "{content_type}");
        }
        compress.types = Some([MediaRange::Type("image/".into())].into());
        assert!(takes(&compress, "image/png"));
        assert!(!takes(&compress, "text/html"));
        assert!(!compress.takes(&HeaderMap::new()));
    }
}
