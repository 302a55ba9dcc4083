//! Values of several forms. An untagged enum would lose the path of a wrong
//! key.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Text, or a table with more keys.
#[derive(Clone, Debug)]
pub(crate) enum TextOr<T> {
    Text(String),
    Table(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextOrTable(PhantomData))
    }
}

struct TextOrTable<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrTable<T> {
    type Value = TextOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a map")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Table)
    }
}

/// Table, or whether it holds at all.
#[derive(Clone, Debug)]
pub(crate) enum BoolOr<T> {
    Bool(bool),
    Table(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoolOr<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(BoolOrTable(PhantomData))
    }
}

struct BoolOrTable<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoolOrTable<T> {
    type Value = BoolOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`true`, `false` or a map")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<BoolOr<T>, E> {
        Ok(BoolOr::Bool(value))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<BoolOr<T>, E> {
        Err(E::invalid_type(A_TEXT, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BoolOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(BoolOr::Table)
    }
}

/// Text of a wrong type. The error does not repeat it: in `auth` it may be a hash.
const A_TEXT: Unexpected<'_> = Unexpected::Other("a text");

/// Table of keys. Without it, serde would take a list of values in the order of
/// the keys, too.
#[derive(Clone, Debug, Default)]
pub struct Table<T>(pub(crate) T);

impl<T> Deref for Table<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(TableOfMap(PhantomData))
    }
}

struct TableOfMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableOfMap<T> {
    type Value = Table<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Table)
    }
}

/// Text or a whole number. It has no keys below it whose path could be lost.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or i64")]
pub(crate) enum TextOrNumber {
    Text(String),
    Number(i64),
}

/// Table of texts under any keys, in the order of the document. A map would
/// drop a key that stands twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // By its own, a deserializer would repeat a text of a wrong type.
        from.deserialize_any(PairsOfMap)
    }
}

struct PairsOfMap;

impl<'de> Visitor<'de> for PairsOfMap {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Pairs, E> {
        Err(E::invalid_type(A_TEXT, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
