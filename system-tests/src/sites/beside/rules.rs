//! Rows of rules: where they lead, whom they take, and which fields they set.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    Row {
        number: 4,
        nginx: "location = /old { return 308 https://b.example/new; }\n\
                location /blog { rewrite ^/blog(/.*)?$ https://b.example/archive$1 permanent; }",
        site: r#"{
            "root": "FOLDER", "redirects": {"/old": "https://b.example/new"},
            "paths": [{
                "path": "/blog", "redirect": "https://b.example/archive{rest}", "status": 301
            }]
        }"#,
        asked: &[("GET", "/text.html", &[])],
        moved: &[
            ("GET", "/old", &[]),
            ("GET", "/old?q=1", &[]),
            ("POST", "/old", &[]),
            ("GET", "/blog", &[]),
            ("GET", "/blog/19/x?p=1", &[]),
        ],
        refused: &[("GET", "/old/", &[])],
        fields: &["location"],
        ..Row::NONE
    },
    Row {
        number: 5,
        nginx: "location /gone { return 410 \"Gone for good.\"; } location /no { return 403; }",
        site: r#"{
            "root": "FOLDER",
            "paths": [
                {"path": "/gone", "status": 410, "text": "Gone for good."},
                {"path": "/no", "status": 403}
            ]
        }"#,
        asked: &[
            ("GET", "/gone", &[]),
            ("GET", "/gone/below?a=b", &[]),
            ("HEAD", "/gone", &[]),
            ("POST", "/gone", &[]),
        ],
        refused: &[("GET", "/no", &[])],
        ..Row::NONE
    },
    Row {
        number: 7,
        nginx: "location /docs { root FOLDER/more; } location /docs/no { return 410 \"no docs\"; }",
        site: r#"{
            "root": "FOLDER",
            "paths": [
                {"path": "/docs", "root": "FOLDER/more"},
                {"path": "/docs/no", "status": 410, "text": "no docs"}
            ]
        }"#,
        asked: &[
            ("GET", "/docs/page.html", &[]),
            ("GET", "/docs/no/page", &[]),
            ("GET", "/text.html", &[]),
        ],
        refused: &[("GET", "/docs/text.html", &[])],
        ..Row::NONE
    },
    Row {
        number: 8,
        nginx: "location = /exact { return 410 \"exact\"; } location /exact { return 404; }",
        site: r#"{
            "root": "FOLDER",
            "paths": [
                {"path": "= /exact", "status": 410, "text": "exact"},
                {"path": "/exact", "status": 404}
            ]
        }"#,
        asked: &[("GET", "/exact", &[]), ("GET", "/exact?a=b", &[])],
        refused: &[("GET", "/exact/", &[]), ("GET", "/exact/below", &[])],
        ..Row::NONE
    },
    Row {
        number: 10,
        nginx: "location /form { if ($request_method = POST) { return 410 \"posted\"; } }\n\
                location /only { if ($request_method !~ ^(GET|HEAD)$) { return 405; } }",
        site: r#"{
            "root": "FOLDER",
            "paths": [
                {"path": "/form", "methods": ["POST"], "status": 410, "text": "posted"},
                {"path": "/only", "methods": ["GET"], "root": "FOLDER"},
                {"path": "/only", "status": 405}
            ]
        }"#,
        asked: &[
            ("POST", "/form/x", &[]),
            ("GET", "/form/page.html", &[]),
            ("GET", "/only/page.html", &[]),
            ("HEAD", "/only/page.html", &[]),
        ],
        refused: &[
            ("POST", "/only/page.html", &[]),
            ("DELETE", "/only/page.html", &[]),
        ],
        ..Row::NONE
    },
    Row {
        number: 12,
        nginx: "location /alias/ { alias FOLDER/sub/; }",
        site: r#"{
            "root": "FOLDER",
            "paths": [{"path": "/alias", "root": "FOLDER/sub", "strip": true}]
        }"#,
        asked: &[
            ("GET", "/alias/start.htm", &[]),
            ("GET", "/alias/", &[]),
            ("GET", "/sub/start.htm", &[]),
        ],
        refused: &[("GET", "/alias/text.html", &[])],
        ..Row::NONE
    },
    Row {
        number: 14,
        nginx: "location / { try_files $uri $uri.html /index.html; }\n\
                location /sub { try_files $uri =404; }",
        site: r#"{
            "root": "FOLDER", "try": ["{path}", "{path}.html", "/index.html"],
            "paths": [{"path": "/sub", "root": "FOLDER", "try": ["{path}", "=404"]}]
        }"#,
        asked: &[
            ("GET", "/", &[]),
            ("GET", "/text", &[]),
            ("GET", "/text.html", &[]),
            ("GET", "/pretty/link?p=1", &[]),
            ("GET", "/sub/start.htm", &[]),
        ],
        refused: &[("GET", "/sub/pretty", &[])],
        ..Row::NONE
    },
    Row {
        number: 30,
        nginx: "add_header X-A \"b c\" always; add_header X-Name $host always;",
        site: r#"{
            "root": "FOLDER", "response": {"add": {"X-A": "b c", "X-Name": "{host}"}}
        }"#,
        asked: &[("GET", "/text.html", &[]), ("HEAD", "/style.css", &[])],
        moved: &[("GET", "/missing", &[])],
        fields: &["x-a", "x-name"],
        ..Row::NONE
    },
    Row {
        number: 31,
        nginx: "location ~ \\.css$ { expires 7d; }",
        site: r#"{"root": "FOLDER", "cache": {"text/css": "max-age=604800"}}"#,
        asked: &[("GET", "/style.css", &[]), ("GET", "/text.html", &[])],
        fields: &["cache-control", "content-type"],
        ..Row::NONE
    },
    Row {
        number: 33,
        nginx: "limit_req zone=reqs burst=2 nodelay; limit_req_status 429;",
        site: r#"{"root": "FOLDER", "rate": {"client": 1, "burst": 3}}"#,
        asked: &[
            ("GET", "/text.html", &[]),
            ("GET", "/style.css", &[]),
            ("GET", "/note.txt", &[]),
        ],
        refused: &[("GET", "/index.html", &[]), ("HEAD", "/index.html", &[])],
        fields: &["content-type"],
        ..Row::NONE
    },
    Row {
        number: 35,
        nginx: "location /in { allow 127.0.0.0/8; deny all; } location /out { deny 127.0.0.1; }",
        site: r#"{
            "root": "FOLDER",
            "paths": [
                {"path": "/in", "root": "FOLDER", "allow": ["127.0.0.0/8"]},
                {"path": "/out", "root": "FOLDER", "deny": ["127.0.0.1"]}
            ]
        }"#,
        asked: &[("GET", "/in/page.html", &[])],
        refused: &[("GET", "/out/page.html", &[])],
        ..Row::NONE
    },
    Row {
        number: 36,
        nginx: "auth_basic Restricted; auth_basic_user_file SCRATCH/users;",
        site: r#"{
            "root": "FOLDER", "auth": {"users": {"ann": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}
        }"#,
        asked: &[("GET", "/text.html", ANN)],
        refused: &[
            ("GET", "/text.html", &[]),
            (
                "GET",
                "/text.html",
                &[("authorization", "Basic YW5uOm90aGVy")],
            ),
            ("GET", "/text.html", &[("authorization", "Bearer YW5u")]),
        ],
        ..Row::NONE
    },
];

/// Password `secret` of `ann`.
const ANN: &[(&str, &str)] = &[("authorization", "Basic YW5uOnNlY3JldA==")];
