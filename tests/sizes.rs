//! Checks the sizes of files and functions. A file has at most 400 lines, tests
//! included. A function over 80 lines gives its reason in an attribute.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn files_stay_small() {
    let sizes = Sizes::new(sources().map(|source| Size {
        lines: source.lines.len(),
        what: source.path.display().to_string(),
        excused: false,
    }));
    sizes.check("files", FILE_MEDIAN, FILE_P90, FILE_LONGEST);
}

#[test]
fn functions_stay_small() {
    let sizes = Sizes::new(sources().flat_map(|source| functions(&source)));
    sizes.check("functions", FUNCTION_P90, FUNCTION_P90, FUNCTION_LONGEST);
}

#[test]
fn functions_are_measured_from_their_first_line_to_their_brace() {
    let text = "\
impl A {
    pub(crate) async fn one(
        &self,
    ) -> u8 {
        // Comments and empty lines don't count.

        1
    }
    fn two() {}
    fn three();
    #[expect(clippy::too_many_lines, reason = \"a table\")]
    const fn four() {
    }
}";
    let source = Source {
        path: PathBuf::from("a.rs"),
        lines: text.lines().map(str::to_owned).collect(),
    };
    let found: Vec<_> = functions(&source)
        .into_iter()
        .map(|size| (size.what, size.lines, size.excused))
        .collect();
    let one = |what: &str, lines, excused| (format!("a.rs: {what}"), lines, excused);
    assert_eq!(
        found,
        [
            one("one", 5, false),
            one("two", 1, false),
            one("four", 2, true)
        ]
    );
}

struct Sizes(Vec<Size>);

#[derive(Debug)]
struct Size {
    lines: usize,
    what: String,
    excused: bool,
}

impl Sizes {
    fn new(sizes: impl Iterator<Item = Size>) -> Self {
        let mut sizes: Vec<_> = sizes.collect();
        sizes.sort_by_key(|size| size.lines);
        assert!(!sizes.is_empty(), "no sources were found");
        Self(sizes)
    }

    fn at(&self, percent: usize) -> usize {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)].lines
    }

    fn check(&self, kind: &str, median: usize, p90: usize, longest: usize) {
        let largest: Vec<_> = self.0.iter().rev().take(5).collect();
        let measured = format!(
            "{} {kind}: median {}, p90 {}, the largest are {largest:#?}",
            self.0.len(),
            self.at(50),
            self.at(90)
        );
        println!("{measured}");
        assert!(
            self.at(50) <= median,
            "the median is over {median}: {measured}"
        );
        assert!(self.at(90) <= p90, "p90 is over {p90}: {measured}");
        let over = self
            .0
            .iter()
            .find(|size| size.lines > longest && !size.excused);
        assert!(over.is_none(), "over {longest} lines: {over:?}");
    }
}

struct Source {
    path: PathBuf,
    lines: Vec<String>,
}

/// Lists the Rust files of the workspace.
fn sources() -> impl Iterator<Item = Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["src", "tests", "crates", "bench", "system-tests"] {
        walk(&root.join(folder), &mut paths);
    }
    paths.into_iter().map(|path| Source {
        lines: fs::read_to_string(&path)
            .expect("a source file is text")
            .lines()
            .map(str::to_owned)
            .collect(),
        path,
    })
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// Lists the functions of a file. rustfmt puts a function's closing brace under
/// the first letter of its first line: no parser is needed.
fn functions(source: &Source) -> Vec<Size> {
    let mut found = Vec::new();
    for (first, line) in source.lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        if let Some(lines) = length(&source.lines[first..]) {
            let before = &source.lines[first.saturating_sub(ATTRIBUTE_LINES)..first];
            let excused = |line: &String| line.contains("too_many_lines");
            found.push(Size {
                lines,
                what: format!("{}: {name}", source.path.display()),
                excused: before.iter().any(excused),
            });
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "async" | "const" | "unsafe" | "extern" | "\"C\"") || word.starts_with("pub")
    };
    if !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    after
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// Counts the lines of code to the closing brace; None for a function without a
/// body.
fn length(lines: &[String]) -> Option<usize> {
    let indent = lines[0].len() - lines[0].trim_start().len();
    for (number, line) in lines.iter().enumerate() {
        let last = line.trim_end();
        let at_indent = line.len() - line.trim_start().len() == indent;
        if at_indent && last.trim_start().starts_with('}') {
            return Some(lines[..=number].iter().filter(|line| is_code(line)).count());
        }
        if at_indent && last.ends_with(';') {
            return None;
        }
        if number == 0 && last.ends_with('}') {
            return Some(1);
        }
    }
    None
}

fn is_code(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with("//")
}

const FILE_MEDIAN: usize = 200;
const FILE_P90: usize = 400;
const FILE_LONGEST: usize = 400;
const FUNCTION_P90: usize = 30;
const FUNCTION_LONGEST: usize = 80;
/// Lines above a function in which its attribute may stand.
const ATTRIBUTE_LINES: usize = 4;
