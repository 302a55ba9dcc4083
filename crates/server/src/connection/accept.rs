//! The accept loop: takes a permit, then accepts a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use crate::connection::connections::Connections;

/// Accepts connections until the permits end. Without a permit, connections
/// wait in the kernel's backlog, where they cost almost nothing.
pub(crate) async fn accept(
    listener: TcpListener,
    connections: Arc<Connections>,
    serve: impl Fn(TcpStream, SocketAddr, OwnedSemaphorePermit),
) {
    let mut pause = FIRST_PAUSE;
    while let Some(permit) = connections.permit().await {
        match listener.accept().await {
            Ok((socket, peer)) => {
                pause = FIRST_PAUSE;
                serve(socket, peer, permit);
            }
            Err(error) if is_connection_error(&error) => {}
            // EMFILE and ENFILE last until a descriptor is closed, and the
            // listener stays readable: without a pause, the loop would spin.
            Err(error) => {
                tracing::error!(%error, ?pause, "accept failed: new connections wait");
                sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
    }
}

/// Tells errors of one connection that ended before it was accepted (accept(2))
/// from errors of the listener.
fn is_connection_error(error: &io::Error) -> bool {
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
