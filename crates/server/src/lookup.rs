//! From a name to what serves it: the hook's choice, the lookup of crate `certs`, and what
//! is made of a record once per read.

pub(crate) mod ask;
pub(crate) mod authority;
pub(crate) mod challenge;
pub mod hook;
pub mod secret_file;
pub mod tickets;
pub(crate) mod virtual_host;
