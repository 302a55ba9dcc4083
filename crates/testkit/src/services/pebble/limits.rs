//! Limits of Let's Encrypt in front of Pebble, spent at the steps at which Boulder
//! spends them.
//!
//! | limit | checked | spent |
//! | --- | --- | --- |
//! | new orders of the account | new order | new order |
//! | certificates of a registered domain | new order | issuance |
//! | certificates of exactly the same names | new order | issuance |
//! | failed validations of a name | new order | failed validation |
//! | new nonces, 503 with `Retry-After` | new nonce | new nonce |
//!
//! Orders for names of an earlier certificate are exempt from the first two, and those
//! with `replaces` from the first four.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::Response;
use http_body_util::Full;
use serde_json::Value;

use super::Pebble;
use super::proxy::{CaProxy, Passing, Verdict};

/// Limits of a CA: a count, and the seconds in which the whole count comes back.
#[derive(Clone, Copy, Debug)]
pub struct CaLimits {
    /// New orders of the account.
    pub orders: (u32, u32),
    /// Certificates of a registered domain, which is two labels here.
    pub domains: (u32, u32),
    /// Certificates of exactly the same names.
    pub duplicates: (u32, u32),
    /// Failed validations of a name.
    pub failures: (u32, u32),
    /// New nonces of all clients: at once, and in a second.
    pub nonces: (u32, u32),
    /// True if renewals are exempt.
    pub exempts_renewals: bool,
}

/// CA with limits. Dropping it ends its connections.
pub struct LimitedCa {
    proxy: CaProxy,
    state: Arc<Mutex<State>>,
}

/// Limits and what was taken from them.
struct State {
    limits: CaLimits,
    /// Millisecond at which each bucket is full again, by its key (GCRA).
    full_at: HashMap<String, f64>,
    /// Names of each order, by the last part of its URL.
    orders: HashMap<String, Vec<String>>,
    /// Orders whose outcome was counted.
    counted: HashSet<String>,
    /// Names of the certificates.
    issued: HashSet<Vec<String>>,
    asked: usize,
    refused: Vec<String>,
}

impl CaLimits {
    /// Returns Let's Encrypt's limits (<https://letsencrypt.org/docs/rate-limits/>).
    #[must_use]
    pub const fn letsencrypt() -> Self {
        let (hour, week) = (3600, 7 * 24 * 3600);
        Self {
            orders: (300, 3 * hour),
            domains: (50, week),
            duplicates: (5, week),
            failures: (5, hour),
            nonces: (10, 20),
            exempts_renewals: true,
        }
    }
}

impl Pebble {
    /// Starts a proxy that keeps to these limits. `now_ms` is its clock.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn limited(
        &self,
        limits: CaLimits,
        now_ms: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> LimitedCa {
        let state = Arc::new(Mutex::new(State {
            limits,
            full_at: HashMap::new(),
            orders: HashMap::new(),
            counted: HashSet::new(),
            issued: HashSet::new(),
            asked: 0,
            refused: Vec::new(),
        }));
        let judge = Arc::clone(&state);
        let proxy = self.judged(move |passing| {
            let now_ms = now_ms() as f64;
            match lock(&judge).judge(passing, now_ms) {
                Ok(()) => Verdict::Pass,
                Err(answer) => Verdict::Answer(*answer),
            }
        });
        LimitedCa { proxy, state }
    }
}

impl LimitedCa {
    /// Returns its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.proxy.port()
    }

    /// Returns the URL of the directory.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port())
    }

    /// Returns how many orders were asked for, those that a limit refused too.
    #[must_use]
    pub fn asked(&self) -> usize {
        lock(&self.state).asked
    }

    /// Returns the refusals, in the words that the clients got.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        lock(&self.state).refused.clone()
    }
}

type Refusal = Box<Response<Full<Bytes>>>;

impl State {
    fn judge(&mut self, passing: &Passing<'_>, now_ms: f64) -> Result<(), Refusal> {
        let (path, id) = passing.path.rsplit_once('/').unwrap_or_default();
        match (path, id, passing.answer) {
            ("", "nonce-plz", None) => self.new_nonce(now_ms),
            ("", "order-plz", None) => {
                self.asked += 1;
                self.new_order(passing.request, now_ms)
            }
            ("", "order-plz", Some((201, answer))) => {
                self.begun(answer);
                Ok(())
            }
            ("/finalize-order", _, Some((200, _))) => {
                self.issue(id, now_ms);
                Ok(())
            }
            ("/my-order", _, Some((200, answer))) => {
                if json(answer)["status"] == "invalid" {
                    self.fail(id, now_ms);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn new_nonce(&mut self, now_ms: f64) -> Result<(), Refusal> {
        let (burst, per_second) = self.limits.nonces;
        let cost = 1000.0 / f64::from(per_second);
        let full_at = self.full_at("nonces", now_ms) + cost;
        if full_at - now_ms > cost * f64::from(burst) {
            self.refused.push("too many new nonces".to_owned());
            let answer = Response::builder().status(503).header("retry-after", "1");
            return Err(Box::new(answer.body(Full::default()).expect("an answer")));
        }
        self.full_at.insert("nonces".to_owned(), full_at);
        Ok(())
    }

    fn new_order(&mut self, request: &[u8], now_ms: f64) -> Result<(), Refusal> {
        let payload = payload(request);
        let names = names(&payload);
        if self.limits.exempts_renewals && payload["replaces"].is_string() {
            return Ok(());
        }
        for name in &names {
            let what = format!("too many failed authorizations for \"{name}\"");
            let key = format!("failed/{name}");
            self.check(&key, self.limits.failures, now_ms, &what)?;
        }
        let what = "too many certificates already issued for this exact set of identifiers";
        let key = format!("names/{}", names.join(","));
        self.check(&key, self.limits.duplicates, now_ms, what)?;
        if self.is_renewal(&names) {
            return Ok(());
        }
        for domain in domains(&names) {
            let what = format!("too many certificates already issued for \"{domain}\"");
            let key = format!("domain/{domain}");
            self.check(&key, self.limits.domains, now_ms, &what)?;
        }
        let what = "too many new orders from this account";
        self.check("orders", self.limits.orders, now_ms, what)?;
        self.spend("orders", self.limits.orders, now_ms);
        Ok(())
    }

    /// Notes the names of an order.
    fn begun(&mut self, answer: &[u8]) {
        let order = json(answer);
        let url = order["finalize"].as_str().unwrap_or_default();
        let id = url.rsplit('/').next().unwrap_or_default();
        self.orders.insert(id.to_owned(), names(&order));
    }

    fn issue(&mut self, id: &str, now_ms: f64) {
        let Some(names) = self.take(id) else {
            return;
        };
        let key = format!("names/{}", names.join(","));
        self.spend(&key, self.limits.duplicates, now_ms);
        if !self.is_renewal(&names) {
            for domain in domains(&names) {
                self.spend(&format!("domain/{domain}"), self.limits.domains, now_ms);
            }
        }
        self.issued.insert(names);
    }

    fn fail(&mut self, id: &str, now_ms: f64) {
        for name in self.take(id).unwrap_or_default() {
            self.spend(&format!("failed/{name}"), self.limits.failures, now_ms);
        }
    }

    /// Returns the names of an order whose outcome was not counted yet.
    fn take(&mut self, id: &str) -> Option<Vec<String>> {
        let names = self.orders.get(id)?.clone();
        self.counted.insert(id.to_owned()).then_some(names)
    }

    fn is_renewal(&self, names: &[String]) -> bool {
        self.limits.exempts_renewals && self.issued.contains(names)
    }

    fn check(
        &mut self,
        key: &str,
        (count, seconds): (u32, u32),
        now_ms: f64,
        what: &str,
    ) -> Result<(), Refusal> {
        let period = f64::from(seconds) * 1000.0;
        let cost = period / f64::from(count);
        let late = self.full_at(key, now_ms) + cost - now_ms - period;
        if late <= 0.0 {
            return Ok(());
        }
        self.refused.push(what.to_owned());
        let problem = serde_json::json!({
            "type": "urn:ietf:params:acme:error:rateLimited",
            "detail": format!("{what}, retry later"),
            "status": 429,
        });
        let seconds = (late / 1000.0).ceil() as u64;
        let answer = Response::builder()
            .status(429)
            .header("content-type", "application/problem+json")
            .header("retry-after", seconds);
        let body = Full::from(problem.to_string());
        Err(Box::new(answer.body(body).expect("an answer")))
    }

    /// Takes one, at most until the bucket is empty.
    fn spend(&mut self, key: &str, (count, seconds): (u32, u32), now_ms: f64) {
        let period = f64::from(seconds) * 1000.0;
        let spent = self.full_at(key, now_ms) + period / f64::from(count);
        self.full_at
            .insert(key.to_owned(), spent.min(now_ms + period));
    }

    fn full_at(&self, key: &str, now_ms: f64) -> f64 {
        let full_at = self.full_at.get(key).copied();
        full_at.unwrap_or(now_ms).max(now_ms)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what a signed request says.
fn payload(request: &[u8]) -> Value {
    let signed = json(request);
    let text = signed["payload"].as_str().unwrap_or_default();
    let payload = BASE64URL_NOPAD.decode(text.as_bytes());
    json(&payload.unwrap_or_default())
}

/// Returns the names of an order, sorted.
fn names(order: &Value) -> Vec<String> {
    let identifiers = order["identifiers"].as_array();
    let names = identifiers.into_iter().flatten();
    let names: BTreeSet<_> = names.filter_map(|one| one["value"].as_str()).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn domains(names: &[String]) -> BTreeSet<String> {
    let domain = |name: &String| {
        let dots: Vec<_> = name.rmatch_indices('.').map(|(at, _)| at).collect();
        let begin = dots.get(1).map_or(0, |at| at + 1);
        name[begin..].to_owned()
    };
    names.iter().map(domain).collect()
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_default()
}
