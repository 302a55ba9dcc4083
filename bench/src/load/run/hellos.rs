//! Handshakes that wait at the server.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::Run;
use crate::load::client::Part;
use crate::load::failure::Failure;
use crate::load::tally::{Outcome, Tally};

/// Connections that have sent a ClientHello, or half of one, by their hosts.
pub(crate) struct Hellos {
    open: Vec<(String, TcpStream)>,
    tally: Tally,
    begun: Instant,
}

impl Run {
    /// Opens as many connections as `concurrency` says, and sends this part of a
    /// ClientHello on each.
    pub(crate) async fn hellos(&self, part: Part) -> Result<Hellos> {
        let mut hellos = Hellos {
            open: Vec::with_capacity(self.concurrency),
            tally: Tally::new()?,
            begun: Instant::now(),
        };
        for _ in 0..self.concurrency {
            let host = self.next_name();
            match self.client.hello(&host, part).await {
                Ok(socket) => hellos.open.push((host, socket)),
                Err(failure) => hellos.tally.failure(&failure, &host),
            }
        }
        Ok(hellos)
    }
}

impl Hellos {
    /// Counts the connections on which the server is still silent.
    pub(crate) async fn outcome(&self) -> Outcome {
        // The runtime learns what has arrived.
        sleep(Duration::from_millis(1)).await;
        let mut tally = self.tally.clone();
        let elapsed = self.begun.elapsed();
        for (host, socket) in &self.open {
            match socket.try_read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => tally.operation(elapsed),
                Ok(_) => tally.failure(&Failure::Response("no longer waits"), host),
                Err(error) => tally.failure(&Failure::Exchange(error), host),
            }
        }
        tally.outcome(elapsed)
    }
}
