//! WebSockets through the proxy, each message of which must come back.

use std::rc::Rc;
use std::time::Duration;

use sekisho_bench::load::Failure;
use sekisho_bench::load::client::Client;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::field::{Field, Kind, Note, SOCKET_OUTLIVES};
use super::http1::Connection;
use super::setting::APP;

pub(super) struct Socket {
    connection: Connection,
    sent: u64,
}

impl Socket {
    pub(super) async fn open(client: &Client) -> Result<Self, Failure> {
        let mut connection = Connection::open(client, APP).await?;
        let opening = async {
            let request = format!(
                "GET /echo HTTP/1.1\r\nHost: {APP}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            connection.send(request.as_bytes()).await?;
            match connection.head().await?.status {
                101 => Ok(()),
                status => Err(Failure::Status(status)),
            }
        };
        client.bounded(opening).await?;
        Ok(Self {
            connection,
            sent: 0,
        })
    }

    /// Sends a message with the next number, and waits for its echo.
    pub(super) async fn echo(&mut self, client: &Client) -> Result<(), Failure> {
        self.sent += 1;
        let frame = frame(BINARY, &self.sent.to_be_bytes().repeat(REPEATS));
        self.exchange(client, &frame).await
    }

    /// Ends the WebSocket as RFC 6455 says, section 7.
    pub(super) async fn close(mut self, client: &Client) -> Result<(), Failure> {
        self.exchange(client, &frame(CLOSE, &NORMAL)).await
    }

    /// Reads until the server ends the connection, with an error or without.
    pub(super) async fn ended(&mut self) {
        // A cut WebSocket has no more to say.
        let _ = self.connection.exactly(1).await;
    }

    async fn exchange(&mut self, client: &Client, frame: &[u8]) -> Result<(), Failure> {
        let exchange = async {
            self.connection.send(frame).await?;
            match self.connection.exactly(frame.len()).await? == frame {
                true => Ok(()),
                false => Err(Failure::Response("another message than the one sent")),
            }
        };
        client.bounded(exchange).await
    }
}

/// Keeps a WebSocket open and checks it, until the load ends. It lives through two
/// hand-overs; before a third the client opens another one.
pub(super) async fn hold(field: Rc<Field>, client: Rc<Client>, number: usize) {
    loop {
        let opened = field.handovers();
        match Socket::open(&client).await {
            Ok(mut socket) => {
                field.socket(number, Some(opened));
                let result = check(&field, &client, &mut socket, opened).await;
                field.socket(number, None);
                match result {
                    Ok(stops) => {
                        let due = Instant::now();
                        let closed = socket.close(&client).await;
                        field.record(Kind::Websockets, due, closed);
                        if stops {
                            return;
                        }
                        field.note(Note::Renewed);
                    }
                    Err(failure) => field.failed(Kind::Websockets, &failure),
                }
            }
            Err(failure) => {
                field.failed(Kind::Websockets, &failure);
                let stopped = tokio::time::timeout(MESSAGES, field.stopped()).await;
                if stopped.is_ok() {
                    return;
                }
            }
        }
    }
}

/// Echoes at a constant rate; returns whether the load ends.
async fn check(
    field: &Field,
    client: &Client,
    socket: &mut Socket,
    opened: u32,
) -> Result<bool, Failure> {
    let mut ticks = interval(MESSAGES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let due = tokio::select! {
            due = ticks.tick() => due,
            () = field.stopped() => return Ok(true),
        };
        socket.echo(client).await?;
        field.took(Kind::Websockets, due.elapsed());
        if field.handovers() - opened >= SOCKET_OUTLIVES {
            return Ok(false);
        }
    }
}

/// Encodes a frame of less than 126 bytes, masked with zeros: the upstream sends it back as
/// it came.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u8;
    [&[0x80 | opcode, 0x80 | length, 0, 0, 0, 0], payload].concat()
}

const BINARY: u8 = 2;
const CLOSE: u8 = 8;
/// Status of a close frame: 1000.
const NORMAL: [u8; 2] = [0x03, 0xe8];
/// Numbers in a message.
const REPEATS: usize = 8;
/// Between two messages of a WebSocket.
const MESSAGES: Duration = Duration::from_millis(200);
