//! Checks that the rooms of a crate, its top-level modules, import each other in one
//! direction: no room imports another that imports it, by however many steps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Rooms by name, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Names that the root of a crate exports, each with the room that it is from.
type Exports = BTreeMap<String, String>;

#[test]
fn rooms_import_each_other_in_one_direction() {
    for crate_name in ["server", "stores", "issuance", "hook"] {
        let circle = circle(imports(crate_name));
        assert!(circle.is_empty(), "in crates/{crate_name}/src: {circle:#?}");
    }
}

#[test]
fn seal_and_store_are_two_halves_of_one_contract() {
    // Only a sealed batch can be written, and a batch is made of the store's writes.
    let circle = circle(imports("certs"));
    let rooms: Vec<_> = circle.keys().collect();
    assert_eq!(rooms, ["seal", "store"], "{circle:#?}");
}

#[test]
fn circles_are_found() {
    let room = |name: &str, imports: &[&str]| {
        let imports = imports.iter().map(|name| (*name).to_owned()).collect();
        (name.to_owned(), imports)
    };
    let rooms = [
        room("above", &["one"]),
        room("one", &["two"]),
        room("two", &["three", "below"]),
        room("three", &["one"]),
        room("below", &[]),
    ];
    let circle = circle(rooms.into());
    assert!(circle.keys().eq(["one", "three", "two"]), "{circle:?}");
}

#[test]
fn imports_are_read_from_code_alone() {
    let text = "\
//! Names crate::comment.
use crate::one::Type;
use crate::{
    two::{A, B},
    three,
};
#[cfg(test)]
mod tests {
    use crate::test::Double;
}
fn four() -> crate::four::Type { crate::made!() }
";
    let found = imported(text);
    assert!(
        found.iter().eq(["four", "one", "three", "two"]),
        "{found:?}"
    );
}

#[test]
fn names_of_the_root_lead_to_their_rooms() {
    let root = "\
mod one;
pub use one::{First, two};
pub(crate) use two::inner::{
    Second as Renamed,
    third,
};
#[cfg(test)]
mod tests {
    pub use test::Double;
}
";
    let found = exported(root);
    let found: Vec<_> = found
        .iter()
        .map(|(name, room)| (&**name, &**room))
        .collect();
    let first = [("First", "one"), ("Renamed", "two"), ("third", "two")];
    assert_eq!(found, [&first[..], &[("two", "one")]].concat());
}

/// Returns the rooms that are left once none is that nobody left imports, or that
/// imports nobody left: those in circles, and between them.
fn circle(mut rooms: Imports) -> Imports {
    loop {
        let before = rooms.len();
        let names: BTreeSet<_> = rooms.keys().cloned().collect();
        rooms
            .values_mut()
            .for_each(|imports| imports.retain(|name| names.contains(name)));
        let imported: BTreeSet<_> = rooms.values().flatten().cloned().collect();
        rooms.retain(|name, imports| !imports.is_empty() && imported.contains(name));
        if rooms.len() == before {
            return rooms;
        }
    }
}

/// Reads the rooms of a crate. A name that the root exports is an import of its room.
fn imports(crate_name: &str) -> Imports {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crates")
        .join(crate_name)
        .join("src");
    let root = fs::read_to_string(source.join("lib.rs")).expect("the root of a crate");
    let (exports, mut rooms) = (exported(&root), Imports::new());
    for entry in fs::read_dir(&source).expect("the source of a crate") {
        let path = entry.expect("an entry").path();
        let room = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if room != "lib" {
            let imports = rooms.entry(room.clone()).or_default();
            read(&path, imports);
            imports.remove(&room);
        }
    }
    let names: BTreeSet<_> = rooms.keys().cloned().collect();
    for (room, imports) in &mut rooms {
        let of = |name: String| match names.contains(&name) {
            true => name,
            false => exports.get(&name).cloned().unwrap_or_else(|| {
                panic!("{crate_name}: {room} imports crate::{name}, which is in no room")
            }),
        };
        *imports = std::mem::take(imports).into_iter().map(of).collect();
        imports.remove(room);
    }
    rooms
}

/// Returns what the code of a root exports of its rooms.
fn exported(root: &str) -> Exports {
    let code = code(root);
    let mut exports = Exports::new();
    for statement in code.split_inclusive(';') {
        let begin = ["pub use ", "pub(crate) use "].map(|begin| statement.split_once(begin));
        let Some((_, path)) = begin.into_iter().flatten().next() else {
            continue;
        };
        let room = segment(path);
        let (_, names) = path.split_once("::").unwrap_or((path, path));
        for name in names.split(['{', '}', ',', ';']) {
            let name = name.trim().rsplit([':', ' ']).next().expect("a piece");
            exports.insert(name.to_owned(), room.clone());
        }
    }
    exports.remove("");
    exports
}

/// Adds what the code of a file, or of all files of a folder, imports. Tests may import
/// from everywhere.
fn read(path: &Path, imports: &mut BTreeSet<String>) {
    let name = path.file_stem().expect("a name");
    if name == "tests" {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder of a crate") {
            read(&entry.expect("an entry").path(), imports);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        imports.extend(imported(
            &fs::read_to_string(path).expect("a source file is text"),
        ));
    }
}

/// Returns the first segments of the paths below `crate` in the code of a file, without
/// exported macros, which all lie there.
fn imported(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let path = &code[at + "crate::".len()..];
        match path.strip_prefix('{') {
            Some(list) => found.extend(list_of(list)),
            None => found.extend(
                Some(segment(path)).filter(|segment| !path[segment.len()..].starts_with('!')),
            ),
        }
    }
    found
}

/// Returns the first segments of the paths in a list, up to its closing brace.
fn list_of(list: &str) -> Vec<String> {
    let (mut found, mut depth, mut begins) = (Vec::new(), 0, true);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && letter.is_alphanumeric() => {
                found.push(segment(&list[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    found
}

fn segment(path: &str) -> String {
    path.chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect()
}

/// Returns the lines that are neither comments nor tests. rustfmt puts the closing brace
/// of an item under the first letter of its first line: no parser is needed.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[cfg(test)]") || trimmed.starts_with("#[cfg(all(test") {
            let end = format!("{}}}", &line[..line.len() - trimmed.len()]);
            let mut item = lines
                .by_ref()
                .skip_while(|line| line.trim_start().starts_with("#["));
            if item.next().is_some_and(|first| first.ends_with('{')) {
                item.find(|line| *line == end || line.starts_with(&format!("{end};")));
            }
        } else if !trimmed.starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}
