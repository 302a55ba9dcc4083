//! Refuses a connection in a way that the client can read: alert or HTTP
//! answer, FIN, then a bounded wait.

use std::future::poll_fn;
use std::io::IoSlice;

use rustls::AlertDescription;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::timeouts::LINGER;
use crate::tls::{LINGER_LIMIT, poll_write_last, receive};

/// Returns the TLS record of a fatal alert (RFC 8446, section 6): legacy version 3.3, two
/// bytes, fatal.
pub(crate) fn alert(description: AlertDescription) -> [u8; 7] {
    [0x15, 3, 3, 0, 2, 2, description.into()]
}

/// Sends `bytes`, shuts the sending side down, and discards what the client
/// still sends. Closing a socket with unread input sends a reset, which would
/// destroy bytes that the client has not read. Bounded by [`LINGER`] and
/// [`LINGER_LIMIT`].
pub(crate) async fn refuse(mut socket: TcpStream, mut bytes: &[u8]) {
    let farewell = async {
        while !bytes.is_empty() {
            let bufs = [IoSlice::new(bytes)];
            let written = poll_fn(|cx| poll_write_last(&socket, cx, &bufs)).await?;
            bytes = &bytes[written..];
        }
        socket.shutdown().await?;
        let mut drained = 0;
        loop {
            match poll_fn(|cx| receive(&mut socket, cx, <[u8]>::len)).await? {
                0 => return std::io::Result::Ok(()),
                n => drained += n,
            }
            if drained > LINGER_LIMIT {
                return Ok(());
            }
        }
    };
    // The client has [`LINGER`] to read the bytes, not longer.
    let _ = timeout(LINGER, farewell).await;
}

/// Answer to plain HTTP on a TLS port.
pub(crate) const SPEAKS_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 80\r\n\
    Connection: close\r\n\
    \r\n\
    This port speaks HTTPS, the request came without TLS. Use https:// in the URL.\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_400_says_its_own_length() {
        let text = std::str::from_utf8(SPEAKS_HTTPS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }

    #[test]
    fn an_alert_is_seven_bytes() {
        assert_eq!(
            alert(AlertDescription::UnrecognisedName),
            [21, 3, 3, 0, 2, 2, 112]
        );
    }
}
