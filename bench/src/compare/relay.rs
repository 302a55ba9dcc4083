//! Relay before a service: delays all bytes by half a round trip in each direction, as a
//! network would. Threads sleep to the microsecond; tokio's clock has steps of 1 ms.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Running relay. Dropping it ends it; its connections end with those of either side.
pub(crate) struct Relay {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Relay {
    /// Starts a relay to a port on this machine.
    pub(crate) fn start(port: u16, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        thread::spawn(move || {
            for accepted in listener.incoming() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // The service may be gone: the server then meets an end.
                let _ = accepted.and_then(|near| join(near, port, round_trip / 2));
            }
        });
        Ok(Self { address, ended })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Joins a connection with a new one to the service.
fn join(near: TcpStream, port: u16, delay: Duration) -> io::Result<()> {
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    pass(near.try_clone()?, far.try_clone()?, delay);
    pass(far, near, delay);
    Ok(())
}

/// Passes bytes on in one direction: one thread reads, the other writes what is due.
fn pass(from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, receiver) = channel();
    thread::spawn(move || receive(from, &sender, delay));
    thread::spawn(move || send(to, &receiver));
}

fn receive(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + delay;
        if sender.send((due, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn send(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

const BUFFER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_its_time_and_several_share_it() {
        let service = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = service.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = service.accept().unwrap();
            let mut writer = stream.try_clone().unwrap();
            io::copy(&mut stream, &mut writer)
        });
        let round_trip = Duration::from_millis(40);
        let relay = Relay::start(port, round_trip).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        let begin = Instant::now();
        for _ in 0..10 {
            client.write_all(b"ping").unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        let mut answer = [0; 40];
        client.read_exact(&mut answer).unwrap();
        let took = begin.elapsed();
        assert_eq!(answer, *b"pingpingpingpingpingpingpingpingpingping");
        assert!(took >= round_trip && took < round_trip * 8, "{took:?}");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut answer).unwrap(), 0);
    }

    #[test]
    fn a_dropped_relay_accepts_no_more() {
        let relay = Relay::start(9, Duration::ZERO).unwrap();
        let address = relay.address;
        drop(relay);
        let refused = || TcpStream::connect(address).is_err();
        assert!((0..100).any(|_| {
            thread::sleep(Duration::from_millis(10));
            refused()
        }));
    }
}
