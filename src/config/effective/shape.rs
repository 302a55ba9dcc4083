//! Keys that the program reads, taken from the types into which it reads them.

use serde::de::value::{Error, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Shape of a value.
#[derive(Debug, Default)]
pub(super) enum Shape {
    /// Text, number, list, or anything.
    #[default]
    Value,
    /// Value that may be left out.
    Optional(Box<Self>),
    /// Table with these keys.
    Keys(Vec<(&'static str, Self)>),
    /// Table under any keys.
    Map(Box<Self>),
}

impl Shape {
    /// Returns the shape of a value that is there.
    pub(super) fn inner(&self) -> &Self {
        match self {
            Self::Optional(inner) => inner,
            shape => shape,
        }
    }
}

/// Returns the shape of a type.
///
/// # Panics
/// If the type holds other numbers than `i64`, which TOML has. A test reads the shape of the
/// whole configuration.
pub(super) fn of<T: DeserializeOwned>() -> Shape {
    let mut shape = Shape::default();
    let read = T::deserialize(Recorder(&mut shape));
    read.expect("the types of the configuration hold texts, booleans and i64");
    shape
}

/// Deserializer that gives each type an empty value, and records what it asks for.
struct Recorder<'a>(&'a mut Shape);

impl<'de> Deserializer<'de> for Recorder<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(false)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(0)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("")
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(std::iter::empty::<bool>()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut inner = Shape::default();
        let value = visitor.visit_some(Recorder(&mut inner))?;
        *self.0 = Shape::Optional(Box::new(inner));
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut names = Names::of(&["any"]);
        let value = visitor.visit_map(&mut names)?;
        let inner = names.found.pop().map(|(_, shape)| shape);
        *self.0 = Shape::Map(Box::new(inner.unwrap_or_default()));
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut names = Names::of(fields);
        let value = visitor.visit_map(&mut names)?;
        *self.0 = Shape::Keys(names.found);
        Ok(value)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// Table that has each of the names once.
struct Names {
    left: &'static [&'static str],
    found: Vec<(&'static str, Shape)>,
}

impl Names {
    fn of(left: &'static [&'static str]) -> Self {
        let found = Vec::new();
        Self { left, found }
    }
}

impl<'de> MapAccess<'de> for &mut Names {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((name, left)) = self.left.split_first() else {
            return Ok(None);
        };
        self.left = left;
        self.found.push((name, Shape::default()));
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (_, shape) = self.found.last_mut().expect("a key comes before its value");
        seed.deserialize(Recorder(shape))
    }
}
