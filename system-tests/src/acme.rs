//! Setting of tests whose servers order certificates: a CA (Pebble), and catalogs with servers
//! that order there.

mod catalog;
mod setting;

pub(crate) use self::catalog::{Catalog, Issuance};
pub(crate) use self::setting::{PAGE, Setting};
