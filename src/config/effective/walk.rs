//! Values as the file has them, and the defaults beside them.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::default::default;
use super::hide::hide;
use super::notation::dotted;
use super::shape::Shape;
use super::{Entry, Origin, Section};
use crate::config::Config;

/// Walk over the keys that the program reads, and those in the file.
pub(super) struct Walk<'a> {
    config: &'a Config,
    /// Offsets of line breaks.
    breaks: Vec<usize>,
    sections: Vec<Section>,
}

/// Place of a key.
struct Place {
    path: Vec<String>,
    /// Parts of the path that the header of its section has.
    head: usize,
}

impl<'a> Walk<'a> {
    /// Makes a walk over a configuration, whose text this is.
    pub(super) fn new(config: &'a Config, text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(offset, _)| offset);
        Self {
            config,
            breaks: breaks.collect(),
            sections: Vec::new(),
        }
    }

    /// Lists all sections, in the order in which the program declares them.
    pub(super) fn all(mut self, shape: &Shape, root: &DeTable<'_>) -> Vec<Section> {
        let Shape::Keys(sections) = shape else {
            return self.sections;
        };
        for (name, shape) in sections {
            let place = Place::of_section(vec![(*name).to_owned()]);
            let table = root.get(*name).and_then(table_of);
            match (shape, table) {
                (Shape::Map(_) | Shape::Optional(_), None) => self.begin(&place, false),
                (Shape::Optional(inner), table) => self.section(inner, table, &place),
                (shape, table) => self.section(shape, table, &place),
            }
        }
        self.sections
    }

    fn begin(&mut self, place: &Place, is_set: bool) {
        let path = dotted(&place.path);
        let list = path
            .strip_suffix(']')
            .and_then(|path| path.rsplit_once('['));
        let header = match list {
            Some((list, _)) => format!("[[{list}]]"),
            None => format!("[{path}]"),
        };
        self.sections.push(Section {
            path,
            header,
            is_set,
            entries: Vec::new(),
        });
    }

    fn section(&mut self, shape: &Shape, table: Option<&DeTable<'_>>, place: &Place) {
        self.begin(place, true);
        match (shape, table) {
            (Shape::Keys(keys), table) => self.keys(keys, table, place, true),
            (_, Some(table)) => self.any(table, place),
            (_, None) => {}
        }
    }

    /// Lists the keys of a section, then the tables below it: after a header of TOML, no key
    /// of the section above it can follow.
    fn keys(
        &mut self,
        keys: &[(&'static str, Shape)],
        table: Option<&DeTable<'_>>,
        place: &Place,
        has_defaults: bool,
    ) {
        let mut below = Vec::new();
        for (name, shape) in keys {
            let found = table.and_then(|table| table.get_key_value(*name));
            let place = place.key(name);
            let table = found.and_then(|(_, value)| table_of(value));
            match (shape.inner(), found) {
                // A table that is given replaces all of the default.
                (Shape::Keys(keys), _) => self.keys(keys, table, &place, table.is_none()),
                (Shape::Map(inner), _) => match self.names(table, &place) {
                    names if names.is_empty() => self.default(&place, has_defaults),
                    names => below.push((place, &**inner, table, names)),
                },
                (_, Some((key, value))) => self.value(&place, &key.span(), value),
                (_, None) => self.default(&place, has_defaults),
            }
        }
        for (place, shape, table, names) in below {
            if !matches!(shape, Shape::Keys(_)) {
                self.section(shape, table, &Place::of_section(place.path));
                continue;
            }
            for name in names {
                let found = table.and_then(|table| table.get(name.as_str()));
                let place = Place::of_section(place.key(&name).path);
                self.section(shape, found.and_then(table_of), &place);
            }
        }
    }

    /// Lists the names of the tables below a key: those in the file, and CAs in use that
    /// are built in.
    fn names(&self, table: Option<&DeTable<'_>>, place: &Place) -> Vec<String> {
        let written = table.map(by_line).unwrap_or_default().into_iter();
        let mut names: Vec<_> = written.map(|(_, name, _)| name).collect();
        if place.path == ["acme", "ca"] {
            let used = self.config.acme.iter().flat_map(|acme| &acme.settings.cas);
            for name in used.map(|options| &options.ca.name) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Lists all keys of a table in which the program knows none, then its lists of tables.
    fn any(&mut self, table: &DeTable<'_>, place: &Place) {
        let mut lists = Vec::new();
        for (span, name, value) in by_line(table) {
            let place = place.key(&name);
            match (value.get_ref(), tables_of(value)) {
                (DeValue::Table(below), _) if !below.is_empty() => self.any(below, &place),
                (_, Some(tables)) if place.path.len() == place.head + 1 => {
                    lists.push((place.path, tables));
                }
                _ => self.value(&place, &span, value),
            }
        }
        for (path, tables) in lists {
            for (index, table) in tables.into_iter().enumerate() {
                let item = [path.as_slice(), &[format!("[{index}]")]].concat();
                let item = Place::of_section(item);
                self.begin(&item, true);
                self.any(table, &item);
            }
        }
    }

    fn value(&mut self, place: &Place, key: &Range<usize>, value: &Spanned<DeValue<'_>>) {
        let value = Value::deserialize(ValueDeserializer::from(value.clone()));
        let mut value = value.expect("JSON has all values that the configuration takes");
        hide(&place.path, &mut value);
        let line = 1 + self.breaks.partition_point(|at| *at < key.start);
        let file = self.config.file.to_string_lossy().into_owned();
        self.push(place, Some(value), Origin::File { file, line });
    }

    fn default(&mut self, place: &Place, has_defaults: bool) {
        let path: Vec<_> = place.path.iter().map(String::as_str).collect();
        let value = has_defaults.then(|| default(self.config, &path)).flatten();
        self.push(place, value, Origin::Default);
    }

    fn push(&mut self, place: &Place, value: Option<Value>, origin: Origin) {
        let path: Vec<_> = place.path.iter().map(String::as_str).collect();
        let is_directory = matches!(path[..], ["acme", "ca", _, "directory"]);
        let section = self.sections.last_mut().expect("a section was begun");
        section.entries.push(Entry {
            key: dotted(&place.path[place.head..]),
            value,
            is_built_in: is_directory && origin == Origin::Default,
            origin,
        });
    }
}

impl Place {
    fn of_section(path: Vec<String>) -> Self {
        let head = path.len();
        Self { path, head }
    }

    fn key(&self, name: &str) -> Self {
        let (mut path, head) = (self.path.clone(), self.head);
        path.push(name.to_owned());
        Self { path, head }
    }
}

fn table_of<'a, 'b>(value: &'a Spanned<DeValue<'b>>) -> Option<&'a DeTable<'b>> {
    value.get_ref().as_table()
}

/// Returns the tables of a list that holds tables alone, and at least one.
fn tables_of<'a, 'b>(value: &'a Spanned<DeValue<'b>>) -> Option<Vec<&'a DeTable<'b>>> {
    let items = value.get_ref().as_array()?.iter();
    let tables = items.map(table_of).collect::<Option<Vec<_>>>()?;
    (!tables.is_empty()).then_some(tables)
}

/// Returns the keys of a table in the order of the file.
fn by_line<'a, 'b>(
    table: &'a DeTable<'b>,
) -> Vec<(Range<usize>, String, &'a Spanned<DeValue<'b>>)> {
    let keys = table.iter();
    let keys = keys.map(|(key, value)| (key.span(), key.get_ref().to_string(), value));
    let mut keys: Vec<_> = keys.collect();
    keys.sort_by_key(|(span, _, _)| span.start);
    keys
}
