//! Socket between two processes of one server: whole messages, with descriptors.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::message::Message;

/// End of a socket pair (`SOCK_SEQPACKET`). Its calls block, and both processes may use it
/// before they have a runtime.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

/// [`Link`] on a runtime. Tokio's type for datagrams waits for any socket, and reads and
/// writes nothing here.
#[derive(Debug)]
pub(crate) struct Channel(UnixDatagram);

/// Message as it arrives, with what it carries.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    /// Bytes behind the message: secrets among them.
    pub(crate) tail: Zeroizing<Vec<u8>>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Link {
    /// Makes both ends. Neither outlives an exec, unless it is given to the program as its
    /// standard input.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), other))
    }

    /// Takes an end that another process gave.
    pub(crate) fn of(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Sends a message with bytes behind it and at most [`MAX_DESCRIPTORS`] descriptors.
    pub(crate) fn send(
        &self,
        message: &Message,
        tail: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        send(&self.0, message, tail, descriptors)
    }

    /// Waits for the next message. None if the other end is closed.
    pub(crate) fn receive(&self) -> io::Result<Option<Received>> {
        receive(&self.0)
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> Self {
        link.0
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// Registers a link with the current runtime.
    pub(crate) fn new(link: Link) -> io::Result<Self> {
        let socket = net::UnixDatagram::from(link.0);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    /// Takes the link off the runtime.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn into_link(self) -> io::Result<Link> {
        Ok(Link(self.0.into_std()?.into()))
    }

    /// Sends as [`Link::send`] does.
    pub(crate) async fn send(
        &self,
        message: &Message,
        tail: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        loop {
            self.0.writable().await?;
            let send = || send(&self.0, message, tail, descriptors);
            match self.0.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
    }

    /// Sends a message that carries nothing, within [`TELL`]. A process that has ended or
    /// hangs does not get it.
    pub(crate) async fn tell(&self, message: &Message) {
        let _ = timeout(TELL, self.send(message, &[], &[])).await;
    }

    /// Receives as [`Link::receive`] does. Cancel-safe: a message is taken whole.
    pub(crate) async fn receive(&self) -> io::Result<Option<Received>> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Receives as [`Self::receive`] does, for one task at a time.
    pub(crate) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Received>>> {
        loop {
            ready!(self.0.poll_recv_ready(cx))?;
            match self.0.try_io(Interest::READABLE, || receive(&self.0)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => return Poll::Ready(received),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn send(
    to: impl AsFd,
    message: &Message,
    tail: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let head = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let parts = [IoSlice::new(&head), IoSlice::new(b"\n"), IoSlice::new(tail)];
    // A message is sent whole or not at all.
    sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(from: impl AsFd) -> io::Result<Option<Received>> {
    let mut bytes = Zeroizing::new(vec![0; MAX_MESSAGE]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = match recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
        Ok(received) => received,
        // The other process ended while it had bytes to read.
        Err(rustix::io::Errno::CONNRESET) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        let text = "a message of the other process did not fit: are enough files allowed?";
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    let bytes = &bytes[..received.bytes];
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or(ErrorKind::InvalidData)?;
    Ok(Some(Received {
        message: serde_json::from_slice(&bytes[..end])?,
        tail: Zeroizing::new(bytes[end + 1..].to_vec()),
        descriptors,
    }))
}

/// Longest wait for a process that takes no messages: others must be heard.
const TELL: Duration = Duration::from_millis(200);
/// Descriptors of one message: Linux takes 253.
pub(crate) const MAX_DESCRIPTORS: usize = 128;
/// Bytes behind one message. The kernel queues some 200 KiB by default.
pub(crate) const MAX_TAIL: usize = 32 << 10;
/// Bytes of a message: its own, with an address for each descriptor, and its tail.
const MAX_MESSAGE: usize = MAX_TAIL + (32 << 10);
