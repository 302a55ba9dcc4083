//! Server that sites pass requests on to.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Starts a server that answers each connection with this text, as long as the
/// tests run.
pub(crate) fn upstream(text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that leaves is its own matter.
            let _ = answer(&stream, text);
        }
    });
    address
}

/// Answers a request without a body.
fn answer(mut stream: &TcpStream, text: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let length = text.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + text).as_bytes())
}
