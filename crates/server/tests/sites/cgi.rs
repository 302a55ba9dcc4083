//! Tests sites whose answers CGI programs make.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;
use http::{Method, Version};
use http_body_util::{BodyExt, Full};

use crate::world::{Answer, BOTH, HOST, Upload, World, channel};

/// Site with programs below `/cgi-bin`, and a page.
const SITE: &str = r#"{"root": "FOLDER/www", "paths": [
    {"path": "/cgi-bin", "root": "PROGRAMS", "cgi": true, "strip": true}]}"#;

/// Starts a server with these programs, each with its mode.
pub(super) fn start(programs: &[(&str, u32, &str)]) -> World {
    start_with(SITE, programs)
}

fn start_with(site: &str, programs: &[(&str, u32, &str)]) -> World {
    let world = World::new(site, &[("www/page.html", "a page")]);
    for (name, mode, text) in programs {
        let path = world.programs.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    world
}

pub(super) fn full(bytes: usize) -> Upload {
    let body = Full::new(Bytes::from(vec![b'x'; bytes]));
    body.map_err(|never| match never {}).boxed()
}

#[tokio::test]
async fn a_program_answers_in_its_environment() {
    let printing = "echo Content-Type: text/plain; echo; pwd; env | sort; ls /proc/self/fd | wc -l";
    let world = start(&[("sub/env", 0o755, printing)]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let fields = [("proxy", "http://evil.example"), ("x-a", "1"), ("x_b", "2")];
        let path = "/cgi-bin/sub/env/more?q=1";
        let answer = client.send(Method::GET, path, &fields).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let lines: Vec<&str> = answer.body.lines().collect();
        let folder = world.programs.path().to_owned();
        assert_eq!(lines[0], folder.join("sub").to_str().unwrap());
        for wanted in [
            "GATEWAY_INTERFACE=CGI/1.1",
            "HTTP_X_A=1",
            "PATH_INFO=/more",
            "QUERY_STRING=q=1",
            "REQUEST_METHOD=GET",
            "REQUEST_URI=/cgi-bin/sub/env/more?q=1",
            "SCRIPT_NAME=/cgi-bin/sub/env",
            &format!("SCRIPT_FILENAME={}/sub/env", folder.display()),
        ] {
            assert!(lines.contains(&wanted), "{wanted}: {}", answer.body);
        }
        let known = ["PWD", "PATH", "HTTPS", "OLDPWD", "SHLVL", "_"];
        for line in &lines[1..lines.len() - 1] {
            let (name, _) = line.split_once('=').unwrap();
            let prefixes = [
                "HTTP_",
                "SERVER_",
                "REQUEST_",
                "REMOTE_",
                "SCRIPT_",
                "DOCUMENT_",
            ];
            let others = ["GATEWAY_INTERFACE", "QUERY_STRING", "REDIRECT_STATUS"];
            let is_ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
            let is_path = name.starts_with("PATH_");
            let is_known = known.contains(&name) || others.contains(&name);
            assert!(is_ours || is_path || is_known, "{line}");
        }
        assert!(!answer.body.contains("evil.example") && !answer.body.contains("HTTP_X_B"));
        // As many as in any other program that the test starts, which may have inherited some.
        let mut other = std::process::Command::new("/bin/sh");
        let listed = other
            .args(["-c", "ls /proc/self/fd | wc -l"])
            .output()
            .unwrap();
        assert_eq!(lines.last().unwrap().as_bytes(), listed.stdout.trim_ascii());
    }
}

#[tokio::test]
async fn a_program_reads_its_body() {
    let world = start(&[(
        "count",
        0o755,
        "echo A: b; echo; echo $CONTENT_LENGTH; wc -c",
    )]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for bytes in [0, 5, 1_000_000] {
            let answer = client.begin(Method::POST, "/cgi-bin/count", &[], full(bytes));
            let answer = Answer::of(answer.await.unwrap()).await.unwrap();
            assert_eq!(answer.body, format!("{bytes}\n{bytes}\n"), "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_or_breaks_off_is_the_clients_fault() {
    let site = SITE.replace(r#""cgi": true"#, r#""cgi": true, "body_limit": "1KiB""#);
    let world = start_with(
        &site,
        &[("count", 0o755, "wc -c >/dev/null; echo A: b; echo")],
    );
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let answer = client.begin(Method::POST, "/cgi-bin/count", &[], full(1025));
        assert_eq!(answer.await.unwrap().status(), 413, "{version:?}");
        let mut client = world.connect(version, HOST).await;
        let (sender, body) = channel();
        sender.send(vec![b'x'; 2000].into()).await.unwrap();
        drop(sender);
        let answer = client.begin(Method::POST, "/cgi-bin/count", &[], body);
        assert_eq!(answer.await.unwrap().status(), 413, "{version:?}");
    }
}

#[tokio::test]
async fn a_program_says_the_status_or_where_the_answer_is() {
    let world = start(&[
        (
            "status",
            0o755,
            "printf 'Status: 418 Teapot\\r\\nX-A: 1\\r\\n\\r\\nshort and stout'",
        ),
        ("away", 0o755, "printf 'Location: https://b.example/\\n\\n'"),
        ("local", 0o755, "printf 'Location: /page.html?a=b\\n\\n'"),
        ("again", 0o755, "printf 'Location: /cgi-bin/status\\n\\n'"),
        (
            "endless",
            0o755,
            "printf 'Location: /cgi-bin/endless\\n\\n'",
        ),
        (
            "client",
            0o755,
            "printf 'Status: 302 Found\\nLocation: /page.html\\n\\n'",
        ),
        (
            "cookie",
            0o755,
            "printf 'Set-Cookie: a=b\\nLocation: /page.html\\n\\n'",
        ),
        ("host", 0o755, "printf 'Location: //evil.example/\\n\\n'"),
    ]);
    for version in BOTH {
        for (program, status, body) in [
            ("status", 418, "short and stout"),
            ("away", 302, ""),
            ("local", 200, "a page"),
            ("again", 418, "short and stout"),
            ("endless", 502, "502 Bad Gateway\n"),
            ("client", 302, ""),
            ("host", 302, ""),
            ("cookie", 302, ""),
        ] {
            let answer = world.get(version, &format!("/cgi-bin/{program}")).await;
            assert_eq!(
                (answer.status, answer.body.as_str()),
                (status, body),
                "{program}"
            );
        }
    }
    // The body of the first request is the program's alone.
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    let answer = client
        .begin(Method::POST, "/cgi-bin/local", &[], full(9))
        .await;
    assert_eq!(Answer::of(answer.unwrap()).await.unwrap().body, "a page");
}

#[tokio::test]
async fn what_is_no_program_does_not_run() {
    let world = start(&[
        ("fine", 0o755, "echo A: b; echo"),
        ("readme.txt", 0o644, "no program"),
        ("plain", 0o644, "echo A: b; echo"),
        ("open", 0o777, "echo A: b; echo"),
        ("group", 0o775, "echo A: b; echo"),
        (".hidden", 0o755, "echo A: b; echo"),
        ("folder/deep", 0o755, "echo A: b; echo"),
    ]);
    let folder = world.programs.path().to_owned();
    std::os::unix::fs::symlink("/bin/env", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("fine", folder.join("inside")).unwrap();
    for (path, status) in [
        ("/cgi-bin/fine", 200),
        ("/cgi-bin/inside", 200),
        ("/cgi-bin/folder/deep", 200),
        ("/cgi-bin/missing", 404),
        ("/cgi-bin/", 404),
        ("/cgi-bin/folder", 404),
        ("/cgi-bin/.hidden", 404),
        ("/cgi-bin/plain", 503),
        ("/cgi-bin/open", 503),
        ("/cgi-bin/group", 503),
        ("/cgi-bin/link", 503),
        ("/cgi-bin/readme.txt", 503),
        ("/cgi-bin/..%2ffine", 400),
    ] {
        let answer = world.get(Version::HTTP_11, path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
    let mode = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.join("folder"), mode).unwrap();
    let answer = world.get(Version::HTTP_11, "/cgi-bin/folder/deep").await;
    assert_eq!(
        answer.status, 503,
        "whoever may write the folder may swap the program"
    );
}

#[tokio::test]
async fn a_program_gets_no_connect() {
    let world = start(&[("fine", 0o755, "echo A: b; echo; echo $REQUEST_METHOD")]);
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    let answer = client.send(Method::CONNECT, "/cgi-bin/fine", &[]).await;
    assert_eq!(answer.status, 405, "{}", answer.body);
    assert_eq!(
        world.get(Version::HTTP_11, "/cgi-bin/fine").await.body,
        "GET\n"
    );
}

#[tokio::test]
async fn a_program_leads_to_no_page_without_its_password() {
    let site = SITE.replace(
        r#""paths": ["#,
        r#""paths": [{"path": "/private", "root": "FOLDER/www", "strip": true, "auth": {
            "users": {"ann": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}},"#,
    );
    let world = World::new(&site, &[("www/page.html", "a page")]);
    let program = world.programs.path().join("away");
    fs::write(
        &program,
        "#!/bin/sh\nprintf 'Location: /private/page.html\\n\\n'",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/cgi-bin/away").await.status, 401);
        let ann = [("authorization", "Basic YW5uOnNlY3JldA==")];
        let answer = client.send(Method::GET, "/cgi-bin/away", &ann).await;
        assert_eq!(answer.body, "a page");
    }
}

#[tokio::test]
async fn what_is_no_answer_of_a_program_is_a_502() {
    let world = start(&[
        ("nothing", 0o755, "exit 1"),
        ("no-head", 0o755, "echo text"),
        (
            "long",
            0o755,
            "printf 'A: '; head -c 200000 /dev/zero | tr '\\0' x",
        ),
        ("killed", 0o755, "kill -9 $$"),
        (
            "errors",
            0o755,
            "head -c 3000000 /dev/zero >&2; echo A: b; echo",
        ),
        (
            "complains",
            0o755,
            "echo something >&2; echo A: b; echo; echo fine",
        ),
    ]);
    for version in BOTH {
        for program in ["nothing", "no-head", "long", "killed", "errors"] {
            let answer = world.get(version, &format!("/cgi-bin/{program}")).await;
            assert_eq!(answer.status, 502, "{version:?} {program}: {}", answer.body);
        }
        let answer = world.get(version, "/cgi-bin/complains").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "fine\n"));
    }
}

#[tokio::test]
async fn a_record_names_no_programs_outside_of_the_entries() {
    let site = r#"{"root": "FOLDER", "cgi": true}"#;
    let world = World::new(site, &[("a", "#!/bin/sh\necho A: b\necho\n")]);
    let path = world.folder.path().join("a");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(world.get(Version::HTTP_11, "/a").await.status, 503);
    let files = r#"{"root": "PROGRAMS"}"#;
    let world = World::new(files, &[]);
    fs::write(world.programs.path().join("a"), "secret").unwrap();
    assert_eq!(world.get(Version::HTTP_11, "/a").await.status, 503);
}
