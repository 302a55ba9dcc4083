//! Rows of upstreams, of hosts under other names, and of plain HTTP.

use super::{LENGTH, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: 1,
        // Of the site of row 11.
        site: r#"{"as": "row11.beside.test"}"#,
        asked: &[
            ("GET", "/", &[]),
            ("GET", "/text.html", &[("range", "bytes=3-7")]),
        ],
        refused: &[("GET", "/missing", &[])],
        ..Row::NONE
    },
    Row {
        number: 3,
        site: r#"{"root": "FOLDER", "http": "serve"}"#,
        asked: &[
            ("GET", "/", &[]),
            ("HEAD", "/text.html", &[]),
            ("GET", "/style.css", &[]),
        ],
        refused: &[("GET", "/missing", &[]), ("POST", "/text.html", &[])],
        is_plain: true,
        ..Row::NONE
    },
    Row {
        number: 21,
        nginx: "proxy_set_header Host $host;\n\
                location / { proxy_pass http://127.0.0.1:UPSTREAM; }\n\
                location /api/ { proxy_pass http://127.0.0.1:UPSTREAM/; }",
        site: r#"{
            "upstream": "http://127.0.0.1:UPSTREAM",
            "paths": [{"path": "/api", "upstream": "http://127.0.0.1:UPSTREAM", "strip": true}]
        }"#,
        asked: &[
            ("GET", "/x?y=%20", &[]),
            ("POST", "/x", &[(LENGTH, "500")]),
            ("DELETE", "/x", &[]),
            ("GET", "/api/x?y=1", &[]),
        ],
        ..Row::NONE
    },
    Row {
        number: 22,
        // `balance` counts which server answers.
        nginx: "location /server/any { proxy_pass http://least; }\n\
                location /server/client { proxy_pass http://by_client; }\n\
                location /server/cookie { proxy_pass http://by_cookie; }",
        site: r#"{"paths": [
            {"path": "/server/any", "upstream": {
                "servers": ["http://127.0.0.1:UPSTREAM", "http://127.0.0.2:UPSTREAM"]
            }},
            {"path": "/server/client", "upstream": {
                "servers": ["http://127.0.0.1:UPSTREAM", "http://127.0.0.2:UPSTREAM"],
                "balance": "client"
            }},
            {"path": "/server/cookie", "upstream": {
                "servers": ["http://127.0.0.1:UPSTREAM", "http://127.0.0.2:UPSTREAM"],
                "balance": {"cookie": "server"}
            }}
        ]}"#,
        ..Row::NONE
    },
    Row {
        number: 23,
        // A server that refuses connections is passed over. `check` has tests of its own.
        nginx: "proxy_set_header Host $host; location / { proxy_pass http://half_dead; }",
        site: r#"{"upstream": {"servers": [
            "http://127.0.0.1:DEAD", "http://127.0.0.1:UPSTREAM"
        ]}}"#,
        asked: SEVERAL,
        ..Row::NONE
    },
    Row {
        number: 24,
        nginx: "proxy_set_header X-Name $host; proxy_set_header X-Who $remote_addr;\n\
                proxy_set_header X-Fixed \"a {b}\";\n\
                location / { proxy_pass http://127.0.0.1:UPSTREAM; }",
        site: r#"{
            "upstream": "http://127.0.0.1:UPSTREAM",
            "request": {"set": {"X-Name": "{host}", "X-Who": "{client}", "X-Fixed": "a {{b}}"}}
        }"#,
        asked: &[
            ("GET", "/fields", &[]),
            (
                "GET",
                "/fields",
                &[("x-name", "another"), ("x-who", "nobody")],
            ),
        ],
        ..Row::NONE
    },
    Row {
        number: 25,
        nginx: "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
                proxy_set_header X-Forwarded-Proto $scheme;\n\
                proxy_set_header X-Forwarded-Host $host;\n\
                location / { proxy_pass http://127.0.0.1:UPSTREAM; }",
        site: r#"{"upstream": "http://127.0.0.1:UPSTREAM"}"#,
        asked: &[("GET", "/forwarded", &[])],
        ..Row::NONE
    },
    Row {
        number: 27,
        nginx: "proxy_read_timeout 1s; location / { proxy_pass http://127.0.0.1:SILENT; }",
        site: r#"{"upstream": {
            "servers": ["http://127.0.0.1:SILENT"], "timeouts": {"first_byte": "1s"}
        }}"#,
        refused: &[("GET", "/", &[])],
        ..Row::NONE
    },
    Row {
        number: 32,
        nginx: "client_max_body_size 1k; proxy_set_header Host $host;\n\
                location / { proxy_pass http://127.0.0.1:UPSTREAM; }",
        site: r#"{"upstream": "http://127.0.0.1:UPSTREAM", "body_limit": "1KiB"}"#,
        asked: &[("POST", "/x", &[(LENGTH, "1024")])],
        refused: &[("POST", "/x", &[(LENGTH, "1025")])],
        ..Row::NONE
    },
];

/// More requests than servers, so that each is asked.
const SEVERAL: &[super::Asked] = &[
    ("GET", "/1", &[]),
    ("GET", "/2", &[]),
    ("GET", "/3", &[]),
    ("GET", "/4", &[]),
];
