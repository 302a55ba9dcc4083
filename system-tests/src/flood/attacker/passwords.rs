//! Wrong passwords, from many client networks.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use data_encoding::BASE64;
use tokio::io::{self, AsyncWriteExt, sink, split};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::client::TlsStream;

use super::Attacker;
use crate::hosting::frames::{END_STREAM, block, headers, preface};

impl Attacker {
    /// Returns an address of the next network: of 16,384 from 127.NET.0.0/24 on.
    pub(super) fn next_network(&self, net: u8) -> Ipv4Addr {
        let opened = self.shared.connections.load(Relaxed);
        let [.., high, low] = opened.to_be_bytes();
        Ipv4Addr::new(127, net + high % 64, low, 1)
    }

    /// Sends wrong passwords at a steady rate, answered or not, then ends the connection: the
    /// next one is of another network. Every other one is of a name that is no user's.
    pub(super) async fn wrong_passwords(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        let writing = async {
            to.write_all(&preface(65_535)).await?;
            let mut ticks = interval(PAUSE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for attempt in 0..ATTEMPTS {
                ticks.tick().await;
                let request = self.attempt(2 * attempt + 1);
                self.write(&mut to, &request, 1).await?;
            }
            Ok(())
        };
        let mut nowhere = sink();
        tokio::select! {
            ended = writing => ended,
            ended = io::copy(&mut from, &mut nowhere) => ended.map(drop),
        }
    }

    /// Makes a request with a wrong password.
    fn attempt(&self, stream: u32) -> Vec<u8> {
        let name = if stream % 4 == 1 { "ann" } else { "nobody" };
        let number = self.shared.frames.load(Relaxed);
        let pair = BASE64.encode(format!("{name}:{number}").as_bytes());
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", &self.target.host),
            (":path", &self.target.path),
            ("authorization", &format!("Basic {pair}")),
        ];
        headers(stream, END_STREAM, &block(&fields))
    }
}

/// Connections at the same time: with [`PAUSE`], 1,000 wrong passwords a second.
pub(super) const CONNECTIONS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// Wrong passwords of a connection: twice as many as a network may send at once.
const ATTEMPTS: u32 = 20;
