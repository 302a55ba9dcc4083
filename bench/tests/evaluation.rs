//! The page of the evaluation against the results that are kept beside it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn the_page_says_what_the_results_say() {
    let checked = check(Path::new("docs/evaluation.md"));
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{errors}\nrun `make evaluation`");
}

#[test]
fn a_figure_that_the_results_do_not_have_is_named() {
    let page = fs::read_to_string(top().join("docs/evaluation.md")).unwrap();
    let lines: Vec<&str> = page.lines().collect();
    let row = |line: &&str| line.starts_with("| `rsa-1000`");
    let changed = lines.iter().position(row).unwrap();
    let text = page.replacen(lines[changed], "| `rsa-1000` | 1 |", 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evaluation.md");
    fs::write(&file, &text).unwrap();

    let checked = check(&file);
    assert_eq!(checked.status.code(), Some(1));
    let errors = String::from_utf8(checked.stderr).unwrap();
    let named = format!("line {}, which would be: {}", changed + 1, lines[changed]);
    assert!(errors.contains(&named), "{errors}");
    // A check writes nothing.
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

/// Checks such a page against the results of this project.
fn check(page: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sekisho-bench"));
    command.args(["evaluation", "--check", "--out"]).arg(page);
    command.current_dir(top()).output().unwrap()
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
