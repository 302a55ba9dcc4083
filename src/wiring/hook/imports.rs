//! Functions that scripts reach: the server's lookups and budget, clients, and certificates.

use std::net::IpAddr;
use std::sync::Arc;

use sekisho_certs::hook::Charge;
use sekisho_certs::store::BoxFuture;
use sekisho_certs::{HostName, Outcome};
use sekisho_hook::{
    CallError, Found, HttpAnswer, HttpRequest, Owner, Pair, RedisCommand, RedisReply, SqlRow,
    SqlValue,
};
use sekisho_server::hook::{self, Token};
use sekisho_server::{Made, Publisher, VirtualHost};
use tokio::time::Instant;

use super::clients::Clients;

/// Certificate that a script gave, as the server serves it.
pub(crate) type Served = Arc<sekisho_certs::Served<VirtualHost>>;

pub(super) struct Imports {
    pub(super) clients: Clients,
    pub(super) budget: hook::Clients,
    pub(super) publisher: Arc<Publisher>,
    /// True if a script is tried: signatures are verified in each run.
    pub(super) tries: bool,
}

impl sekisho_hook::Imports for Imports {
    type Made = Served;

    fn lookup<'a>(&'a self, name: &'a HostName, client: IpAddr) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            match self.budget.lookup(name, client).await {
                Outcome::Found(_) => Found::Found,
                Outcome::Absent(_) => Found::Absent,
                Outcome::Failed(error) => Found::Failed(error.to_string()),
            }
        })
    }

    fn cached(&self, name: &HostName) -> Option<bool> {
        match self.budget.cached(name)? {
            Outcome::Found(_) => Some(true),
            Outcome::Absent(_) => Some(false),
            Outcome::Failed(_) => None,
        }
    }

    fn admit(&self, client: IpAddr, deadline: Instant) -> BoxFuture<'_, Result<Charge, String>> {
        Box::pin(async move {
            let token = self.budget.admit(client, deadline).await;
            let token = token.map_err(|error| error.to_string())?;
            Ok(spending(token))
        })
    }

    fn try_admit(&self, client: IpAddr) -> Option<Charge> {
        self.budget.try_admit(client).map(spending)
    }

    fn redis<'a>(
        &'a self,
        url: &'a str,
        command: RedisCommand,
    ) -> BoxFuture<'a, Result<RedisReply, CallError>> {
        Box::pin(self.clients.redis(url, command))
    }

    fn http_get(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, CallError>> {
        Box::pin(self.clients.http_get(request))
    }

    fn sql<'a>(
        &'a self,
        database: &'a str,
        query: String,
        parameters: Vec<SqlValue>,
    ) -> BoxFuture<'a, Result<Vec<SqlRow>, CallError>> {
        Box::pin(self.clients.sql(database, query, parameters))
    }

    fn make(&self, pairs: &[Pair], owner: &Owner) -> Result<Served, String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|pair| (&*pair.certificate, pair.key.expose()))
            .collect();
        self.publisher.make(&Made {
            pairs: &pairs,
            tenant: owner.tenant.as_str(),
            site: owner.site.as_deref(),
            key: owner.key.as_deref(),
            // Signatures take 0.2 ms, as much as a handshake.
            signatures: self.tries || owner.key.is_some(),
        })
    }

    fn weight(&self, made: &Served) -> u64 {
        made.weight()
    }
}

fn spending(token: Token) -> Charge {
    Box::new(|| token.spend())
}
