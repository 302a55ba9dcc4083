//! Tests errors of the keys that format 3 has beside scripts and passwords.

use serde_json::json;

use super::site;

#[test]
fn an_error_names_the_path_of_its_key() {
    for (json, expected) in ERRORS {
        let error = site(json).expect_err(json).to_string();
        assert!(error.contains(expected), "{json}\n{error}");
    }
}

#[test]
fn what_stands_beside_an_error_is_read() {
    for json in [
        r#"{"as": "b.example"}"#,
        r#"{"as": "B.example", "http": "serve"}"#,
        r#"{"redirects": {}, "root": "/a"}"#,
        r#"{"redirects": {"/a": "/b", "/a/": "/b", "/": "/a"}}"#,
        r#"{"redirects": {"/a": "/b"}, "paths": [{"path": "/a", "status": 404}]}"#,
        r#"{"paths": [{"path": "= /a/", "status": 404}, {"path": "= /", "status": 404},
            {"path": "= /a", "status": 404}, {"path": "/a", "status": 404}]}"#,
        r#"{"paths": [{"path": "/a", "methods": ["GET"], "status": 404},
            {"path": "/a", "methods": ["POST", "M-SEARCH"], "status": 404},
            {"path": "/a", "status": 404}]}"#,
        r#"{"paths": [{"path": "/a", "redirect": "https://b.example/c{rest}"}]}"#,
        r#"{"root": "/a", "index": ["index.php", "Index.HTM"], "precompressed": []}"#,
        r#"{"root": "/a", "compress": true,
            "paths": [{"path": "/b", "root": "/b", "compress": false}]}"#,
        r#"{"root": "/a", "rate": {"client": 5, "burst": 1000000, "host": 1}}"#,
        r#"{"root": "/a", "response": {"set": {"X-A": "{{\"a\": {label.a_1}}}"}}}"#,
    ] {
        site(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    }
}

#[test]
fn redirects_are_bounded() {
    let of = |count: usize| {
        let all = (0..count).map(|at| (format!("/{at}"), json!("/")));
        let all: serde_json::Map<_, _> = all.collect();
        site(&json!({ "redirects": all }).to_string())
    };
    of(1000).unwrap();
    let error = of(1001).unwrap_err().to_string();
    let expected = "`redirects`: 1001 redirects are more than 1000";
    assert_eq!(error, expected);
}

/// `[sites] allow` judges them as those of other rules.
#[test]
fn folders_of_error_pages_beside_redirects_are_named() {
    let of_redirects = site(r#"{"redirects": {"/a": "/b"}, "errors": "/srv/{tenant}/errors"}"#);
    let of_redirects = of_redirects.unwrap();
    let roots: Vec<_> = of_redirects.roots().collect();
    assert_eq!(roots, ["/srv/anna/errors"]);
}

/// Documents, and what their errors say.
const ERRORS: &[(&str, &str)] = &[
    (
        r#"{"as": "b.example", "root": "/a"}"#,
        "`as`: a site that answers as another has no other key than `http`",
    ),
    (
        r#"{"as": "b.example", "redirects": {}}"#,
        "`as`: a site that answers as another",
    ),
    (
        r#"{"as": "*.b.example"}"#,
        "`as`: \"*.b.example\" is no host name: ",
    ),
    (
        r#"{"paths": [{"path": "/a", "as": "b.example"}]}"#,
        "`paths[0].as`: only the top level has `as`",
    ),
    (
        r#"{"paths": [{"path": "/a", "status": 404, "http": "serve"}]}"#,
        "`paths[0].http`: only the top level has `http`",
    ),
    (
        r#"{"paths": [{"path": "/a", "status": 404, "redirects": {}}]}"#,
        "`paths[0].redirects`: only the top level has `redirects`",
    ),
    (
        r#"{"root": "/a", "http": "on"}"#,
        "`http`: \"on\" is none of \"redirect\", \"serve\" and \"until-certificate\"",
    ),
    (r#"{"redirects": {}}"#, "a site has exactly one of"),
    (
        r#"{"redirects": {"/a": "b"}}"#,
        "`redirects./a`: \"b\" is no absolute http or https URL and no path; write \
         \"https://www.example.com/new\" or \"/new\"",
    ),
    (
        r#"{"redirects": {"/a": "//b"}}"#,
        "`redirects./a`: \"//b\" is no absolute http or https URL and no path",
    ),
    (
        r#"{"redirects": {"/a": "/a"}}"#,
        "`redirects./a`: leads to itself",
    ),
    (
        r#"{"redirects": {"a": "/b"}}"#,
        "`redirects.a`: \"a\" is no plain path",
    ),
    (
        r#"{"redirects": {"/a//b": "/b"}}"#,
        "`redirects./a//b`: \"/a//b\" is no plain path",
    ),
    (
        r#"{"redirects": {"/a": "/b", "/a": "/c"}}"#,
        "`redirects./a`: the path stands twice",
    ),
    (
        r#"{"redirects": {"/a": "/b"}, "paths": [{"path": "= /a", "status": 404}]}"#,
        "`redirects./a`: the path stands twice",
    ),
    (
        r#"{"redirects": {"/a": 1}}"#,
        "`redirects./a`: invalid type: integer `1`, expected a text in quotes",
    ),
    (
        r#"{"redirects": ["/a"]}"#,
        "`redirects`: invalid type: sequence, expected a table",
    ),
    (
        r#"{"paths": [{"path": "=/a", "status": 404}]}"#,
        "`paths[0].path`: write \"= /a\", with a space, for this path alone",
    ),
    (
        r#"{"paths": [{"path": "= a", "status": 404}]}"#,
        "`paths[0].path`: \"a\" is no plain path",
    ),
    (
        r#"{"paths": [{"path": "= /a", "status": 404}, {"path": "= /a", "status": 410}]}"#,
        "`paths[1].path`: the path stands twice",
    ),
    (
        r#"{"status": 404, "methods": ["GET"]}"#,
        "`methods`: only items of `paths` have methods",
    ),
    (
        r#"{"paths": [{"path": "/a", "methods": [], "status": 404}]}"#,
        "`paths[0].methods`: write 1 to 16 methods, such as [\"GET\", \"POST\"]",
    ),
    (
        r#"{"paths": [{"path": "/a", "methods": ["PUT", "get"], "status": 404}]}"#,
        "`paths[0].methods[1]`: \"get\" is no method in capital letters",
    ),
    (
        r#"{"paths": [{"path": "/a", "methods": ["PUT", "PUT"], "status": 404}]}"#,
        "`paths[0].methods[1]`: the method stands twice",
    ),
    (
        r#"{"paths": [{"path": "/a", "methods": ["GET", "PUT"], "status": 404},
            {"path": "/a", "methods": ["POST", "PUT"], "status": 404}]}"#,
        "`paths[1].path`: the path stands twice",
    ),
    (
        r#"{"paths": [{"path": "/a", "methods": ["HEAD"], "status": 404},
            {"path": "/a", "methods": ["GET"], "status": 404}]}"#,
        "`paths[1].path`: the path stands twice",
    ),
    (
        r#"{"redirect": "https://b.example/{rest}"}"#,
        "`redirect`: {rest} begins with a slash; leave out the one before it",
    ),
    (
        r#"{"redirect": "https://{rest}.example"}"#,
        "`redirect`: {rest} stands once, and behind the host",
    ),
    (
        r#"{"redirect": "https://b.example/a{rest}{rest}"}"#,
        "`redirect`: {rest} stands once, and behind the host",
    ),
    (
        r#"{"root": "/a", "index": []}"#,
        "`index`: write 1 to 8 names of files",
    ),
    (
        r#"{"root": "/a", "index": ["a/b"]}"#,
        "`index[0]`: \"a/b\" is no name of a file",
    ),
    (r#"{"root": "/a", "index": ["a", ".b"]}"#, "`index[1]`: "),
    (r#"{"root": "/a", "index": ["{host}"]}"#, "`index[0]`: "),
    (r#"{"root": "/a", "index": "a"}"#, "`index`: invalid type"),
    (
        r#"{"paths": [{"path": "/a", "upstream": "http://a", "index": ["a"]}]}"#,
        "`paths[0].index`: only a `root` has one",
    ),
    (
        r#"{"root": "/a", "precompressed": ["deflate"]}"#,
        "`precompressed[0]`: \"deflate\" is none of \"br\", \"zstd\" and \"gzip\"",
    ),
    (
        r#"{"root": "/a", "precompressed": ["br", "br"]}"#,
        "`precompressed[1]`: the coding stands twice",
    ),
    (
        r#"{"root": "/a", "compress": "gzip"}"#,
        "`compress`: invalid type: a text, expected `true`, `false` or a table",
    ),
    (
        r#"{"root": "/a", "compress": {"types": ["text"]}}"#,
        "`compress.types[0]`: is no media range",
    ),
    (
        r#"{"root": "/a", "compress": {"types": []}}"#,
        "`compress.types`: write 1 to 32 media ranges",
    ),
    (
        r#"{"root": "/a", "compress": {"level": 10}}"#,
        "`compress.level`: 10 is out of range; write 1 to 9",
    ),
    (
        r#"{"root": "/a", "rate": {"client": 1, "burst": 0}}"#,
        "`rate.burst`: 0 is out of range; write 1 to 1000000",
    ),
    (
        r#"{"root": "/a", "rate": {"host": 1, "burst": 2}}"#,
        "`rate.burst`: is of the rate `client`; write that, too",
    ),
    (
        r#"{"root": "/a", "in_flight": 0}"#,
        "`in_flight`: 0 is out of range; write 1 to 65536",
    ),
    (
        r#"{"root": "/a", "client_certificate": "yes"}"#,
        "`client_certificate`: invalid type",
    ),
    (
        r#"{"root": "/a", "response": {"set": {"X-A": "{nobody}"}}}"#,
        "`response.set.X-A`: {nobody} is no placeholder; there are {host}, {client}, {tenant}, \
         {id} and {label.NAME}, and {{ is a brace",
    ),
    (
        r#"{"root": "/a", "response": {"add": {"X-A": "a}"}}}"#,
        "`response.add.X-A`: \"a}\" has a } without its {; }} is a brace",
    ),
    (
        r#"{"upstream": "http://a", "request": {"set": {"X-A": "{host"}}}"#,
        "`request.set.X-A`: \"{host\" has a { without its }; {{ is a brace",
    ),
];
