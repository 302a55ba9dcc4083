//! The real binary, from the outside: commands, files, sockets, signals.

mod cert;
mod demo;
mod dual;
mod endpoint;
mod herd;
mod host;
mod import;
mod live;
mod peers;
mod postgres;
mod redis;
mod sandbox;
mod stall;
mod start;
mod stores;
mod usage;
