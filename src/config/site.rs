//! Checks `[site]`.

use std::path::Path;

use sekisho_server::site::{RawSite, Site, SiteError};
use toml::{Table, Value};

use super::locate::Problem;
use super::problems::Problems;

/// Checks the section; tells the first problem of each of its keys.
pub(super) fn check(raw: Option<Table>, base: &Path, problems: &mut Problems) -> Option<Site> {
    let Some(mut table) = raw else {
        return Some(Site::not_found());
    };
    let mut is_right = true;
    loop {
        let read = RawSite::read(Value::Table(table.clone()));
        let wrong = match read.and_then(|raw| raw.check(Some(base))) {
            Ok(site) => return is_right.then_some(site),
            Err(SiteError::Wrong(wrong)) => wrong,
            Err(other) => {
                problems.add(Problem::at(&["site"], other.to_string()));
                return None;
            }
        };
        let keys = wrong.key().iter().map(String::as_str);
        let place: Vec<_> = std::iter::once("site").chain(keys).collect();
        // A key that is missing because it was taken out is no problem of its own.
        if problems.is_told(&place) {
            return None;
        }
        problems.add(Problem::at(&place, wrong.problem()));
        let key = place.get(1)?;
        table.remove(*key)?;
        // Other keys may need what the site answers with.
        if let Some((_, any)) = RIGHT_VALUES.iter().find(|(action, _)| action == key) {
            table.insert((*key).to_owned(), Value::String((*any).to_owned()));
        }
        if *key == "status" {
            table.insert((*key).to_owned(), Value::Integer(404));
        }
        is_right = false;
    }
}

/// Key that says what a site answers with, and a right value of it.
const RIGHT_VALUES: [(&str, &str); 3] = [
    ("root", "/srv"),
    ("upstream", "http://192.0.2.1"),
    ("redirect", "https://www.example.com"),
];
