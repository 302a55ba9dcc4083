//! Ports for services that can't bind port 0.
//!
//! A free port that the kernel names may be given to another socket before the service
//! binds it. Ports here lie below those that the kernel gives, and each is reserved for
//! the process that asked, as long as it runs.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns a free port.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = LAST - FIRST + 1;
    // Processes that start together begin at different ports.
    let begin = std::process::id().wrapping_mul(STEP) % u32::from(count);
    let begin = u16::try_from(begin).expect("below the count");
    (0..count)
        .map(|_| FIRST + (begin + NEXT.fetch_add(1, Ordering::Relaxed) % count) % count)
        .find(|port| reserve(*port))
        .expect("a free port")
}

/// Returns free ports, each another one.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// Reserves a port that no socket of this machine is bound to. A socket whose abstract
/// name has the port tells that to other test processes, and is closed with this one.
fn reserve(port: u16) -> bool {
    static RESERVED: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());
    let name = format!("sekisho-test-port-{port}");
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    let Ok(socket) = UnixDatagram::bind_addr(&name) else {
        return false;
    };
    let address = (Ipv4Addr::UNSPECIFIED, port);
    if TcpListener::bind(address).is_err() || UdpSocket::bind(address).is_err() {
        return false;
    }
    RESERVED.lock().expect("nothing panics here").push(socket);
    true
}

/// Ports above those of usual services, and below the kernel's own: see
/// `net.ipv4.ip_local_port_range`.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_767;
/// A prime: more ports than a test process takes.
const STEP: u32 = 101;
