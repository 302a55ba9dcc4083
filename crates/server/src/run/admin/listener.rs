//! Socket of the admin listener: a TCP address or a Unix socket.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};
use std::process;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

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
pub enum Listener {
    /// Bound to a TCP address.
    Tcp(TcpListener),
    /// Bound to a file.
    Unix(UnixSocket),
}

/// Unix socket that removes its file when it is dropped.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

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
        match address {
            Address::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Address::Unix(path) => Ok(Self::Unix(UnixSocket::bind(path)?)),
        }
    }

    /// Returns the address as the system bound it.
    ///
    /// # Errors
    /// If the system can't tell it.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Self::Unix(socket) => Address::Unix(socket.path.clone()),
        })
    }

    /// Returns who can reach it.
    pub(super) fn audience(&self) -> Audience {
        match self {
            Self::Tcp(_) => Audience::Network,
            Self::Unix(_) => Audience::Operator,
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Box<dyn Socket>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix(socket) => Box::new(socket.listener.accept().await?.0),
        })
    }
}

impl UnixSocket {
    /// Binds beside `path` and renames: no client can connect before the mode
    /// is set, and a stale socket is replaced atomically.
    fn bind(path: &Path) -> io::Result<Self> {
        refuse_foreign(path)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", process::id()));
        let beside = PathBuf::from(beside);
        // A former process with this id may have left the file.
        if fs::symlink_metadata(&beside).is_ok_and(|left| left.file_type().is_socket()) {
            fs::remove_file(&beside)?;
        }
        let listener = UnixListener::bind(&beside)?;
        let named = fs::set_permissions(&beside, Permissions::from_mode(0o600))
            .and_then(|()| fs::symlink_metadata(&beside))
            .and_then(|metadata| fs::rename(&beside, path).map(|()| metadata.ino()));
        if named.is_err() {
            // The first error is reported, not this one.
            let _ = fs::remove_file(&beside);
        }
        Ok(Self {
            listener,
            path: path.to_owned(),
            inode: named?,
        })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_own = |metadata: fs::Metadata| metadata.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            // The next start replaces a file that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses to replace a file that is no socket, and a socket with a listener.
fn refuse_foreign(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !metadata.file_type().is_socket() {
        let text = "another file is in its place; remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match BlockingUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            let text = "another process listens on it";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;

    async fn bind(path: &Path) -> io::Result<Listener> {
        Listener::bind(&Address::Unix(path.to_owned())).await
    }

    #[tokio::test]
    async fn a_unix_socket_is_its_owners_alone_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let listener = bind(&path).await.unwrap();
        let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let mut client = UnixStream::connect(&path).await.unwrap();
        let mut accepted = listener.accept().await.unwrap();
        client.write_all(b"a").await.unwrap();
        assert_eq!(accepted.read_u8().await.unwrap(), b'a');
        assert_eq!(
            listener.address().unwrap().to_string(),
            format!("unix:{}", path.display())
        );
        drop(listener);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let other = bind(&path).await.unwrap();
        let error = bind(&path).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);

        // The socket file of a process that was killed.
        drop(other);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = bind(&path).await.unwrap();
        let connected = UnixStream::connect(&path).await;
        connected.unwrap();
        drop(listener);

        let file = folder.path().join("file");
        fs::write(&file, "precious").unwrap();
        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        for taken in [&file, &link] {
            let error = bind(taken).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&file).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn a_listener_leaves_the_socket_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let first = bind(&path).await.unwrap();
        fs::remove_file(&path).unwrap();
        let _second = bind(&path).await.unwrap();
        drop(first);
        assert!(path.exists());
    }
}
