//! TCP proxy to a service, which a test can cut.

use std::io;
use std::net::TcpListener as StdListener;
use std::thread;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Proxy from a port of 127.0.0.1 to another one. Dropping it ends its
/// connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: watch::Sender<State>,
}

/// Way to cut connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No byte arrives, and no side gets an error; bytes on their way arrive
    /// after `open`.
    Hang,
    /// Connections are reset, also new ones.
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed(Cut),
}

impl Proxy {
    /// Starts an open proxy in front of a port of 127.0.0.1.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn before(service: u16) -> Self {
        let listener = StdListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = watch::Sender::new(State::Open);
        let watched = state.subscribe();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(accept(listener, service, watched));
        });
        Self { port, state }
    }

    /// Returns the proxy's own port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections, also later ones.
    pub fn cut(&self, how: Cut) {
        self.state.send_replace(State::Closed(how));
    }

    /// Forwards all connections again.
    pub fn open(&self) {
        self.state.send_replace(State::Open);
    }
}

async fn accept(listener: StdListener, service: u16, mut state: watch::Receiver<State>) {
    listener.set_nonblocking(true).expect("it is a socket");
    let listener = TcpListener::from_std(listener).expect("a runtime with sockets");
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted.expect("files are left").0,
            gone = state.changed() => match gone {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let state = state.clone();
        tokio::spawn(async move {
            // A missing service is handled like one that closes the connection.
            let _ = carry(client, service, state).await;
        });
    }
}

async fn carry(
    mut client: TcpStream,
    service: u16,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut watched = state.clone();
    let reset = async {
        // An error means that the proxy was dropped.
        let _ = watched
            .wait_for(|state| *state == State::Closed(Cut::Reset))
            .await;
    };
    let through = async {
        opened(&mut state).await;
        let mut server = TcpStream::connect(("127.0.0.1", service)).await?;
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            ended = pump(from_client, to_server, state.clone()) => ended,
            ended = pump(from_server, to_client, state.clone()) => ended,
        }
    };
    let reset = tokio::select! {
        biased;
        () = reset => true,
        ended = through => {
            ended?;
            false
        }
    };
    if reset {
        client.set_zero_linger()?;
    }
    Ok(())
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        opened(&mut state).await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

async fn opened(state: &mut watch::Receiver<State>) {
    if state.wait_for(|state| *state == State::Open).await.is_err() {
        // The proxy was dropped: the other branch ends the connection.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = socket.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        port
    }

    #[tokio::test]
    async fn what_hangs_arrives_later_and_what_is_reset_does_not() {
        let proxy = Proxy::before(echo().await);
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .unwrap();
        let mut byte = [0];
        client.write_all(b"a").await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
        proxy.cut(Cut::Hang);
        client.write_all(b"b").await.unwrap();
        let waited = std::time::Duration::from_millis(50);
        let read = tokio::time::timeout(waited, client.read(&mut byte)).await;
        assert!(read.is_err(), "{read:?}");
        proxy.open();
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"b");
        proxy.cut(Cut::Reset);
        let error = client.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        proxy.open();
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .unwrap();
        client.write_all(b"c").await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"c");
    }
}
