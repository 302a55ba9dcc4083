//! Lookups and writes at fixed rates.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use sekisho_bench::table::Figures;
use sekisho_certs::seal::Sealer;
use sekisho_certs::store::{BoxFuture, Document, DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{
    Catalog, ChallengeKind, CredentialId, Fence, HostName, HostPattern, HostRecord, KeyType,
    Lineage, Secret, Tenant,
};
use sekisho_stores::postgres::Postgres;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::catalog::{Filled, credential, host, open};

/// Calls per second.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Lookups per second, of random hosts
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(super) lookups: u32,

    /// Transactions per second that change a host
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(super) announced: u32,

    /// Transactions per second as orders make them: lineages, challenges, quotas
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub(super) unannounced: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            lookups: 400,
            announced: 40,
            unannounced: 250,
        }
    }
}

/// Figures of a window.
pub(super) struct Window {
    length: Duration,
    /// Microseconds.
    lookups: Histogram<u64>,
    announced: u64,
    unannounced: u64,
}

impl Window {
    /// Returns the p99 of lookups, in microseconds.
    pub(super) fn p99(&self) -> f64 {
        self.lookups.value_at_quantile(0.99) as f64
    }

    pub(super) fn figures(&self) -> Figures {
        let ms = |quantile| self.lookups.value_at_quantile(quantile) as f64 / 1000.0;
        let rate = |count: u64| count as f64 / self.length.as_secs_f64();
        vec![
            ("lookup p99 ms", ms(0.99)),
            ("lookup p50 ms", ms(0.5)),
            ("lookup max ms", ms(1.0)),
            ("lookups per second", rate(self.lookups.len())),
            ("announced writes per second", rate(self.announced)),
            ("unannounced writes per second", rate(self.unannounced)),
        ]
    }

    pub(super) fn line(&self) -> String {
        let ms = |quantile| self.lookups.value_at_quantile(quantile) as f64 / 1000.0;
        let rate = |count: u64| count as f64 / self.length.as_secs_f64();
        format!(
            "lookups median {:.2} ms   p99 {:.2} ms   max {:.1} ms   {:.0}/s   announced {:.0}/s   unannounced {:.0}/s",
            ms(0.5),
            ms(0.99),
            ms(1.0),
            rate(self.lookups.len()),
            rate(self.announced),
            rate(self.unannounced)
        )
    }

    /// Checks that the load was what it claims to be.
    pub(super) fn reached(&self, rates: &Rates) -> Result<()> {
        for (what, count, rate) in [
            ("lookups", self.lookups.len(), rates.lookups),
            ("announced transactions", self.announced, rates.announced),
            (
                "unannounced transactions",
                self.unannounced,
                rates.unannounced,
            ),
        ] {
            let asked = f64::from(rate) * self.length.as_secs_f64();
            ensure!(
                count as f64 >= asked * LEAST,
                "{count} {what} in {:.0?}, {asked:.0} were asked for: the machine is too slow",
                self.length
            );
        }
        Ok(())
    }

    /// Makes a window that reached the rates, with lookups of one time.
    #[cfg(test)]
    pub(super) fn of(rates: &Rates, length: Duration, us: u64) -> Self {
        let count = |rate: u32| u64::from(rate) * length.as_secs();
        let mut lookups = histogram();
        lookups.record_n(us, count(rates.lookups)).unwrap();
        Self {
            length,
            lookups,
            announced: count(rates.announced),
            unannounced: count(rates.unannounced),
        }
    }
}

/// Runs all three for so long.
pub(super) async fn run(filled: &Filled, rates: &Rates, length: Duration) -> Result<Window> {
    let writer = filled.sealer(WRITERS).await?;
    let (hosts, end) = (filled.hosts, Instant::now() + length);
    let look_up = look_up(filled, Calls::of(rates.lookups, LOOKUPS, end));
    let change = write(&writer, move |_, number| {
        changed(spread(number) % hosts, hosts)
    });
    let announced = Calls::of(rates.announced, ANNOUNCING, end).run(change);
    let order = write(&writer, ordered);
    let unannounced = Calls::of(rates.unannounced, ORDERING, end).run(order);
    let (lookups, announced, unannounced) = tokio::try_join!(look_up, announced, unannounced)?;
    Ok(Window {
        length,
        lookups,
        announced: announced.len(),
        unannounced: unannounced.len(),
    })
}

/// Looks up random hosts by a thread of its own: the work of those who write is in no time.
async fn look_up(filled: &Filled, calls: Calls) -> Result<Histogram<u64>> {
    let (url, hosts) = (filled.url(LOOKUPS), filled.hosts);
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let looked_up = runtime().and_then(|runtime| {
            runtime.block_on(async {
                let catalog = open(&url)?;
                calls
                    .run(move |_, number| find(Arc::clone(&catalog), spread(number) % hosts))
                    .await
            })
        });
        let _ = tell.send(looked_up);
    });
    told.await.context("the thread of lookups has panicked")?
}

async fn find(catalog: Arc<Postgres>, number: u64) -> Result<()> {
    let name = HostName::parse(&host(number)).context("it is a name")?;
    let found = Catalog::find(catalog.as_ref(), &name).await?.found;
    ensure!(found.is_some(), "{name} was not found");
    Ok(())
}

/// Makes a runtime of one thread.
pub(super) fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}

/// Makes a call that writes what the function says.
fn write<F>(
    sealer: &Sealer,
    of: F,
) -> impl Fn(u64, u64) -> BoxFuture<'static, Result<()>> + Clone + Send + 'static
where
    F: Fn(u64, u64) -> Result<Vec<Write<Secret>>> + Clone + Send + 'static,
{
    let sealer = sealer.clone();
    move |task, number| {
        let (sealer, writes) = (sealer.clone(), of(task, number));
        Box::pin(async move {
            sealer.write(writes?).await?;
            Ok(())
        })
    }
}

/// Calls at a fixed rate, by so many tasks: one that takes long is made up for by
/// calls without a pause behind it.
struct Calls {
    pause: Duration,
    tasks: usize,
    end: Instant,
}

impl Calls {
    fn of(rate: u32, tasks: usize, end: Instant) -> Self {
        Self {
            pause: Duration::from_secs(tasks as u64) / rate.max(1),
            tasks,
            end,
        }
    }

    /// Returns the times, in microseconds.
    async fn run<F, C>(self, call: C) -> Result<Histogram<u64>>
    where
        C: Fn(u64, u64) -> F + Clone + Send + 'static,
        F: Future<Output = Result<()>> + Send,
    {
        let mut tasks = JoinSet::new();
        let begun = Instant::now();
        for task in 0..self.tasks as u64 {
            let (call, pause, end) = (call.clone(), self.pause, self.end);
            // Tasks begin one behind the other.
            let mut at = begun + pause * u32::try_from(task)? / u32::try_from(self.tasks)?;
            tasks.spawn(async move {
                let mut times = histogram();
                let mut number = 0;
                while at < end && Instant::now() < end {
                    sleep_until(at).await;
                    let begun = Instant::now();
                    call(task, number * MOST_TASKS + task).await?;
                    times.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
                    at += pause;
                    number += 1;
                }
                anyhow::Ok(times)
            });
        }
        let mut all = histogram();
        while let Some(times) = tasks.join_next().await {
            all.add(times??)?;
        }
        Ok(all)
    }
}

/// Replaces a host's record, as `host set` does.
fn changed(number: u64, hosts: u64) -> Result<Vec<Write<Secret>>> {
    let mut record = HostRecord::new(HostPattern::parse(&host(number))?);
    let id = CredentialId::from_u64(credential(number, hosts));
    record.references.set(KeyType::Ecdsa, Some(id));
    Ok(vec![Write::PutHost(record, Precondition::Any)])
}

/// Returns the next step of a task's orders: what is saved of the lineage, the answer of
/// its challenge, and a limit of the CA that it counts for.
fn ordered(task: u64, number: u64) -> Result<Vec<Write<Secret>>> {
    let number = number / MOST_TASKS;
    let order = task + MOST_TASKS * (number / STEPS);
    let key = format!("o{order}");
    let challenge = DocumentId::new(ChallengeKind::Http01.document(), key.clone());
    let mut lineage = Lineage::new(
        Tenant::default(),
        [HostPattern::parse(&format!("{key}.example.test"))?],
    )
    .context("it has a name")?;
    lineage.order = Some(Secret::new(vec![0; 300]));
    let write = match number % STEPS {
        1 => Write::PutDocument(
            Document::new(challenge, Secret::new(vec![0; 100])),
            Precondition::Any,
        ),
        3 => Write::RemoveDocument(challenge, Precondition::Any),
        4 => {
            let key = format!("domains/{}", spread(order) % ACCOUNTED);
            let id = DocumentId::new(DocumentKind::ACME_QUOTA, key);
            Write::PutDocument(
                Document::new(id, Secret::new(vec![0; 60])),
                Precondition::Any,
            )
        }
        _ => Write::PutLineage(lineage, Fence::Any),
    };
    Ok(vec![write])
}

/// Maps consecutive numbers to ones far apart: the factor is a large prime.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are fixed")
}

/// Steps of an order that are transactions of their own.
const STEPS: u64 = 6;
/// Registered domains that a CA's limits are counted for.
const ACCOUNTED: u64 = 10_000;
/// Tasks at once: more than any of them has.
const MOST_TASKS: u64 = 64;
const LOOKUPS: usize = 8;
const ANNOUNCING: usize = 8;
const ORDERING: usize = 24;
/// Connections of both kinds of writers: a third of them take one call at a time.
const WRITERS: usize = 3 * (ANNOUNCING + ORDERING);
/// Share of its rate that a load must reach.
const LEAST: f64 = 0.8;
