//! Files below the folders of the configuration.

use std::fs;
use std::os::unix::fs::symlink;

use sekisho_hook::Choice;

use crate::fake::{ask, chain, hook_with, key, made, report, settings};

#[tokio::test]
async fn files_are_read_below_the_folders_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let base = folder.path();
    fs::write(base.join("shop.example.crt"), chain("shop")).unwrap();
    fs::write(base.join("shop.example.key"), key("shop")).unwrap();
    fs::write(outside.path().join("secret.key"), key("secret")).unwrap();
    symlink(outside.path().join("secret.key"), base.join("link.key")).unwrap();
    symlink("shop.example.key", base.join("inner.key")).unwrap();
    symlink("gone.key", base.join("broken.key")).unwrap();
    symlink("gone", base.join("mount")).unwrap();
    fs::create_dir(base.join("folder")).unwrap();
    symlink("folder", base.join("linked")).unwrap();
    fs::write(base.join("big.key"), vec![b'x'; 256 * 1024 + 1]).unwrap();
    let script = "function handshake(tls) log(tls:certificate_key(file())) end
        function file() return FILE end";
    for (path, what) in [
        ("shop.example.key", "true"),
        ("inner.key", "true"),
        ("none.key", "false"),
        ("folder/none.key", "false"),
        ("linked/none.key", "false"),
        ("none/none.key", "false"),
        ("broken.key", "is a broken link"),
        ("mount/a.key", "is a broken link"),
        ("shop.example.key/none.key", "false"),
        ("../secret.key", "has `..` in it"),
        ("a/../../secret.key", "has `..` in it"),
        ("/etc/passwd", "below none of [hook] folders"),
        ("link.key", "the path leaves its folder"),
        ("big.key", "more than 256 KiB"),
        (".", "not a file"),
        ("a\\0b", "has a NUL in it"),
        ("", "the path is empty"),
    ] {
        let script = script.replace("FILE", &format!("\"{path}\""));
        let (hook, _) = hook_with(&script, |settings| {
            settings.folders = vec![base.to_owned()];
        });
        let (_, report) = report(&hook, "shop.example").await;
        let shown = match report.log.first() {
            Some(line) => line.clone(),
            None => report.error.unwrap(),
        };
        assert!(shown.contains(what), "{path}: {shown}");
    }
    let absolute = "function handshake(tls)
        local path = FOLDER .. '/' .. tls.server_name
        tls:certificate(path .. '.crt')
        tls:certificate_key(path .. '.key')
    end";
    let shown = format!("{:?}", base.to_str().unwrap());
    let (hook, _) = hook_with(&absolute.replace("FOLDER", &shown), |settings| {
        settings.folders = vec![base.to_owned()];
    });
    assert_eq!(made(&ask(&hook, "shop.example").await).subjects, ["shop"]);
    // Neither file is there: the ordinary lookup goes on.
    let absent = ask(&hook, "none.example").await;
    assert!(
        matches!(absent.choice, Choice::Lookup),
        "{:?}",
        absent.choice
    );
}

/// A deployment renames folders, and swaps links to them.
#[tokio::test]
async fn a_folder_that_was_replaced_is_opened_again() {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().join(name);
    let fill = |folder: &str, subject: &str| {
        fs::create_dir(path(folder)).unwrap();
        fs::write(path(folder).join("shop.crt"), chain(subject)).unwrap();
        fs::write(path(folder).join("shop.key"), key(subject)).unwrap();
    };
    fill("one", "first");
    fill("two", "second");
    symlink("one", path("certs")).unwrap();
    let script = "function handshake(tls)
        if tls:certificate('shop.crt') then tls:certificate_key('shop.key') end
    end";
    let (hook, _) = hook_with(script, |settings| settings.folders = vec![path("certs")]);
    let served = async || made(&ask(&hook, "shop.example").await).subjects.clone();
    assert_eq!(served().await, ["first"]);
    symlink("two", path("new")).unwrap();
    fs::rename(path("new"), path("certs")).unwrap();
    assert_eq!(served().await, ["second"]);
    // A folder that is gone is a failure, not an absence.
    fs::rename(path("two"), path("elsewhere")).unwrap();
    let (answer, failed) = report(&hook, "shop.example").await;
    assert!(
        matches!(answer.choice, Choice::Refuse(80)),
        "{:?}",
        answer.choice
    );
    let error = failed.error.unwrap();
    assert!(
        error.contains("certs can't be opened: No such file"),
        "{error}"
    );
    fs::rename(path("one"), path("two")).unwrap();
    assert_eq!(served().await, ["first"]);
    fs::remove_file(path("two/shop.crt")).unwrap();
    let absent = ask(&hook, "shop.example").await;
    assert!(
        matches!(absent.choice, Choice::Lookup),
        "{:?}",
        absent.choice
    );
}

#[test]
fn folders_that_are_not_there_keep_the_hook_from_starting() {
    let mut settings = settings("function handshake() end");
    settings.folders = vec!["/does/not/exist".into()];
    let Err(error) = sekisho_hook::Hook::compile(settings, crate::fake::Fake::default()) else {
        panic!("it started");
    };
    assert!(
        error
            .to_string()
            .contains("/does/not/exist can't be opened"),
        "{error}"
    );
}
