//! What holds for all inputs of the parsers and codecs, tried on random ones.
#![allow(clippy::unwrap_used)]

mod codecs;
mod names;
mod pem;
