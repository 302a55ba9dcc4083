//! Compares docs/configuration.md with the keys that the program reads.

use sekisho_server::value::Unit;

use super::super::keys::{DISK_CACHE, KEYS, MASTER_KEY};
use super::*;

const DOCUMENTATION: &str = include_str!("../../../docs/configuration.md");

/// Returns the names that the program knows behind `prefix`.
pub(super) fn known(prefix: &str) -> Vec<String> {
    let error = refusal(&format!("{prefix}qqqqqqqq = 1\n"));
    let known = error
        .lines()
        .find_map(|line| line.split_once("known here: "));
    known.unwrap().1.split(", ").map(str::to_owned).collect()
}

/// Returns all sections but `[default]`, whose keys are addresses, and `[site]`.
pub(super) fn sections() -> Vec<String> {
    let mut sections = known("");
    // The keys of `[site]` are those of docs/sites.md.
    sections.retain(|section| section != "default" && section != "site");
    sections.extend(TABLES.map(str::to_owned));
    sections
}

/// Returns the documentation's chapter of a section.
fn chapter(section: &str) -> &'static str {
    let heading = format!("\n## [{section}]\n");
    let chapter = DOCUMENTATION.split(&heading).nth(1);
    let chapter = chapter.unwrap_or_else(|| panic!("{FILE} has no chapter ## [{section}]"));
    chapter.split("\n## ").next().unwrap()
}

/// Returns the cells of each row of the chapter's tables.
fn rows(section: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let rows = chapter(section)
        .lines()
        .filter(|line| line.starts_with("| `"));
    rows.map(|line| line.split('|').map(str::trim).skip(1).collect())
}

/// Returns the cells of a key's row.
fn row(section: &str, name: &str) -> Vec<&'static str> {
    let row = rows(section).find(|row| row[0] == format!("`{name}`"));
    row.unwrap_or_else(|| panic!("{FILE}: no table of [{section}] has a row for `{name}`"))
}

/// Returns the value with which the cell of a default begins: code, else the
/// text before the first comma.
fn default_in(cell: &str) -> &str {
    match cell.strip_prefix('`').and_then(|code| code.find('`')) {
        Some(length) => &cell[..length + 2],
        None => cell.split(',').next().unwrap_or(cell),
    }
}

fn assert_default(section: &str, name: &str, expected: &str) {
    let cell = row(section, name)[1];
    assert!(
        default_in(cell) == expected,
        "{FILE}, [{section}] {name}: the default should be {expected}, but the cell has {cell:?}"
    );
}

#[test]
fn the_example_is_taken() {
    let example = DOCUMENTATION.split("```toml\n").nth(1).unwrap();
    parse(example.split("```").next().unwrap()).unwrap();
}

#[test]
fn the_example_of_a_site_is_taken() {
    let sites = include_str!("../../../docs/sites.md");
    let example = sites.split("```toml\n").nth(1).unwrap();
    parse(&format!(
        "{MINIMAL}{}",
        example.split("```").next().unwrap()
    ))
    .unwrap();
}

#[test]
fn the_examples_of_acme_are_taken() {
    let chapters = DOCUMENTATION.split("\n## [acme").skip(1);
    let examples: Vec<_> = chapters
        .flat_map(|chapter| chapter.split("```toml\n").nth(1))
        .collect();
    assert_eq!(examples.len(), 1 + TABLES.len());
    for example in examples {
        let example = example.split("```").next().unwrap();
        let required = match example.starts_with("[acme]\n") {
            true => "",
            false => "[acme]\nagree = true\ncas = [\"letsencrypt\"]\n",
        };
        parse(&format!("{MINIMAL}{required}{example}")).unwrap();
    }
}

#[test]
fn the_documentation_lists_the_known_cas() {
    for name in sekisho_issuance::acme::builtin_names() {
        let directory = sekisho_issuance::acme::directory_of(name).unwrap();
        let cell = row("acme", name)[1];
        assert!(cell.contains(&format!("`{directory}`")), "{name}: {cell}");
    }
}

#[test]
fn the_documentation_knows_every_key() {
    for section in sections() {
        for name in known(&format!("[{section}]\n")) {
            row(&section, &name);
        }
    }
}

#[test]
fn the_documentation_has_the_defaults() {
    for key in KEYS {
        let default = match (key.default, key.unit) {
            (None, _) => continue,
            (Some(text), Unit::Count) => text.to_owned(),
            (Some(text), _) => format!("`\"{text}\"`"),
        };
        assert_default(key.section, key.name, &default);
    }
    assert_default("cache", "disk", &format!("`\"{DISK_CACHE}\"`"));
    assert_default("keys", "master", &format!("`\"{MASTER_KEY}\"`"));
    let listen = parse(MINIMAL).unwrap().listen;
    assert_default("listen", "plain", &format!("`{}`", listen.plain));
    let small = format!("{MINIMAL}[acme]\nagree = true\ncas = [\"letsencrypt\"]\n");
    let acme = parse(&small).unwrap().issuance().unwrap().unwrap();
    let solvers: Vec<_> = acme.solvers.iter().map(|kind| kind.as_str()).collect();
    assert_default("acme", "solvers", &format!("`{solvers:?}`"));
    assert_eq!("p256".parse(), Ok(acme.key));
    assert_default("acme", "key", "`\"p256\"`");
    assert_default("acme", "caa", &format!("`{}`", acme.admission.caa));
    assert_default("acme", "reuse_key", &format!("`{}`", acme.reuse_key));
    let allowed = Allowed::default();
    assert_default("sites", "allow", &format!("`{:?}`", allowed.texts()));
}

/// The program reads a key with a range through [`KEYS`].
#[test]
fn the_documentation_has_these_ranges_and_no_others() {
    for section in sections() {
        for row in rows(&section) {
            let name = row[0].trim_matches('`');
            let mut keys = KEYS.iter();
            let key = keys.find(|key| (key.section, key.name) == (&section, name));
            let expected = key.map(|key| format!("{} to {}", key.range.0, key.range.1));
            let (expected, found) = (expected.as_deref(), range_in(&row.join(" ")));
            let is_other = OTHER_RANGES.contains(&(&section, name));
            assert!(
                found.as_deref() == expected || is_other,
                "{FILE}, [{section}] {name}: the range should be {}, but the row has {}",
                expected.unwrap_or("none"),
                found.as_deref().unwrap_or("none")
            );
        }
    }
    for key in KEYS {
        row(key.section, key.name);
    }
}

/// Returns the first `A to B` of a row, without separators of thousands.
fn range_in(row: &str) -> Option<String> {
    let row = row.replace(',', "");
    let words: Vec<_> = row.split([' ', ';']).collect();
    let is_value = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let mut ranges = words.windows(3);
    let range = ranges.find(|words| words[1] == "to" && is_value(words[0]) && is_value(words[2]));
    range.map(|words| words.join(" "))
}

/// Tables below a section, under any name.
const TABLES: [&str; 2] = ["acme.ca.NAME", "acme.dns.\"ZONE\""];
const FILE: &str = "docs/configuration.md";
/// Ranges of something else than the key's value.
const OTHER_RANGES: &[(&str, &str)] = &[("listen", "admin_token"), ("store", "token")];
