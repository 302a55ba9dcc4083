//! Parameters of statements. Their SQL types follow from the Rust types, so that
//! no statement has to ask the server for them.

use tokio_postgres::types::{ToSql, Type};

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a dyn Param];

/// Parameters of a statement that outlive their caller.
pub(super) type Owned = Vec<Box<dyn Param + Send>>;

/// A parameter.
pub(super) trait Param: Sync {
    /// Returns it with its SQL type.
    fn typed(&self) -> (&(dyn ToSql + Sync), Type);
}

impl<T: Scalar> Param for T {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        (self, T::TYPE)
    }
}

impl<T: Scalar> Param for Vec<T> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        (self, T::ARRAY)
    }
}

/// A single value, and the type of an array of it.
pub(super) trait Scalar: ToSql + Sync {
    const TYPE: Type;
    const ARRAY: Type;
}

impl Scalar for bool {
    const TYPE: Type = Type::BOOL;
    const ARRAY: Type = Type::BOOL_ARRAY;
}

impl Scalar for i64 {
    const TYPE: Type = Type::INT8;
    const ARRAY: Type = Type::INT8_ARRAY;
}

impl Scalar for &str {
    const TYPE: Type = Type::TEXT;
    const ARRAY: Type = Type::TEXT_ARRAY;
}

impl Scalar for String {
    const TYPE: Type = Type::TEXT;
    const ARRAY: Type = Type::TEXT_ARRAY;
}

impl Scalar for &[u8] {
    const TYPE: Type = Type::BYTEA;
    const ARRAY: Type = Type::BYTEA_ARRAY;
}

impl<T: Scalar> Scalar for Option<T> {
    const TYPE: Type = T::TYPE;
    const ARRAY: Type = T::ARRAY;
}

/// Returns one column of rows, as the parameter of a statement that takes any
/// number of them.
pub(super) fn column<R, T>(rows: impl IntoIterator<Item = R>, value: impl Fn(R) -> T) -> Vec<T> {
    rows.into_iter().map(value).collect()
}
