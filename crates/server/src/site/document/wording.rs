//! Words serde's messages in terms of a site document or a configuration.

use serde_path_to_error::{Path, Segment};

/// Rewords a message of serde, without the place that `serde_json` adds.
#[must_use]
pub fn reworded(message: &str) -> String {
    let message = match message.rsplit_once(" at line ") {
        Some((rest, place)) if place.contains(" column ") => rest,
        _ => message,
    };
    if let Some(list) = message.strip_prefix("unknown field ") {
        let words: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        if let Some((unknown, known)) = words.split_first() {
            return unknown_key(unknown, known);
        }
    }
    message
        .replace("duplicate field", "a key stands twice:")
        .replace("expected i64", "expected a whole number")
        .replace("or i64", "or a whole number")
        .replace("expected a string", "expected a text in quotes")
        .replace("expected a map", "expected a table")
        .replace("or a map", "or a table")
        .replace("expected a sequence", "expected a list in [ ]")
}

/// Returns the keys of a path, with indices as numbers.
pub(crate) fn keys(path: &Path) -> Vec<String> {
    let segments = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    segments.collect()
}

fn unknown_key(unknown: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|key| (distance(unknown, key), key))
        .min()
        .filter(|(distance, _)| *distance <= MAX_DISTANCE);
    match nearest {
        Some((_, key)) => format!("unknown key `{unknown}`; did you mean `{key}`?"),
        None => format!("unknown key `{unknown}`; known here: {}", known.join(", ")),
    }
}

/// Returns the Levenshtein distance of two texts.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

/// Largest distance of a suggestion; beyond it, a suggestion is a guess.
const MAX_DISTANCE: usize = 2;
