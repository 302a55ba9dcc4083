//! Checks that files and folders that the documentation names are there.
//!
//! A word is a path if it begins with a folder of the root and has a slash, or ends as a
//! file of the tree does. It leads on from the root, from the document's folder, from the
//! `src` or `tests` of a crate, or from a folder that the document names; or it repeats the
//! end of a path that the document names. A decision may name files that are gone, if a
//! paragraph that begins with `**Gone**` lists them.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn documents_name_what_is_there() {
    let tree = Tree::read();
    let wrong: Vec<_> = documents()
        .iter()
        .flat_map(|document| {
            let text = fs::read_to_string(document).expect("a document is text");
            match document
                .extension()
                .is_some_and(|extension| extension == "rs")
            {
                true => tree.wrong(document, &first_comment(&text)),
                false => tree.wrong(document, &text),
            }
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn wrong_names_are_found() {
    let text = "\
`src/main.rs`, docs/decisions/, [README](../README.md), `store/seen.rs`, `seen.rs`.
Below `crates/certs/src/lookup/`: `freshness.rs`. No path: /etc/a.toml, https://a.rs.
`src/maine.rs`, docs/decision/, [READ](../READ.md), `store/sin.rs`, `sin.rs`.
Below `crates/certs/src/lookup/`: `freshes.rs`. In a picture: server/src/nothing.rs
";
    let wrong = Tree::read().wrong(&root().join("docs/a.md"), text);
    let expected = [
        "docs/a.md:3: src/maine.rs",
        "docs/a.md:3: docs/decision/",
        "docs/a.md:3: ../READ.md",
        "docs/a.md:3: store/sin.rs",
        "docs/a.md:3: sin.rs",
        "docs/a.md:4: freshes.rs",
        "docs/a.md:4: server/src/nothing.rs",
    ];
    assert_eq!(wrong, expected);
}

#[test]
fn a_decision_says_which_files_are_gone() {
    let tree = Tree::read();
    let decision = root().join("docs/decisions/a.md");
    let text = "`src/gone.rs` did it.\n\n**Gone** since: `src/gone.rs`.\n";
    assert!(tree.wrong(&decision, text).is_empty());
    // No other document may name them.
    assert_eq!(tree.wrong(&root().join("docs/a.md"), text).len(), 2);
    let wrong = tree.wrong(&decision, "**Gone**: `src/main.rs`.\n");
    assert_eq!(wrong, ["docs/decisions/a.md:1: src/main.rs is there"]);
}

/// Folders from which paths lead on.
struct Tree {
    /// Names of the folders of the root.
    folders: Vec<String>,
    /// The root, and the sources and tests of each crate.
    bases: Vec<PathBuf>,
}

impl Tree {
    fn read() -> Self {
        let mut folders = folders_of(root());
        folders.retain(|name| !UNTRACKED.contains(&name.as_str()));
        let mut bases = vec![
            root().to_owned(),
            root().join("bench/src"),
            root().join("system-tests/src"),
        ];
        let crates = root().join("crates");
        let names = folders_of(&crates).into_iter();
        let homes = names.map(|name| crates.join(name));
        for home in homes.chain([root().to_owned()]) {
            bases.extend(["src", "tests"].map(|name| home.join(name)));
        }
        Self { folders, bases }
    }

    /// Returns the paths of a document that lead nowhere, and those that it says are gone
    /// and are not, each with its line.
    fn wrong(&self, document: &Path, text: &str) -> Vec<String> {
        let paths: Vec<_> = words(text).filter(|(_, word)| self.is_path(word)).collect();
        let folder = document.parent().expect("a document lies in a folder");
        let mut bases = self.bases.clone();
        bases.push(folder.to_owned());
        let named = paths.iter().map(|(_, path)| root().join(path));
        bases.extend(named.filter(|path| path.is_dir()));
        let is_there = |path: &str| bases.iter().any(|base| base.join(path).exists());
        let (there, missing): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|(_, path)| is_there(path));
        let is_end = |path: &str| {
            let mut known = there.iter().map(|(_, known)| Path::new(known));
            known.any(|known| known.ends_with(path))
        };
        let gone = match folder.ends_with("docs/decisions") {
            true => gone(text),
            false => Vec::new(),
        };
        let shown = document.strip_prefix(root()).expect("it is of the tree");
        let shown = shown.display();
        let lost = missing
            .iter()
            .filter(|(_, path)| !is_end(path) && !gone.contains(path))
            .map(|(line, path)| format!("{shown}:{line}: {path}"));
        let kept = there
            .iter()
            .filter(|(_, path)| gone.contains(path))
            .map(|(line, path)| format!("{shown}:{line}: {path} is there"));
        lost.chain(kept).collect()
    }

    fn is_path(&self, word: &str) -> bool {
        let first = word.split('/').next().unwrap_or_default();
        let last = word.rsplit('/').next().unwrap_or_default();
        let begins = word.contains('/') && self.folders.iter().any(|name| name == first);
        let leads_up = word.starts_with("../");
        let is_relative = leads_up || !word.starts_with(['/', '.']);
        let ends = ENDINGS.iter().any(|ending| word.ends_with(ending));
        begins || leads_up || is_relative && ends && !EXAMPLES.contains(&last)
    }
}

/// Returns the words of a decision's paragraphs about files that are gone.
fn gone(text: &str) -> Vec<&str> {
    text.split("\n\n")
        .filter(|paragraph| paragraph.starts_with("**Gone**"))
        .flat_map(words)
        .map(|(_, word)| word)
        .collect()
}

/// Returns what may be paths, each with the number of its line: the longest runs of letters
/// that paths have, without full stops and hyphens behind them.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        line.split(|letter: char| !is_of_path(letter))
            .map(move |word| (index + 1, word.trim_end_matches(['.', '-'])))
    })
}

fn is_of_path(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/' | '-')
}

/// Returns the comment that a file of Rust begins with.
fn first_comment(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Lists the documents, and the files whose first comment has a picture of files.
fn documents() -> Vec<PathBuf> {
    let names = DOCUMENTS.iter().chain(&PICTURES);
    let mut documents: Vec<_> = names.map(|name| root().join(name)).collect();
    walk(&root().join("docs"), &mut documents);
    documents
}

fn walk(folder: &Path, documents: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of documents") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, documents);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
}

/// Lists the names of the folders in a folder.
fn folders_of(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .expect("a folder of the tree")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Documents outside of docs/.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "system-tests/README.md",
];
const PICTURES: [&str; 8] = [
    "crates/certs/src/feed.rs",
    "crates/hook/src/lib.rs",
    "crates/issuance/src/issuer.rs",
    "crates/server/src/lookup/hook.rs",
    "crates/server/src/http/connection.rs",
    "crates/server/src/lib.rs",
    "crates/server/src/run/server.rs",
    "crates/server/src/upstream.rs",
];
const ENDINGS: [&str; 7] = [".rs", ".md", ".json", ".svg", ".toml", ".lua", ".luau"];
/// Names that end as files of the tree do, and are files of operators, or a website.
const EXAMPLES: [&str; 7] = [
    "acme.json",
    "handshake.luau",
    "old.toml",
    "private_key.json",
    "rustup.rs",
    "sekisho.toml",
    "site.json",
];
/// Folders of the root that git does not track.
const UNTRACKED: [&str; 3] = [".git", "demo", "target"];
