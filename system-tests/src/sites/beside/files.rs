//! Rows of files: index, error pages and compression; and the files of all rows.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Row, write_old};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: 11,
        site: r#"{"root": "FOLDER"}"#,
        asked: &[
            ("GET", "/", &[]),
            ("HEAD", "/text.html", &[]),
            ("GET", "/text.html?a=b", &[]),
            ("GET", "/style.css", &[]),
            ("GET", "/text.html", &[("range", "bytes=3-7")]),
        ],
        refused: &[("GET", "/missing", &[]), ("POST", "/text.html", &[])],
        ..Row::NONE
    },
    Row {
        number: 13,
        nginx: "index start.htm index.html;",
        site: r#"{"root": "FOLDER", "index": ["start.htm", "index.html"]}"#,
        asked: &[
            ("GET", "/", &[]),
            ("GET", "/sub/", &[]),
            ("HEAD", "/sub/", &[]),
            ("GET", "/sub/index.html", &[]),
        ],
        ..Row::NONE
    },
    Row {
        number: 16,
        nginx: "gzip on; gzip_comp_level 4; gzip_min_length 512; gzip_types text/css; gzip_vary on;",
        site: r#"{
            "root": "FOLDER",
            "compress": {"types": ["text/html", "text/css"], "level": 4}
        }"#,
        asked: &[
            ("GET", "/text.html", GZIP),
            ("GET", "/style.css", GZIP),
            ("GET", "/note.txt", GZIP),
            ("GET", "/text.html", &[]),
            ("GET", "/text.html", &[("accept-encoding", "gzip;q=0")]),
            (
                "GET",
                "/text.html",
                &[("accept-encoding", "deflate, gzip;q=0.5")],
            ),
        ],
        fields: CODED,
        ..Row::NONE
    },
    Row {
        number: 17,
        nginx: "gzip_static on; gzip_vary on;",
        site: r#"{"root": "FOLDER", "precompressed": ["gzip"]}"#,
        asked: &[
            ("GET", "/text.html", GZIP),
            ("HEAD", "/text.html", GZIP),
            ("GET", "/text.html", &[]),
            ("GET", "/text.html", &[("accept-encoding", "br")]),
        ],
        fields: CODED,
        ..Row::NONE
    },
    Row {
        number: 38,
        nginx: "error_page 403 /errors/403.html; error_page 404 /errors/404.html;\n\
                location /closed { return 403; }\n\
                location /app {\n\
                    proxy_set_header Host $host; proxy_intercept_errors on;\n\
                    proxy_pass http://127.0.0.1:UPSTREAM;\n\
                }",
        site: r#"{
            "root": "FOLDER", "errors": "FOLDER/errors",
            "paths": [
                {"path": "/closed", "status": 403},
                {
                    "path": "/app", "upstream": "http://127.0.0.1:UPSTREAM",
                    "upstream_errors": true
                }
            ]
        }"#,
        asked: &[
            ("GET", "/missing", &[]),
            ("HEAD", "/missing", &[]),
            ("GET", "/closed", &[]),
            ("GET", "/text.html", &[]),
            ("GET", "/app/failing", &[]),
            ("GET", "/app/x", &[]),
        ],
        ..Row::NONE
    },
];

/// Writes the files that the rows ask for, with a copy of one.
pub(super) fn write(folder: &Path) -> Result<()> {
    let text = "A paragraph that is repeated.\n".repeat(200);
    for (name, content) in [
        ("index.html", "home"),
        ("sub/index.html", "below"),
        ("sub/start.htm", "start"),
        ("errors/403.html", "closed"),
        ("errors/404.html", "no such page"),
        ("text.html", &*text),
        ("style.css", &*text),
        ("note.txt", &*text),
        ("more/docs/page.html", "of docs"),
        ("form/page.html", "a form"),
        ("only/page.html", "to read"),
        ("in/page.html", "for some"),
        ("out/page.html", "for others"),
        ("app/index.php", "<?php"),
        ("app/post.php", "<?php"),
        ("app/xmlrpc.php", "<?php"),
        ("app/style.css", &*text),
    ] {
        write_old(&folder.join(name), content.as_bytes())?;
    }
    let mut copy = GzEncoder::new(Vec::new(), Compression::best());
    copy.write_all(text.as_bytes())?;
    write_old(&folder.join("text.html.gz"), &copy.finish()?)
}

const GZIP: &[(&str, &str)] = &[("accept-encoding", "gzip")];
const CODED: &[&str] = &["content-type", "content-encoding", "vary"];
