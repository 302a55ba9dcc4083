//! The real binary, from the outside: commands, files, sockets, signals.

mod cert;
mod copies;
mod demo;
mod dual;
mod endpoint;
mod folders;
mod herd;
mod host;
mod import;
mod init;
mod keys;
mod layered;
mod live;
mod outages;
mod peers;
mod postgres;
mod redis;
mod sandbox;
mod secrets;
mod shared;
mod signals;
mod stall;
mod start;
mod stores;
mod usage;
mod warm;
