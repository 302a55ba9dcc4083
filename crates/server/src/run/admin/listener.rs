//! Socket of the admin listener: a TCP address or a Unix socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use unix::UnixSocket;

mod unix;

use super::Audience;

/// Address of the admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP address, to which any local or remote process may connect.
    Tcp(SocketAddr),
    /// A Unix socket, to which only its owner may connect.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    /// Shows the address as it is written in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Bound socket of the admin listener.
#[derive(Debug)]
pub struct Listener(Arc<Bound>);

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

/// Handle of a listener that serves, by which it goes to another process or comes from one.
/// The handle does not keep the socket open.
#[derive(Clone, Debug)]
pub struct ListenerHandle(Weak<Bound>);

/// Stream of either kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

impl Listener {
    /// Binds an address. A socket file that a former process left is replaced.
    /// A socket with a listener, or any other file, is not.
    ///
    /// # Errors
    /// The reason, if the address can't be bound.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        Ok(Self::of(match address {
            Address::Tcp(address) => Bound::Tcp(TcpListener::bind(address).await?),
            Address::Unix(path) => Bound::Unix(UnixSocket::bind(path)?),
        }))
    }

    /// Listens on a socket that another process listens on, too. The file of a Unix socket
    /// stays the other's: a process that fails to start must not remove it. By
    /// [`ListenerHandle::take_file`] it becomes this one's.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it does not listen on this address: bind the
    /// address then. The other process removes its own file when it ends.
    pub fn inherit(address: &Address, descriptor: OwnedFd) -> io::Result<Self> {
        if !SockRef::from(&descriptor).is_listener()? {
            return Err(not_of(address));
        }
        Ok(Self::of(match address {
            Address::Tcp(wanted) => Bound::Tcp(inherit_tcp(*wanted, descriptor)?),
            Address::Unix(path) => Bound::Unix(UnixSocket::inherit(path, descriptor)?),
        }))
    }

    /// Returns the descriptor, to be passed to another process. Accepting goes on.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }

    /// Returns a handle for the time in which the listener serves.
    #[must_use]
    pub fn handle(&self) -> ListenerHandle {
        ListenerHandle(Arc::downgrade(&self.0))
    }

    fn of(bound: Bound) -> Self {
        Self(Arc::new(bound))
    }

    /// Returns the address as the system bound it.
    ///
    /// # Errors
    /// If the system can't tell it.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match &*self.0 {
            Bound::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Bound::Unix(socket) => Address::Unix(socket.path.clone()),
        })
    }

    /// Returns who can reach it.
    pub(super) fn audience(&self) -> Audience {
        match &*self.0 {
            Bound::Tcp(_) => Audience::Network,
            Bound::Unix(_) => Audience::Operator,
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Box<dyn Socket>> {
        Ok(match &*self.0 {
            Bound::Tcp(listener) => Box::new(listener.accept().await?.0),
            Bound::Unix(socket) => Box::new(socket.listener.accept().await?.0),
        })
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::of(Bound::Tcp(listener))
    }
}

impl ListenerHandle {
    /// Duplicates the descriptor, to be passed to another process.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the listener was dropped; the system's error if there
    /// is no descriptor left.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        let bound = self.0.upgrade().ok_or(io::ErrorKind::NotFound)?;
        bound.descriptor().try_clone_to_owned()
    }

    /// Leaves the socket file to the process that listens on it, too: this listener removes
    /// it no more.
    pub fn leave_file(&self) {
        self.set_file(false);
    }

    /// Takes over the socket file that another process left: this listener removes it when it
    /// is dropped.
    pub fn take_file(&self) {
        self.set_file(true);
    }

    fn set_file(&self, is_own: bool) {
        match self.0.upgrade().as_deref() {
            Some(Bound::Unix(socket)) => socket.has_file.store(is_own, Ordering::Relaxed),
            Some(Bound::Tcp(_)) | None => {}
        }
    }
}

impl Bound {
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket) => socket.listener.as_fd(),
        }
    }
}

/// Takes over a TCP socket. Port 0 of an address stands for any.
fn inherit_tcp(wanted: SocketAddr, descriptor: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdTcpListener::from(descriptor);
    let is_wanted = |bound: SocketAddr| {
        let is_port = wanted.port() == 0 || bound.port() == wanted.port();
        is_port && bound.ip() == wanted.ip()
    };
    if !listener.local_addr().is_ok_and(is_wanted) {
        return Err(not_of(&Address::Tcp(wanted)));
    }
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn not_of(address: &Address) -> io::Error {
    let text = format!("the socket handed over does not listen on {address}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests;
