use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// Folder that nobody else may write, with a program `a/run` in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/run"), "#!/bin/sh\n").unwrap();
    for (path, mode) in [("", 0o755), ("a", 0o755), ("a/run", 0o755)] {
        set_mode(&folder.path().join(path), mode);
    }
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn only_root_and_the_servers_user_may_change_a_program() {
    let judge = |uid, mode| {
        let judged = judge(Path::new("/p"), (uid, mode), 1000);
        judged.map_err(|refused| refused.to_string())
    };
    for (uid, mode) in [
        (0, 0o755),
        (1000, 0o755),
        (0, 0o700),
        (1000, 0o111),
        (0, 0o4755),
    ] {
        assert_eq!(judge(uid, mode), Ok(()), "{uid} {mode:o}");
    }
    for (uid, mode, wanted) in [
        (1001, 0o755, "`chown root` it"),
        (1001, 0o777, "`chown root` it"),
        (0, 0o775, "`chmod go-w` it"),
        (0, 0o757, "`chmod go-w` it"),
        (1000, 0o722, "`chmod go-w` it"),
        // A folder's sticky bit does not help.
        (0, 0o1777, "`chmod go-w` it"),
    ] {
        let refused = judge(uid, mode).unwrap_err();
        assert!(
            refused.contains("\"/p\"") && refused.contains(wanted),
            "{refused}"
        );
    }
}

#[test]
fn the_servers_user_must_be_allowed_to_execute_a_program() {
    let folder = folder();
    let find = || Program::find(folder.path(), folder.path(), "a/run").map(drop);
    // Root may if anyone may.
    for (mode, may) in [(0o755, true), (0o500, true), (0o644, false), (0o600, false)] {
        set_mode(&folder.path().join("a/run"), mode);
        match find() {
            Err(Refused::NotExecutable(_)) => assert!(!may, "{mode:o}"),
            found => assert!(found.is_ok() && may, "{mode:o} {found:?}"),
        }
    }
}

#[test]
fn a_program_is_the_first_segment_that_is_a_file() {
    let folder = folder();
    let entry = folder.path();
    let find = |root: &str, path: &'static str| Program::find(entry, &entry.join(root), path);
    for (root, path, rest) in [
        ("", "/a/run", ""),
        ("", "a/run/", "/"),
        ("", "/a/run/info/refs", "/info/refs"),
        ("a", "/run/x", "/x"),
    ] {
        let (program, found) = find(root, path).unwrap();
        assert_eq!(found, rest, "{path}");
        let real = fs::canonicalize(entry.join("a/run")).unwrap();
        assert_eq!(program.file(), real);
        assert_eq!(Some(program.folder()), real.parent());
    }
    for path in ["", "/", "/a", "/a/", "/b", "/a/runs", "/a/b/c", "/a/\0"] {
        assert!(matches!(find("", path), Err(Refused::Absent)), "{path}");
    }
    assert!(matches!(find("b", "/run"), Err(Refused::Absent)));
    let other = Program::find(entry, Path::new("/srv"), "/run");
    assert!(matches!(other, Err(Refused::Link(_))));
}

#[test]
fn a_link_leads_to_no_program_outside() {
    let (inside, outside) = (folder(), folder());
    let (entry, out) = (inside.path(), outside.path());
    symlink(out.join("a/run"), entry.join("absolute")).unwrap();
    let out_name = out.file_name().unwrap().to_str().unwrap();
    symlink(format!("../{out_name}/a/run"), entry.join("relative")).unwrap();
    symlink(out, entry.join("root")).unwrap();
    symlink("a/run", entry.join("inside")).unwrap();
    symlink("nowhere", entry.join("broken")).unwrap();
    let find = |path: &'static str| Program::find(entry, entry, path).map(|(program, _)| program);
    for path in ["absolute", "relative", "root/a/run", "../x"] {
        let found = find(path);
        assert!(matches!(found, Err(Refused::Link(_))), "{path} {found:?}");
    }
    let other_root = Program::find(entry, &entry.join("root"), "a/run");
    assert!(matches!(other_root, Err(Refused::Link(_))));
    assert!(matches!(find("broken"), Err(Refused::Absent)));
    let real = fs::canonicalize(entry.join("a/run")).unwrap();
    assert_eq!(find("inside").unwrap().file(), real);
    // The folder that the link leads to is judged, not that of the link.
    set_mode(&entry.join("a"), 0o775);
    assert!(matches!(find("inside"), Err(Refused::Writable(path)) if path.ends_with("a")));
}

#[test]
fn each_folder_above_a_program_counts() {
    let folder = folder();
    let entry = folder.path();
    let find = || Program::find(entry, &entry.join("a"), "run").map(drop);
    for path in ["", "a", "a/run"] {
        let path = entry.join(path);
        set_mode(&path, 0o757);
        let refused = find().unwrap_err();
        let real = fs::canonicalize(&path).unwrap();
        assert!(
            matches!(&refused, Refused::Writable(path) if *path == real),
            "{refused}"
        );
        set_mode(&path, 0o755);
        find().unwrap();
    }
    set_mode(&entry.join("a/run"), 0o644);
    assert!(matches!(find(), Err(Refused::NotExecutable(_))));
    fs::remove_file(entry.join("a/run")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        entry.join("a/run"),
        rustix::fs::FileType::Fifo,
        0o755.into(),
        0,
    )
    .unwrap();
    assert!(matches!(find(), Err(Refused::Irregular(_))));
}

#[test]
fn a_survey_names_what_will_not_run() {
    let folder = folder();
    let entry = folder.path();
    let good = survey(entry).unwrap();
    assert!(good.refused.is_empty() && !good.is_cut, "{good:?}");
    let write = |name: &str, mode| {
        fs::write(entry.join(name), "").unwrap();
        set_mode(&entry.join(name), mode);
    };
    write("data", 0o666);
    write("open", 0o775);
    symlink("nowhere", entry.join("broken")).unwrap();
    symlink("/bin/sh", entry.join("shell")).unwrap();
    fs::create_dir(entry.join("b")).unwrap();
    set_mode(&entry.join("b"), 0o777);
    write("b/run", 0o777);
    let found = survey(entry).unwrap();
    let mut named: Vec<_> = found.refused.iter().map(ToString::to_string).collect();
    named.sort();
    let wanted = [
        "/b\" can be written",
        "/open\" can be written",
        "/shell\": a link",
    ];
    assert_eq!(named.len(), wanted.len(), "{named:#?}");
    for (named, wanted) in named.iter().zip(wanted) {
        assert!(named.contains(wanted), "{named}");
    }
    for number in 0..MANY {
        write(&format!("many-{number}"), 0o777);
    }
    assert!(survey(entry).unwrap().is_cut);
    assert!(survey(&entry.join("c")).is_err());
}

const MANY: usize = 30;
