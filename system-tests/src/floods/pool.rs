//! FastCGI servers: one that runs its scripts, and others that harm.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::hosting::fastcgi::{Request, STDERR, answer as encode, record};

/// Behaviour of a FastCGI server towards each request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pool {
    /// Reads the body, and answers
    Sound,
    /// Has one child, which never answers
    Hung,
    /// Writes a gigabyte to standard error
    Complaining,
}

impl Pool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sound => "a pool",
            Self::Hung => "a hung pool of one child",
            Self::Complaining => "a script's errors",
        }
    }

    /// Makes a script below a root; returns the site that runs it.
    pub(super) fn site(self, address: SocketAddr, root: &Path) -> Result<Value> {
        fs::write(root.join("index.php"), "")?;
        let connections = match self {
            Self::Sound | Self::Complaining => 1024,
            Self::Hung => 1,
        };
        let servers = [format!("fastcgi://{address}")];
        Ok(json!({
            "root": root,
            "fastcgi": { "servers": servers, "connections": connections },
            "try": ["/index.php"],
        }))
    }
}

/// Answers the request of a connection.
pub(super) async fn answer(pool: Pool, mut socket: TcpStream) -> io::Result<()> {
    let request = Request::read(&mut socket).await?;
    if !request.is_some_and(|request| request.is_whole) {
        return Ok(());
    }
    match pool {
        Pool::Sound => {
            socket
                .write_all(&encode(b"Content-Length: 5\n\nhere\n"))
                .await
        }
        Pool::Hung => super::hostile::stay(socket).await,
        Pool::Complaining => {
            let errors = record(STDERR, &[b'e'; ERRORS]);
            for _ in 0..GIGABYTE / ERRORS {
                socket.write_all(&errors).await?;
            }
            Ok(())
        }
    }
}

const GIGABYTE: usize = 1 << 30;
/// Bytes of a record.
const ERRORS: usize = 32 << 10;
