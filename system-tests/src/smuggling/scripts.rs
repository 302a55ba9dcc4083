//! FastCGI servers of this process: one notes each request, the other one lies.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::lies::{self, Lie, PAUSE};
use super::params::{faults, seen};
use crate::hosting::Seen;
use crate::hosting::fastcgi::{END, Request, STDERR, STDOUT, answer, record};

/// FastCGI server that notes what it gets, and answers as its kind does.
pub(super) struct Scripts {
    address: SocketAddr,
    root: PathBuf,
    noted: Arc<Noted>,
    accepting: AbortHandle,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Answers with method, target and length
    Honest,
    /// Answers requests for a lie with this lie
    Liar,
}

#[derive(Debug, Default)]
struct Noted {
    seen: Mutex<Vec<Seen>>,
    faults: Mutex<Vec<String>>,
}

impl Scripts {
    /// Listens for the script of a root, which also gets the parameters `more`.
    pub(super) async fn start(
        kind: Kind,
        root: &Path,
        more: &'static [&'static str],
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let script = root.join(SCRIPT);
        std::fs::write(&script, "")?;
        let noted = Arc::new(Noted::default());
        let all = Arc::clone(&noted);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (script, noted) = (script.clone(), Arc::clone(&all));
                tokio::spawn(async move {
                    if let Err(error) = serve(kind, socket, (&script, more), &noted).await {
                        add(&noted.faults, [error.to_string()]);
                    }
                });
            }
        });
        Ok(Self {
            address,
            root: root.to_owned(),
            noted,
            accepting: accepting.abort_handle(),
        })
    }

    /// Returns the site whose requests it gets, all over few kept connections.
    pub(super) fn site(&self) -> Value {
        json!({
            "root": self.root,
            "fastcgi": { "servers": [format!("fastcgi://{}", self.address)], "keep": KEPT },
            "try": [format!("/{SCRIPT}")],
        })
    }

    /// Returns the requests so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        all(&self.noted.seen)
    }

    /// Returns what was no proper request of FastCGI, or had wrong parameters.
    pub(super) fn faults(&self) -> Vec<String> {
        all(&self.noted.faults)
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn add<T>(list: &Mutex<Vec<T>>, more: impl IntoIterator<Item = T>) {
    list.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(more);
}

fn all<T: Clone>(list: &Mutex<Vec<T>>) -> Vec<T> {
    list.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Answers the requests of a connection.
///
/// # Errors
/// If the server sends what is no FastCGI.
async fn serve(
    kind: Kind,
    mut socket: TcpStream,
    (script, more): (&Path, &[&str]),
    noted: &Noted,
) -> io::Result<()> {
    while let Some(request) = Request::read(&mut socket).await? {
        add(&noted.faults, faults(&request, script, more));
        add(&noted.seen, [seen(&request)]);
        let lie = match kind {
            Kind::Honest => None,
            Kind::Liar => lies::of_script(request.param("REQUEST_URI")),
        };
        let sent = match lie {
            Some(lie) => lie_to(&mut socket, lie).await,
            None => socket.write_all(&answer(&page(&request))).await,
        };
        // The client judges how a connection ends.
        let is_last = lie.is_some_and(|lie| lie.closes) || !request.keep || !request.is_whole;
        if sent.is_err() || is_last {
            break;
        }
    }
    Ok(())
}

fn page(request: &Request) -> Vec<u8> {
    let (method, target) = (
        request.param("REQUEST_METHOD"),
        request.param("REQUEST_URI"),
    );
    let text = format!("{method} {target} {}\n", request.body.len());
    format!(
        "Content-Type: text/plain\nContent-Length: {}\n\n{text}",
        text.len()
    )
    .into_bytes()
}

/// Sends a lie. In its text, `{end}` stands for the end of the request and `{eof}` for that
/// of the output; behind `{raw}` and `{err}` come bytes of the connection and of standard
/// error, up to the next mark.
async fn lie_to(socket: &mut TcpStream, lie: &Lie) -> io::Result<()> {
    for part in lie.bytes().split('{') {
        let (mark, text) = part.split_once('}').unwrap_or(("", part));
        match mark {
            "pause" => sleep(PAUSE).await,
            "end" => socket.write_all(&record(END, &[0; 8])).await?,
            "eof" => socket.write_all(&record(STDOUT, b"")).await?,
            _ => {}
        }
        let bytes: Vec<_> = text.chars().map(|one| one as u8).collect();
        for piece in bytes.chunks(MAX_RECORD) {
            let sent = match mark {
                "raw" => piece.to_vec(),
                "err" => record(STDERR, piece),
                _ => record(STDOUT, piece),
            };
            socket.write_all(&sent).await?;
        }
    }
    Ok(())
}

/// Script of all requests.
const SCRIPT: &str = "index.php";
/// Unused connections that are kept.
const KEPT: u32 = 8;
const MAX_RECORD: usize = 60_000;
