//! Looks at the host of an exchange that goes on for long: removal, suspension and edits
//! of a host end what began before them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sekisho_certs::{HostName, Outcome, Served, clock};
use tokio::time::{Instant, sleep};

use crate::connection::request::{NameOfLookup, RequestContext};
use crate::lookup::ask::Hosts;
use crate::lookup::virtual_host::VirtualHost;
use crate::upstream::parts::{Upstreams, Worker};

/// Hosts of an upgraded connection or of an answer, as they were at their beginning.
pub(in crate::upstream) struct StillServed {
    upstreams: Arc<Upstreams>,
    /// The host that was asked for; none if the hook made it.
    asked: Option<Looked>,
    /// The host whose site answers, if that is another one.
    alias: Option<Box<Looked>>,
    /// Time between two looks.
    pause: Duration,
}

/// Host that is looked at.
struct Looked {
    name: HostName,
    served: Arc<Served<VirtualHost>>,
    /// False if it is asked over plain HTTP, or only its site is used.
    needs_certificate: bool,
}

impl StillServed {
    /// Makes it for a request; none for one whose host the hook made. What the hook
    /// would choose now is not asked: each call costs time of its worker.
    pub(in crate::upstream) fn of(context: &RequestContext<'_>, worker: &Worker) -> Option<Self> {
        let connection = context.connection;
        let served = context.alias.map_or(context.served, |alias| &alias.asked);
        let name = match context.name_of_lookup {
            NameOfLookup::Asked => Some(context.host),
            NameOfLookup::Chosen(name) => Some(name),
            NameOfLookup::None => None,
        };
        let looked = |name: &HostName, served, needs_certificate| Looked {
            name: name.clone(),
            served: Arc::clone(served),
            needs_certificate,
        };
        let asked = name.map(|name| looked(name, served, !connection.is_plain()));
        let alias = context.alias;
        let alias = alias.map(|alias| Box::new(looked(&alias.name, context.served, false)));
        asked.as_ref().or(alias.as_deref())?;
        let upstreams = Arc::clone(&worker.upstreams);
        let look = upstreams.host_look;
        // Exchanges that began at once don't look at once.
        let earlier = u32::try_from(connection.number % 16).unwrap_or(0);
        Some(Self {
            asked,
            alias,
            pause: look - look / 32 * earlier,
            upstreams,
        })
    }

    /// Waits until a host is not served as it was: it is gone, suspended, or has another
    /// site or TLS policy. Says which. While the store does not answer, and with another
    /// certificate, it is served as it was.
    pub(in crate::upstream) async fn ended(self) -> &'static str {
        loop {
            sleep(self.pause).await;
            for host in self.asked.iter().chain(self.alias.as_deref()) {
                if let Some(why) = host.ended(&self.upstreams.hosts).await {
                    return why;
                }
            }
        }
    }
}

impl Looked {
    /// Returns how the host is served no more as it was.
    async fn ended(&self, hosts: &Hosts) -> Option<&'static str> {
        let tenant = &self.served.host().record.tenant;
        let deadline = Instant::now() + hosts.lookup_limit;
        let looked = hosts.look_at(&self.name, tenant, self.needs_certificate, deadline);
        match looked.await {
            Outcome::Found(found) if self.is_as_before(&found) => None,
            Outcome::Found(_) => Some("its host was changed"),
            Outcome::Absent(_) => Some("its host is not served any more"),
            Outcome::Failed(_) => None,
        }
    }

    fn is_as_before(&self, found: &Served<VirtualHost>) -> bool {
        let (before, now) = (&self.served.host().record, &found.host().record);
        before.site_in_effect() == now.site_in_effect()
            && (&before.tenant, &before.tls) == (&now.tenant, &now.tls)
    }
}

/// Host of an answer: looked at once the answer goes on for long, which few do.
pub(in crate::upstream) struct LongLived {
    begun: Instant,
    /// None if the hook made the host.
    host: Option<Host>,
}

enum Host {
    New(StillServed),
    Looked(Pin<Box<dyn Future<Output = &'static str> + Send>>),
}

impl LongLived {
    pub(in crate::upstream) fn new(host: Option<StillServed>) -> Self {
        Self {
            begun: clock::monotonic(),
            host: host.map(Host::New),
        }
    }

    /// Returns when the looks begin; none if they have, or never do.
    pub(in crate::upstream) fn begins(&self) -> Option<Instant> {
        match &self.host {
            Some(Host::New(host)) => Some(self.begun + host.pause / 8),
            Some(Host::Looked(_)) | None => None,
        }
    }

    /// Returns why the answer must end. It must be polled again when the looks begin.
    pub(in crate::upstream) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        if let Some(begins) = self.begins()
            && clock::monotonic() >= begins
            && let Some(Host::New(host)) = self.host.take()
        {
            self.host = Some(Host::Looked(Box::pin(host.ended())));
        }
        match &mut self.host {
            Some(Host::Looked(looked)) => looked.as_mut().poll(cx),
            Some(Host::New(_)) | None => Poll::Pending,
        }
    }
}
