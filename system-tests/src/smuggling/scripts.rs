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
    /// Listens for the script of a root.
    pub(super) async fn start(kind: Kind, root: &Path) -> Result<Self> {
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
                    if let Err(error) = serve(kind, socket, &script, &noted).await {
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
async fn serve(kind: Kind, mut socket: TcpStream, script: &Path, noted: &Noted) -> io::Result<()> {
    while let Some(request) = Request::read(&mut socket).await? {
        add(&noted.faults, faults(&request, script));
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

/// Says what is wrong with a request's parameters and its length.
fn faults(request: &Request, script: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let length = request.param("CONTENT_LENGTH");
    let bytes = request.body.len();
    let promised = if length.is_empty() {
        Ok(0)
    } else {
        length.parse()
    };
    match promised {
        Ok(promised) if bytes == promised || !request.is_whole && bytes < promised => {}
        _ => faults.push(format!("CONTENT_LENGTH {length:?}, and {bytes} bytes")),
    }
    let client = request.param("HTTP_X_FORWARDED_FOR");
    for (name, want) in [
        ("SCRIPT_FILENAME", &*script.to_string_lossy()),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTPS", "on"),
        ("REMOTE_ADDR", client),
    ] {
        let value = request.param(name);
        if value != want {
            faults.push(format!("{name} {value:?}, not {want:?}"));
        }
    }
    for (name, value) in &request.params {
        let field = name.strip_prefix("HTTP_");
        let is_field = field.is_some_and(|field| {
            let mut letters = field.bytes();
            let is_plain = letters.all(|one| matches!(one, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
            is_plain && !FORGED.contains(&field)
        });
        if !(is_field || KNOWN.contains(&name.as_str())) || value.contains(['\r', '\n', '\0']) {
            faults.push(format!("a parameter {name:?} {value:?}"));
        }
    }
    let id = request.param("REQUEST_URI");
    faults
        .iter()
        .map(|fault| format!("{fault} in {id}"))
        .collect()
}

/// Returns a request as a server of HTTP would note it.
fn seen(request: &Request) -> Seen {
    let (method, target) = (
        request.param("REQUEST_METHOD"),
        request.param("REQUEST_URI"),
    );
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    for (name, value) in &request.params {
        let field = match name.as_str() {
            "CONTENT_LENGTH" | "CONTENT_TYPE" => Some(name.as_str()),
            _ => name.strip_prefix("HTTP_"),
        };
        if let Some(field) = field {
            let field = field.to_ascii_lowercase().replace('_', "-");
            head += &format!("{field}: {value}\r\n");
        }
    }
    Seen {
        head: head + "\r\n",
        body: request.is_whole.then(|| request.body.clone()),
        said: format!("200 {target}"),
    }
}

/// Script of all requests.
const SCRIPT: &str = "index.php";
/// Unused connections that are kept.
const KEPT: u32 = 8;
const MAX_RECORD: usize = 60_000;
/// Fields that a script must never see.
const FORGED: [&str; 3] = ["PROXY", "CONTENT_LENGTH", "TRANSFER_ENCODING"];
/// Parameters that no client sends.
const KNOWN: [&str; 22] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];
