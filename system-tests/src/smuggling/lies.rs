//! Upstreams that lie: answers that clients and servers may read differently.

mod scripts;
mod table;

use std::net::SocketAddr;

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub(super) use self::table::Lie;

use self::scripts::SCRIPT_LIES;
use self::table::LIES;
use super::attack::{Attack, Attacker, Told, source};
use super::case::{Case, Expect, HOSTS, Piece, Request, SCRIPT_LIAR, Stream, id};

/// Upstream of this process.
pub(super) struct Liar {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Liar {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // The client judges how a connection ends.
                tokio::spawn(async move { answer(socket).await.ok() });
            }
        });
        Ok(Self { address, accepting })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Reads the head of a request without content; none at the connection's end. `held` keeps
/// what follows it.
pub(super) async fn read_head(
    socket: &mut TcpStream,
    held: &mut Vec<u8>,
) -> Result<Option<String>> {
    loop {
        if let Some(end) = held.windows(4).position(|part| part == b"\r\n\r\n") {
            let head: Vec<_> = held.drain(..end + 4).collect();
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if socket.read_buf(held).await? == 0 {
            return Ok(None);
        }
    }
}

/// Answers requests of a connection: `/case/ID/N` with the lie of that number, all
/// others as an echo.
async fn answer(mut socket: TcpStream) -> Result<()> {
    let mut held = Vec::new();
    while let Some(head) = read_head(&mut socket, &mut held).await? {
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        let Some(lie) = asked_for(target, &LIES) else {
            let text = format!("{method} {target} 0\n");
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
            socket.write_all(answer.as_bytes()).await?;
            continue;
        };
        for (number, part) in lie.bytes().split("{pause}").enumerate() {
            if number > 0 {
                sleep(PAUSE).await;
            }
            let part: Vec<u8> = part.chars().map(|one| one as u8).collect();
            socket.write_all(&part).await?;
        }
        if lie.closes {
            break;
        }
    }
    Ok(())
}

/// Returns the lie that a target of a script asks for, if any.
pub(super) fn of_script(target: &str) -> Option<&'static Lie> {
    asked_for(target, &SCRIPT_LIES)
}

fn asked_for(target: &str, lies: &'static [Lie]) -> Option<&'static Lie> {
    let rest = target.strip_prefix("/case/")?;
    lies.get(rest.split('/').nth(1)?.parse::<usize>().ok()?)
}

/// Runs all lies over both protocols; returns how many, and how many were believed.
pub(super) async fn run(attacker: &Attacker, first: usize, only: &str) -> Result<(usize, usize)> {
    let (mut count, mut believed) = (0, 0);
    let of_upstream = LIES.iter().enumerate().map(|it| ("lie", HOSTS[3], it));
    let of_script = SCRIPT_LIES.iter().enumerate();
    let of_script = of_script.map(|it| ("lie of a script", SCRIPT_LIAR, it));
    for (group, host, (number, lie)) in of_upstream.chain(of_script) {
        for request in [text(lie, number), stream(lie, number)] {
            let protocol = match request {
                Request::Text(_) => "HTTP/1.1",
                Request::Stream(_) => "HTTP/2",
            };
            let name = format!("{group}: {} over {protocol}", lie.name);
            if !name.contains(only) {
                continue;
            }
            let case = Case {
                name,
                request,
                method: lie.method,
                expect: Expect::Refused,
                demand: None,
            };
            let id = id(first + count);
            let attack = Attack {
                case: &case,
                id: &id,
                host,
                from: source(first + count)?,
                cut: usize::MAX,
                alone: lie.comes_later().then_some(4 * PAUSE),
            };
            let told = attacker.attack(attack).await;
            let told = told.with_context(|| case.name.clone())?;
            count += 1;
            if let Some(complaint) = complaint(lie, &id, &told) {
                believed += 1;
                println!("desync: {}: {complaint}", case.name);
            }
        }
    }
    Ok((count, believed))
}

/// Says what a client believed that it must not.
fn complaint(lie: &Lie, id: &str, told: &Told) -> Option<String> {
    if let Some(case) = &told.case
        && case.complete
        && !case.reset
        && case.status < 400
    {
        let body = String::from_utf8_lossy(&case.body);
        if lie.honest.is_none_or(|honest| body != honest) {
            return Some(format!("told {} {body:?}", case.status));
        }
    }
    let canary = |which| format!("GET /canary/{id}.{which} 0\n").into_bytes();
    if let Some(same) = &told.same
        && same.status == 200
        && same.body != canary("same")
    {
        return Some(format!("the next request was told {same:?}"));
    }
    let other = told.other.as_ref();
    let right = other.is_some_and(|other| other.status == 200 && other.body == canary("other"));
    (!right).then(|| format!("another client was told {other:?}"))
}

fn text(lie: &Lie, number: usize) -> Request {
    Request::Text(format!(
        "{} /case/{{id}}/{number} HTTP/1.1\r\nHost: {{host}}\r\n\r\n",
        lie.method
    ))
}

fn stream(lie: &Lie, number: usize) -> Request {
    let fields = [
        (":method", lie.method.to_owned()),
        (":scheme", "https".to_owned()),
        (":authority", "{host}".to_owned()),
        (":path", format!("/case/{{id}}/{number}")),
    ];
    Request::Stream(Stream {
        fields: fields
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
        pieces: Vec::<Piece>::new(),
    })
}

/// Longer than a server takes to put a connection back into its pool.
pub(super) const PAUSE: Duration = Duration::from_millis(30);
