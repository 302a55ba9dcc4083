//! FastCGI server whose answers a test chooses.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

/// Request as the server got it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// The connection is to stay open.
    pub(crate) keep: bool,
}

impl Asked {
    /// Returns a parameter; empty if it is not there.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }
}

/// Server at a Unix socket, with a thread for each connection.
pub(crate) struct FastCgiServer {
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
}

impl FastCgiServer {
    /// Answers each request with the bytes that `answer` makes, and then closes the
    /// connection unless it is to stay open. Without an answer it is closed, too.
    pub(crate) fn start(
        socket: &Path,
        answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::start_for(socket, usize::MAX, answer)
    }

    /// As [`Self::start`], but listens no more after so many connections.
    pub(crate) fn start_for(
        socket: &Path,
        most: usize,
        answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let server = Self {
            asked: Arc::default(),
            connections: Arc::default(),
        };
        let (asked, connections) = (Arc::clone(&server.asked), Arc::clone(&server.connections));
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take(most) {
                connections.fetch_add(1, Relaxed);
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &asked, &*answer));
            }
        });
        server
    }

    /// As [`Self::start`], but with so many children as php-fpm has: each serves one
    /// connection, until its end.
    pub(crate) fn start_children(
        socket: &Path,
        children: usize,
        answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let server = Self {
            asked: Arc::default(),
            connections: Arc::default(),
        };
        let answer = Arc::new(answer);
        for _ in 0..children {
            let (listener, answer) = (listener.try_clone().unwrap(), Arc::clone(&answer));
            let (asked, connections) = (Arc::clone(&server.asked), Arc::clone(&server.connections));
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    connections.fetch_add(1, Relaxed);
                    serve(stream, &asked, &*answer);
                }
            });
        }
        server
    }

    /// As [`Self::start`], but reads nothing and never answers.
    pub(crate) fn start_deaf(socket: &Path) {
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            // They stay open.
            let mut all = Vec::new();
            all.extend(listener.incoming().flatten().take(100));
        });
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the last request.
    pub(crate) fn last(&self) -> Asked {
        self.asked().pop().unwrap_or_default()
    }

    /// Returns how many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

fn serve(mut stream: UnixStream, all: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Vec<u8>) {
    while let Some(asked) = read(&mut stream) {
        all.lock().unwrap().push(asked.clone());
        let answer = answer(&asked);
        let is_sent = stream.write_all(&answer).is_ok();
        if !is_sent || !asked.keep || answer.is_empty() {
            return;
        }
    }
}

fn read(stream: &mut UnixStream) -> Option<Asked> {
    let (mut asked, mut params) = (Asked::default(), Vec::new());
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        assert_eq!((head[0], head[2], head[3]), (1, 0, 1), "version and id");
        let mut content = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
        stream.read_exact(&mut content).ok()?;
        stream.read_exact(&mut vec![0; head[6].into()]).ok()?;
        match (head[1], content.is_empty()) {
            (1, _) => {
                assert_eq!(content[..2], [0, 1], "the role of a responder");
                asked.keep = content[2] == 1;
            }
            (4, false) => params.extend(content),
            (4, true) => asked.params = decoded(&params),
            (5, false) => asked.body.extend(content),
            (5, true) => return Some(asked),
            (other, _) => panic!("a record of type {other}"),
        }
    }
}

fn decoded(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut params = BTreeMap::new();
    while !bytes.is_empty() {
        let lengths = [(); 2].map(|()| {
            let long = bytes[0] & 0x80 != 0;
            let (length, rest) = bytes.split_at(if long { 4 } else { 1 });
            bytes = rest;
            match *length {
                [short] => usize::from(short),
                [a, b, c, d] => u32::from_be_bytes([a & 0x7f, b, c, d]) as usize,
                _ => unreachable!(),
            }
        });
        let [name, value] = lengths.map(|length| {
            let (part, rest) = bytes.split_at(length);
            bytes = rest;
            String::from_utf8(part.to_vec()).unwrap()
        });
        assert!(params.insert(name.clone(), value).is_none(), "{name} twice");
    }
    params
}

/// Makes a record.
pub(crate) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let padding = u8::try_from(content.len() % 3).unwrap();
    let mut record = vec![1, kind, 0, 1, high, low, padding, 0];
    record.extend_from_slice(content);
    record.resize(record.len() + usize::from(padding), 0);
    record
}

/// Makes a whole answer of this output.
pub(crate) fn output(text: &str) -> Vec<u8> {
    let pieces = text.as_bytes().chunks(60_000);
    let mut answer: Vec<u8> = pieces.flat_map(|piece| record(STDOUT, piece)).collect();
    answer.extend(record(STDOUT, b""));
    answer.extend(record(END, &[0; 8]));
    answer
}

pub(crate) const END: u8 = 3;
pub(crate) const STDOUT: u8 = 6;
pub(crate) const STDERR: u8 = 7;
