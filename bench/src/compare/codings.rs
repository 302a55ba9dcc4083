//! Rows of texts that clients get in gzip, and what servers are given for them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::rows::{Case, Content, Goal, Hosts, Loaded, Measure, Row, Texts, figure};
use super::table::{BASE, SEKISHO, nginx, ratio};

/// The copy is small enough to be kept in memory by sekisho; nginx opens and sends its file.
pub(crate) const PRECOMPRESSED: Row = Row {
    id: "precompressed",
    title: "100 KB of text on one of 100 open connections, from a copy in gzip, some 30 KB, that lies \
            beside it; sekisho keeps it in memory",
    hosts: Hosts::Exactly(100),
    measure: Measure::Requests {
        connections: 100,
        each: 500,
    },
    cases: &[
        of_nginx("nginx, gzip_static", Texts::Precompressed),
        of_sekisho("sekisho, precompressed", Texts::Precompressed),
    ],
    goals: &[ratio(1.0, None), SIZE],
    ..BASE
};

/// nginx compresses each answer; sekisho keeps the compressed one.
pub(crate) const COMPRESS: Row = Row {
    id: "compress",
    title: "20 KB of text on one of 100 open connections, compressed by gzip, level 1",
    hosts: Hosts::Exactly(100),
    measure: Measure::Requests {
        connections: 100,
        each: 500,
    },
    cases: &[
        of_nginx("nginx, gzip", Texts::Compressed),
        of_sekisho("sekisho, compress", Texts::Compressed),
    ],
    goals: &[ratio(1.0, None), SIZE],
    ..BASE
};

/// Both compress each answer of an upstream.
pub(crate) const COMPRESS_PROXIED: Row = Row {
    id: "compress-proxied",
    title: "20 KB of an upstream's text on one of 100 open connections, compressed by gzip, level 1",
    cases: &[
        of_nginx("nginx, gzip of an upstream", Texts::Proxied),
        of_sekisho("sekisho, compress of an upstream", Texts::Proxied),
    ],
    goals: &[SIZE],
    ..COMPRESS
};

/// An answer that is longer than nginx's would have cost less to compress.
const SIZE: Goal = Goal {
    figure: figure::ANSWER,
    ..ratio(1.05, None)
};

/// Field of the measured requests.
pub(crate) const FIELD: &str = "Accept-Encoding: gzip";

/// Returns the path of a text.
pub(crate) fn path(texts: Texts) -> &'static str {
    match texts {
        Texts::Precompressed => "/precompressed.html",
        Texts::Compressed | Texts::Proxied => TEXT,
    }
}

/// Adds what a text needs to the site of a root or an upstream.
pub(crate) fn add_coding(site: &mut serde_json::Value, texts: Texts) {
    match texts {
        Texts::Precompressed => site["precompressed"] = serde_json::json!(["gzip"]),
        Texts::Compressed | Texts::Proxied => {
            let keys = serde_json::json!({ "level": 1, "upstream": true });
            site["compress"] = keys;
        }
    }
}

/// Returns nginx's directives for a text. It compresses `text/html` without being told.
pub(crate) fn nginx_directives(texts: Texts) -> &'static str {
    match texts {
        Texts::Precompressed => "    gzip_static on;\n    gzip_vary on;\n",
        Texts::Compressed => "    gzip on;\n    gzip_comp_level 1;\n    gzip_vary on;\n",
        Texts::Proxied => {
            "    gzip on;\n    gzip_comp_level 1;\n    gzip_vary on;\n    gzip_proxied any;\n"
        }
    }
}

/// Writes the texts, and the copy of one, into the folder of a site.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let texts = [(Texts::Precompressed, 100_000), (Texts::Compressed, LENGTH)];
    for (kind, bytes) in texts {
        let file = folder.join(&path(kind)[1..]);
        fs::write(&file, text(bytes))?;
        if kind == Texts::Precompressed {
            let copy = File::create(file.with_extension("html.gz"))?;
            let mut copy = GzEncoder::new(copy, Compression::best());
            copy.write_all(text(bytes).as_bytes())?;
            copy.finish()?;
        }
    }
    Ok(())
}

/// Returns a text of words in no order, the same each time.
pub(crate) fn text(bytes: usize) -> String {
    let (mut number, mut text) = (1, String::with_capacity(bytes + 16));
    while text.len() < bytes {
        // A generator of Lehmer: its numbers have 31 bits.
        number = number * 48_271 % 0x7fff_ffff;
        let word = number % WORDS;
        let tag = if word.is_multiple_of(16) {
            "</p>\n<p>"
        } else {
            " "
        };
        text.push_str(&format!("{:x}{tag}", word * 2_654_435_761 % 0xfff_ffff));
    }
    text.truncate(bytes);
    text
}

const fn of_nginx(label: &'static str, texts: Texts) -> Case {
    Case {
        content: Content::Texts(texts),
        ..nginx(label, Loaded::Hundred)
    }
}

const fn of_sekisho(label: &'static str, texts: Texts) -> Case {
    Case {
        label,
        content: Content::Texts(texts),
        ..SEKISHO
    }
}

/// Path of the text that servers compress.
pub(crate) const TEXT: &str = "/compressed.html";
/// Bytes of that text.
pub(crate) const LENGTH: usize = 20_000;
/// Words of the texts.
const WORDS: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_shrinks_as_texts_do() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let length = |name| fs::metadata(folder.path().join(name)).unwrap().len();
        assert_eq!(length("precompressed.html"), 100_000);
        assert_eq!(length("compressed.html"), 20_000);
        let copy = length("precompressed.html.gz");
        assert!((15_000..40_000).contains(&copy), "{copy}");
    }
}
