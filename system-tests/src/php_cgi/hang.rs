//! Pool whose children all hang, beside another tenant's pool and many other tenants' hosts.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::{join, join_all};
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, Protocol, whole};
use super::counts::{Counts, Fault, Judged};
use super::setting::{CHILDREN, OTHER_PAGE, Setting, TENANTS, other_host};
use crate::hosting::{self, answers};

pub(super) async fn run(setting: &Setting, others: usize, counts: &Counts) -> Result<()> {
    let [hanging, neighbour] = &TENANTS;
    let quiet = measure(setting, others, counts).await?;
    let go = setting.www(hanging).join("go/release");
    let mut clients: Vec<_> = (0..CHILDREN as usize)
        .map(|number| {
            let protocol = Protocol::BOTH[number % 2];
            Client::new(setting, hanging, hanging.php, protocol, FIRST + number)
        })
        .collect();
    let hang = clients.iter_mut().map(async |client| {
        let answer = client.get("/hang.php").await;
        let judged = answer.and_then(|answer| answer.is(200, b"released\n"));
        counts.note(&format!("{} hang", client.name()), judged);
    });
    let beside = async {
        let hangs = all_hang(setting).await;
        let measured = match hangs {
            Ok(()) => measure(setting, others, counts).await,
            Err(error) => Err(error),
        };
        fs::write(&go, "")?;
        measured
    };
    let (hung, _) = join(beside, join_all(hang)).await;
    let hung = hung?;
    let mut client = Client::new(setting, hanging, hanging.php, Protocol::Two, FIRST - 1);
    counts.note("the pool that hung", client.page().await);
    println!(
        "beside a pool whose {CHILDREN} children hang: medians of {} {} µs ({} µs before), of \
         {others} other tenants' hosts {} µs ({} µs before)",
        neighbour.name, hung.pool, quiet.pool, hung.others, quiet.others
    );
    Ok(())
}

/// Waits until a page of the pool has no answer: all children are busy.
async fn all_hang(setting: &Setting) -> Result<()> {
    let [hanging, _] = &TENANTS;
    let begun = Instant::now();
    loop {
        ensure!(begun.elapsed() < PATIENCE, "the pool does not hang");
        let mut client = Client::new(setting, hanging, hanging.php, Protocol::One, FIRST - 2);
        let asking = client.send(Request::get("/page.php"), whole(Default::default()));
        if timeout(LONG, asking).await.is_err() {
            return Ok(());
        }
        sleep(POLL).await;
    }
}

/// Medians in microseconds.
struct Medians {
    pool: u64,
    others: u64,
}

/// Asks the neighbour's pool, and each of the other hosts, one at a time.
async fn measure(setting: &Setting, others: usize, counts: &Counts) -> Result<Medians> {
    let [_, neighbour] = &TENANTS;
    let mut pool = Vec::new();
    let mut client = Client::new(setting, neighbour, neighbour.php, Protocol::One, FIRST - 3);
    for _ in 0..PAGES {
        let begun = Instant::now();
        counts.note("the neighbour's page", client.page().await);
        pool.push(begun.elapsed());
    }
    let mut pages = Vec::new();
    let client = setting.hosting.client(&setting.server, "http/1.1")?;
    for number in 0..others {
        let (judged, took) = other(&client, number).await?;
        counts.note("another tenant's page", judged);
        pages.push(took);
    }
    Ok(Medians {
        pool: median(pool),
        others: median(pages),
    })
}

/// Asks a host for its page; returns how long that took on the open connection.
async fn other(client: &hosting::Client, number: usize) -> Result<(Judged, Duration)> {
    let name = other_host(number);
    let [.., high, low] = u32::try_from(number / 250)?.to_be_bytes();
    let last = u8::try_from(number % 250)? + 1;
    let from = Ipv4Addr::new(127, 32 + high, low, last);
    let mut stream = client.connect(from, &name).await?;
    let begun = Instant::now();
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await?;
    let took = begun.elapsed();
    let answers = answers::parse(&received, &[]);
    let right =
        matches!(&answers[..], [one] if one.status == 200 && one.body == OTHER_PAGE.as_bytes());
    let judged = match right {
        true => Ok(()),
        false => Err(Fault::Wrong(format!("{name}: {answers:?}"))),
    };
    Ok((judged, took))
}

fn median(mut times: Vec<Duration>) -> u64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    u64::try_from(median.as_micros()).unwrap_or(u64::MAX)
}

/// Number of the first client that hangs.
const FIRST: usize = 2000;
/// Pages of the neighbour's pool.
const PAGES: usize = 100;
const POLL: Duration = Duration::from_millis(20);
/// Far more than a page takes whose pool has a child for it.
const LONG: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(20);
