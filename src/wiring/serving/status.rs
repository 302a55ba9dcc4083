//! What `sekisho status` shows of a server.

use std::sync::Arc;
use std::time::Instant;

use sekisho_certs::{Catalog, Listed, Lookup};
use sekisho_server::admin::{Audience, Reply, lookup_state};
use sekisho_server::metrics::Metrics;
use sekisho_server::{Parts, VirtualHost};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Duration, timeout};

use crate::config::Config;
use crate::handover::{ProcessState, Record};
use crate::terminal::output::rfc3339;
use crate::wiring::open::Opened;

/// Parts of a server that tell how it is.
pub(super) struct Status {
    started: Instant,
    workers: usize,
    limit: usize,
    config: String,
    store: String,
    lookup: Arc<Lookup<VirtualHost>>,
    metrics: Arc<Metrics>,
    record: Arc<Record>,
    /// Catalog of lineages, with issuance.
    catalog: Option<Arc<dyn Catalog>>,
    /// Last answer of the catalog. Whoever reaches the listener makes one question of it in
    /// [`KEPT`], however many requests come.
    certificates: Mutex<Option<(Instant, Value)>>,
}

impl Status {
    pub(super) fn new(
        config: &Config,
        parts: &Parts,
        opened: &Opened,
        record: &Arc<Record>,
    ) -> Self {
        let catalog = opened.catalog.as_ref().filter(|_| config.acme.is_some());
        Self {
            started: Instant::now(),
            workers: config.limits.workers,
            limit: config.limits.connections,
            config: config.file.display().to_string(),
            store: config.store.url.to_string(),
            lookup: Arc::clone(&parts.lookup),
            metrics: Arc::clone(&parts.metrics),
            record: Arc::clone(record),
            catalog: catalog.map(|sealer| Arc::clone(sealer.catalog())),
            certificates: Mutex::default(),
        }
    }

    /// Returns the function that the admin listener calls.
    pub(super) fn source(self) -> Box<dyn Fn(Audience) -> Reply<Value> + Send + Sync> {
        let status = Arc::new(self);
        Box::new(move |audience| {
            let status = Arc::clone(&status);
            Box::pin(async move { status.show(audience).await })
        })
    }

    async fn show(&self, audience: Audience) -> Value {
        let [mut store, feed, cache] = lookup_state(&self.lookup.stats());
        store["url"] = self.store.clone().into();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "config": self.config,
            "workers": self.workers,
            "connections": {"open": self.metrics.connections_open(), "limit": self.limit},
            "cache": cache,
            "store": store,
            "feed": feed,
            "certificates": self.certificates(audience).await,
            "handovers": self.handovers(audience),
        })
    }

    /// Shows which certificates are due and which failed. Names are the operator's alone.
    async fn certificates(&self, audience: Audience) -> Value {
        let Some(catalog) = &self.catalog else {
            return Value::Null;
        };
        let mut last = self.certificates.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= KEPT) {
            let value = count(catalog.as_ref()).await;
            *last = Some((Instant::now(), value));
        }
        let mut value = last
            .as_ref()
            .map_or(Value::Null, |(_, value)| value.clone());
        if audience == Audience::Network
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("failing_names");
            // A store's error may name its server.
            if let Some(error) = fields.get_mut("error") {
                *error = "the store did not answer".into();
            }
        }
        value
    }

    fn handovers(&self, audience: Audience) -> Value {
        let state = self.record.state();
        let shown = rfc3339;
        let last = state.last.map(|last| {
            let mut value = json!({"kind": last.kind, "at": shown(last.at)});
            if audience == Audience::Operator {
                value["changed"] = last.changed.into();
            }
            value
        });
        let failed = state.failed.map(|failed| {
            let mut value = json!({"kind": failed.kind, "at": shown(failed.at)});
            if audience == Audience::Operator {
                value["error"] = failed.error.into();
            }
            value
        });
        let older = state.older.iter().map(|one| {
            json!({
                "pid": one.pid,
                "state": state_of(one),
                "connections": one.connections,
                "since": shown(one.since),
            })
        });
        json!({
            "count": state.handovers,
            "connections_cut": state.cut,
            "service_began": state.service_began.map(shown),
            "last": last,
            "failed": failed,
            "older": older.collect::<Vec<_>>(),
        })
    }
}

/// Asks the catalog which certificates are due and which failed.
async fn count(catalog: &dyn Catalog) -> Value {
    let asked = async {
        let due = catalog.count_due(COUNTED).await?;
        let failing = catalog
            .list_lineages(Listed::Failing, None, NAMED + 1)
            .await?;
        Ok::<_, sekisho_certs::StoreError>((due, failing))
    };
    let (due, failing) = match timeout(ASKED, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return json!({"error": error.to_string()}),
        Err(_) => return json!({"error": format!("the store did not answer within {ASKED:?}")}),
    };
    let more = failing.len() > NAMED;
    let count = failing.len().min(NAMED);
    let names = failing[..count].iter().map(|one| one.name.to_string());
    json!({
        "due": due,
        "due_is_more": due >= COUNTED as u64,
        "failing": count,
        "failing_is_more": more,
        "failing_names": names.collect::<Vec<_>>(),
    })
}

fn state_of(older: &ProcessState) -> &'static str {
    match (older.idle, older.ending) {
        (true, _) => "keeps the pid",
        (false, true) => "ending",
        (false, false) => "draining",
    }
}

/// Names of failing lineages that are shown.
const NAMED: usize = 20;
/// Due lineages that are counted: more make the answer late.
const COUNTED: usize = 10_000;
/// Time for which an answer of the catalog is shown.
const KEPT: Duration = Duration::from_secs(5);
/// Longest wait for the store.
const ASKED: Duration = Duration::from_secs(2);
