//! Tests errors of `fastcgi` by their path of keys.

use super::site;

#[test]
fn an_error_of_scripts_names_the_path_of_its_key() {
    for (json, expected) in ERRORS {
        let error = site(json).expect_err(json).to_string();
        assert!(error.contains(expected), "{json}\n{error}");
    }
}

/// Documents with their errors.
const ERRORS: &[(&str, &str)] = &[
    (
        r#"{"fastcgi": "unix:/run/a.sock"}"#,
        "`fastcgi`: write the `root` of its scripts, too",
    ),
    (
        r#"{"upstream": "http://a", "fastcgi": "unix:/run/a.sock"}"#,
        "`fastcgi`: write the `root` of its scripts, too",
    ),
    (
        r#"{"root": "/a", "fastcgi": "127.0.0.1:9000"}"#,
        "`fastcgi`: \"127.0.0.1:9000\" is no URL of a server; write \"unix:/run/php/{tenant}.sock\"",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": ["http://a"]}}"#,
        "`fastcgi.servers[0]`: \"http://a\" is no URL of a server; write",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": []}}"#,
        "`fastcgi.servers`: write 1 to 32 servers, such as [\"unix:/run/php/{tenant}.sock\"]",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": ["fastcgi://a"], "scripts": ["php"]}}"#,
        "`fastcgi.scripts[0]`: \"php\" is no end of a name; write a dot and letters",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": ["fastcgi://a"], "scripts": []}}"#,
        "`fastcgi.scripts`: write ends of names, such as [\".php\"]",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": ["fastcgi://a"], "connections": 5, "keep": 6}}"#,
        "`fastcgi.keep`: 6 is out of range; write 0 to 5",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": ["fastcgi://a"], "timeouts": {"upgraded": "1s"}}}"#,
        "`fastcgi.timeouts.upgraded`: no FastCGI server leaves HTTP",
    ),
    (
        r#"{"root": "/a", "fastcgi": {"servers": ["fastcgi://a"], "underscores": true}}"#,
        "`fastcgi.underscores`: unknown key `underscores`",
    ),
    (
        r#"{"cgi": true}"#,
        "`cgi`: write the `root` of its programs, and no `fastcgi`",
    ),
    (
        r#"{"root": "/a", "fastcgi": "fastcgi://a", "cgi": true}"#,
        "`cgi`: write the `root` of its programs, and no `fastcgi`",
    ),
    (
        r#"{"root": "/srv/{tenant}", "cgi": true}"#,
        "`root`: programs run as the server's user and are the operator's",
    ),
    (
        r#"{"root": "/srv/cgi", "cgi": true, "try": ["/a"]}"#,
        "`try`: only a `root` tries paths",
    ),
];
