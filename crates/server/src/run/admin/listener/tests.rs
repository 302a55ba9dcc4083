use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

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

/// Passes a descriptor as the kernel does with `SCM_RIGHTS`.
fn passed(listener: &Listener) -> OwnedFd {
    listener.descriptor().try_clone_to_owned().unwrap()
}

#[tokio::test]
async fn a_unix_socket_goes_to_another_process_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let address = Address::Unix(path.clone());
    let old = bind(&path).await.unwrap();
    let handle = old.handle();
    // Connected to the one, accepted by the other.
    let mut client = UnixStream::connect(&path).await.unwrap();
    let new = Listener::inherit(&address, handle.descriptor().unwrap()).unwrap();
    assert_eq!(new.address().unwrap(), address);
    handle.leave_file();
    new.handle().take_file();
    drop(old);
    assert!(handle.descriptor().is_err());
    handle.take_file();
    let mut accepted = new.accept().await.unwrap();
    client.write_all(b"a").await.unwrap();
    assert_eq!(accepted.read_u8().await.unwrap(), b'a');
    UnixStream::connect(&path).await.unwrap();

    // A process that fails to start leaves the file.
    drop(Listener::inherit(&address, passed(&new)).unwrap());
    UnixStream::connect(&path).await.unwrap();
    drop(new);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_socket_of_another_address_is_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let unix = bind(&path).await.unwrap();
    let any = Address::Tcp(([127, 0, 0, 1], 0).into());
    let tcp = Listener::bind(&any).await.unwrap();
    let bound = tcp.address().unwrap();
    for (listener, address) in [
        (&unix, any.clone()),
        (&unix, Address::Unix(folder.path().join("other.sock"))),
        (&unix, Address::Unix(folder.path().join("admin"))),
        (&tcp, Address::Unix(path.clone())),
        (&tcp, Address::Tcp(([127, 0, 0, 1], 1).into())),
        (&tcp, Address::Tcp(([127, 0, 0, 2], 0).into())),
    ] {
        let error = Listener::inherit(&address, passed(listener)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{address}");
    }
    for address in [&any, &bound] {
        let taken = Listener::inherit(address, passed(&tcp)).unwrap();
        assert_eq!(taken.address().unwrap(), bound);
    }
    let stream = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(Listener::inherit(&any, stream.into()).is_err());
    // The new process listens elsewhere: this file goes.
    drop(unix);
    assert!(!path.exists());
    // The file went meanwhile.
    let unix = bind(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    let taken = Listener::inherit(&Address::Unix(path.clone()), passed(&unix));
    assert!(taken.is_err());
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
