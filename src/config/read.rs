//! Reads the keys of a text.

use sekisho_server::site::reworded;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::gone;
use super::locate::{Problem, path_to};
use super::problems::{MOST, Problems};
use super::raw::RawConfig;
use super::wording::{syntax, wrong_type};

/// Reads the keys. Those that are not known, and those whose values have a wrong type, are
/// problems, and are left out.
///
/// # Errors
/// All mistakes in the syntax: what the rest means is then not certain. Also the problems,
/// where they are too many.
pub(super) fn read(text: &str) -> Result<(RawConfig, Problems), Problems> {
    let (mut root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(mistakes(text, &errors));
    }
    let mut problems = Problems::default();
    // Each problem needs the whole text once more.
    while problems.len() < MOST {
        let error = match RawConfig::deserialize(toml::Deserializer::from(root.clone())) {
            Ok(raw) => return Ok((raw, problems)),
            Err(error) => error,
        };
        let path = path_of(root.get_ref(), &error);
        problems.add_unread(unread(text, &path, &error));
        if !remove(root.get_mut(), &path) {
            break;
        }
    }
    Err(problems)
}

/// Returns the keys of the admin listener, each in a line.
pub(super) fn listener(text: &str) -> String {
    let (root, _) = DeTable::parse_recoverable(text);
    let mut lines = String::new();
    for key in ["admin", "admin_token"] {
        let listen = root.get_ref().get("listen").map(Spanned::get_ref);
        let value = listen.and_then(|listen| listen.get(key)?.get_ref().as_str());
        if let Some(value) = value {
            lines += &format!("{key} = {}\n", toml::Value::from(value));
        }
    }
    lines
}

/// Tells the first mistake of each line: others follow from it.
fn mistakes(text: &str, errors: &[toml::de::Error]) -> Problems {
    let mut problems = Problems::default();
    let mut lines = Vec::new();
    for error in errors.iter().take(MOST) {
        let offset = error.span().map_or(0, |span| span.start);
        let line = text[..offset].matches('\n').count();
        if lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let wording = syntax(text, error.span(), error.message());
        let wording = wording.unwrap_or_else(|| reworded(error.message()));
        problems.add(Problem::with_offset(Vec::new(), error.span(), wording));
    }
    problems
}

/// Makes the problem of a value that could not be read.
fn unread(text: &str, path: &[String], error: &toml::de::Error) -> Problem {
    let wording = gone::instead(path)
        .map(str::to_owned)
        .or_else(|| wrong_type(text, error.span(), error.message()))
        .unwrap_or_else(|| reworded(error.message()));
    Problem::with_offset(path.to_vec(), error.span(), wording)
}

fn path_of(root: &DeTable<'_>, error: &toml::de::Error) -> Vec<String> {
    let path = error.span().map(|span| path_to(root, &span));
    path.unwrap_or_default()
}

/// Takes out the value at a path. False if there is none.
fn remove(table: &mut DeTable<'_>, path: &[String]) -> bool {
    match path {
        [] => false,
        [key] => table.remove(key.as_str()).is_some(),
        [key, rest @ ..] => match table.get_mut(key.as_str()).map(Spanned::get_mut) {
            Some(DeValue::Table(below)) => remove(below, rest),
            _ => false,
        },
    }
}
