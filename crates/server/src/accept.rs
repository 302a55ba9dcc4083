//! Accepting: a permit first, then a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::connections::{Connections, Place};

/// Accepts for as long as it is polled. Without a permit connections wait in
/// the kernel's queue, where they cost nearly nothing.
pub(crate) async fn accept(
    listener: TcpListener,
    connections: Arc<Connections>,
    serve: impl Fn(TcpStream, SocketAddr, Place),
) {
    let mut pause = FIRST_PAUSE;
    while let Some(permit) = connections.permit().await {
        match listener.accept().await {
            Ok((socket, peer)) => {
                pause = FIRST_PAUSE;
                serve(socket, peer, connections.enter(peer.ip().into(), permit));
            }
            Err(error) if is_the_connections(&error) => {}
            // EMFILE and the like stay until something is closed, and the
            // listener stays readable: without a pause this would spin.
            Err(error) => {
                tracing::error!(%error, ?pause, "no connection can be accepted");
                sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
    }
}

/// Errors of a connection that ended before it was accepted (accept(2)).
fn is_the_connections(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    ) || error.raw_os_error() == Some(libc::EPROTO)
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
