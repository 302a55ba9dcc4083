//! Test helpers that all crates share.
#![forbid(unsafe_code)]

pub mod ca;
pub mod client;
pub mod contract;
pub mod endpoint;
mod memory;
pub mod obtain;
mod ports;
pub mod proxy;
pub mod redis;
pub mod services;
pub mod store;

pub use ca::{Key, Pair, TestCa};
pub use endpoint::{Answer, Endpoint, Speaks};
pub use memory::Memory;
pub use obtain::Issuer;
pub use proxy::{Cut, Proxy};
pub use redis::RedisServer;
pub use store::Scripted;
