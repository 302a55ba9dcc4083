//! Properties that hold for all inputs of the parsers and codecs.
#![allow(clippy::unwrap_used)]

mod codecs;
mod names;
mod pem;
