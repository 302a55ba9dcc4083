//! Over one connection, a client of one tenant's host asks for hosts of another.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::own::Own;
use crate::hosting::frames::{self, ACK, SETTINGS, Streams, frame, preface};
use crate::hosting::{Host, Hosting, answers};

/// Asks from each host for each other one over HTTP/1.1 and HTTP/2; returns what to say.
pub(super) async fn run(binary: &Path) -> Result<String> {
    let hosting = Hosting::new(binary).await?;
    let mut upstreams = BTreeMap::new();
    let mut hosts = Vec::new();
    for (number, (name, tenant, also)) in (0..).zip(HOSTS) {
        let own = Own::start(number).await?;
        hosts.push(Host {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            site: json!({ "upstream": format!("http://{}", own.address) }),
            also: also.iter().map(|&name| name.to_owned()).collect(),
        });
        upstreams.insert(name, own);
    }
    hosting.put(&hosts).await?;
    let server = hosting.serve("workers = 1").await?;
    let (mut refused, mut served) = (0, 0);
    for alpn in ["http/1.1", "h2"] {
        let client = hosting.client(&server, alpn)?;
        for (first, tenant, also) in HOSTS {
            for (second, of, _) in HOSTS {
                let mut stream = client.connect(Ipv4Addr::LOCALHOST, first).await?;
                let asked = async {
                    match alpn {
                        "h2" => two(&mut stream, first, second).await,
                        _ => one(&mut stream, first, second).await,
                    }
                };
                let answers = timeout(DEADLINE, asked).await.context("it hangs")?;
                let answers = answers.with_context(|| format!("{alpn}: {first}, then {second}"))?;
                let shared = tenant == of && (first == second || also.contains(&second));
                let own = |name: &str| (200, upstreams[name].text(name, "/own"));
                let told = &answers[1];
                ensure!(answers[0] == own(first), "{first}: {answers:?}");
                ensure!(answers[2] == own(first), "{first} again: {answers:?}");
                if shared {
                    ensure!(
                        *told == own(second),
                        "{alpn}: {first}, then {second}: {told:?}"
                    );
                    served += 1;
                } else {
                    ensure!(told.0 == 421, "{alpn}: {first}, then {second}: {told:?}");
                    refused += 1;
                }
            }
        }
    }
    server.tell_to_end()?;
    server.ended().await?;
    Ok(format!(
        "over one connection, {refused} requests for other tenants' hosts and uncovered ones got \
         421, {served} for the same tenant's were served"
    ))
}

/// Status and body.
type Told = (u16, String);

/// Asks for the first host, the second, and the first again over HTTP/1.1.
async fn one(stream: &mut TlsStream<TcpStream>, first: &str, second: &str) -> Result<Vec<Told>> {
    let mut received = Vec::new();
    for (number, host) in [first, second, first].into_iter().enumerate() {
        let request = format!("GET /own HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        while answers::parse(&received, &[])
            .get(number)
            .is_none_or(|answer| !answer.complete)
        {
            ensure!(stream.read_buf(&mut received).await? > 0, "closed");
        }
    }
    let answers = answers::parse(&received, &[]).into_iter();
    Ok(answers.map(|one| (one.status, text(&one.body))).collect())
}

/// Asks for the first host, the second, and the first again over HTTP/2.
async fn two(stream: &mut TlsStream<TcpStream>, first: &str, second: &str) -> Result<Vec<Told>> {
    let begin = [preface(65_535), frame(SETTINGS, ACK, 0, &[])].concat();
    stream.write_all(&begin).await?;
    let mut streams = Streams::default();
    let mut told = Vec::new();
    for (number, host) in (1..).step_by(2).zip([first, second, first]) {
        let request = frames::get(number, host, "/own");
        stream.write_all(&request).await?;
        stream.flush().await?;
        while !streams.is_over(number) {
            streams.note(&frames::read(stream).await?);
        }
        let answer = streams.answer(number).context("no answer")?;
        told.push((answer.status, text(&answer.body)));
    }
    Ok(told)
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// Hosts with their tenants, and what else their certificates cover.
const HOSTS: [(&str, &str, &[&str]); 5] = [
    ("one.a.test", "a", &["two.a.test", "one.b.test"]),
    ("two.a.test", "a", &["one.a.test", "plain.test"]),
    ("one.b.test", "b", &["one.a.test", "two.a.test"]),
    ("two.b.test", "b", &[]),
    ("plain.test", "", &["one.a.test", "one.b.test"]),
];

const DEADLINE: Duration = Duration::from_secs(20);
