//! Every host is asked for, and answered by its own root or upstream.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::own::Own;
use crate::hosting::{Client, Host, Hosting, answers};
use sekisho_bench::accounting::Memory;

/// Asks each of these hosts once over a connection of its own; returns what to say.
pub(super) async fn run(binary: &Path, count: u32) -> Result<String> {
    let hosting = Hosting::new(binary).await?;
    let mut hosts = Vec::new();
    let mut wanted = Vec::new();
    let mut upstreams = Vec::new();
    for number in 0..count {
        let name = format!("s{number}.sites.test");
        let site = if number % 2 == 0 {
            let root = hosting.pages().join(&name);
            let text = format!("page of {name}\n");
            fs::create_dir(&root)?;
            fs::write(root.join("own"), &text)?;
            wanted.push((name.clone(), text));
            json!({ "root": root })
        } else {
            let own = Own::start(number).await?;
            wanted.push((name.clone(), own.text(&name, "/own")));
            let site = json!({ "upstream": format!("http://{}", own.address) });
            upstreams.push(own);
            site
        };
        hosts.push(Host {
            name,
            tenant: format!("t{}", number % TENANTS),
            site,
            also: Vec::new(),
        });
    }
    hosting.put(&hosts).await?;
    let server = hosting.serve("").await?;
    let client = hosting.client(&server, "http/1.1")?;
    let visits = wanted.iter().enumerate().map(|(number, (name, text))| {
        let client = &client;
        async move {
            let answer = visit(client, number, name).await;
            let answer = answer.with_context(|| name.clone())?;
            ensure!(
                answer == *text,
                "{name} was answered {answer:?}, not {text:?}"
            );
            Ok(())
        }
    });
    stream::iter(visits)
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    let memory = Memory::read(server.pid()?)?.rss >> 20;
    server.tell_to_end()?;
    server.ended().await?;
    Ok(format!(
        "{count} hosts, {} of them with an upstream of their own: each was answered by its own; \
         the server has {memory} MiB",
        upstreams.len()
    ))
}

/// Asks for a host's page; returns the body of a 200.
async fn visit(client: &Client, number: usize, name: &str) -> Result<String> {
    // 250 of each /24: the bounds per prefix are not what is proved here.
    let [.., high, low] = u32::try_from(number / 250)?.to_be_bytes();
    let from = Ipv4Addr::new(127, 16 + high, low, u8::try_from(number % 250)? + 1);
    let visit = async {
        let mut stream = client.connect(from, name).await?;
        let request = format!("GET /own HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await?;
        let answer = answers::parse(&received, &[]).into_iter().next();
        let answer = answer.context("no answer")?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status == 200, "{} {text}", answer.status);
        Ok(text)
    };
    timeout(DEADLINE, visit)
        .await
        .context("it takes too long")?
}

const TENANTS: u32 = 100;
/// Visits at the same time.
const AT_ONCE: usize = 32;
const DEADLINE: Duration = Duration::from_secs(20);
