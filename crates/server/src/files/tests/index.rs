//! Tests of the files that stand for a folder.

use super::*;

fn named(names: &[&str]) -> RuleOptions {
    RuleOptions {
        index: names.iter().map(|name| Box::from(*name)).collect(),
        ..RuleOptions::default()
    }
}

#[tokio::test]
async fn the_first_name_that_is_there_stands_for_a_folder() {
    let fixture = Fixture::new();
    fixture.write("index.html", "usual");
    fixture.write("home.htm", "home");
    fixture.write("sub/start.html", "start");
    fixture.write("sub/home.htm/index.html", "a folder is no file");
    for (names, path, status, body) in [
        (&["home.htm", "index.html"][..], "/", 200, "home"),
        (&["index.html", "home.htm"], "/", 200, "usual"),
        (&["gone.htm", "home.htm"], "/", 200, "home"),
        (&["gone.htm"], "/", 404, ""),
        (&["home.htm", "start.html"], "/sub/", 200, "start"),
        (&["home.htm"], "/sub/", 404, ""),
        (&["home.htm"], "/sub", 308, ""),
        (&["home.htm"], "/index.html", 200, "usual"),
        (&["home.htm"], "/.git/", 404, ""),
        (&[], "/", 200, "usual"),
    ] {
        for _ in 0..2 {
            let answer = fixture.ask(&named(names), path, "").await;
            assert_eq!(answer.status, status, "{names:?} {path}");
            if status == 200 {
                assert_eq!(answer.body, body.as_bytes(), "{names:?} {path}");
            }
        }
    }
}
