//! Tests what a site's rule makes of requests and answers, over HTTP/1.1 and
//! HTTP/2.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod admission;
mod auth;
mod bodies;
mod cgi;
mod cgi_ends;
mod coded_files;
mod coded_scripts;
mod coding;
mod fastcgi;
mod fastcgi_paths;
mod fastcgi_server;
mod fields;
mod files;
mod heads;
mod in_flight;
mod index;
mod pages;
mod paths;
mod placeholders;
mod redirects;
mod rules;
mod script_faults;
mod suspension;
mod world;
