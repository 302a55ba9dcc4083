//! The table of outcomes, by what a client sees.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Scripted, Setup, alert, host, start, status};
use rustls::CipherSuite;
use sekisho_certs::{Clock, TlsPolicy};
use sekisho_server::Running as _;
use sekisho_testkit::{Key, TestCa, client};
