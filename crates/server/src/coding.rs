//! Content codings: which one a client takes, and bodies in it.

pub(crate) mod accept;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod stream;

pub(crate) use gates::threads;
