//! Asks for addresses: `/etc/hosts` first, then the name servers.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sekisho_dns::{Addresses, Hosts, ResolveError, Resolver};
use sekisho_gate::{Gate, Sharing};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::{DEADLINE, QUESTIONS, Question};
use crate::observe::metrics::{Metrics, Resolution};

/// Questions of all workers, to be answered on the background runtime.
pub(in crate::upstream) struct Asking {
    pub(super) questions: mpsc::Receiver<Question>,
    /// Name servers; those of `/etc/resolv.conf` if empty.
    pub(super) servers: Vec<SocketAddr>,
    pub(super) metrics: Arc<Metrics>,
}

/// Files that names are resolved by, as they were when they were read.
struct System {
    hosts: Hosts,
    resolver: Resolver,
    read: Instant,
}

impl Asking {
    /// Answers questions until no worker is left to ask.
    pub(in crate::upstream) async fn run(mut self) {
        let gate = Gate::new(AT_ONCE, Sharing::AtMost(|_| OF_TENANT), QUESTIONS);
        let mut system: Option<Arc<System>> = None;
        while let Some(question) = self.questions.recv().await {
            let current = system.take().filter(|system| system.is_current());
            let current = current.unwrap_or_else(|| Arc::new(System::read(&self.servers)));
            system = Some(Arc::clone(&current));
            let (gate, metrics) = (gate.clone(), Arc::clone(&self.metrics));
            // The permits of questions bound the tasks.
            tokio::spawn(async move {
                if let Ok(_permit) = gate.enter(question.tenant).await {
                    current.answer(question, &metrics).await;
                }
            });
        }
    }
}

impl System {
    /// Reads two small files, which are read by many and therefore in memory.
    fn read(servers: &[SocketAddr]) -> Self {
        Self {
            hosts: Hosts::parse(&text(Path::new(HOSTS))),
            resolver: Resolver::new(servers),
            read: Instant::now(),
        }
    }

    fn is_current(&self) -> bool {
        self.read.elapsed() < REREAD
    }

    async fn answer(&self, question: Question, metrics: &Metrics) {
        match self.addresses(question.name()).await {
            Ok(Addresses { ips, ttl }) => {
                metrics.upstream().resolution(match ips.is_empty() {
                    true => Resolution::Absent,
                    false => Resolution::Found,
                });
                question.answered(&ips, ttl);
            }
            Err(why) => {
                metrics.upstream().resolution(Resolution::Failed);
                question.failed(&why.to_string());
            }
        }
    }

    async fn addresses(&self, name: &str) -> Result<Addresses, ResolveError> {
        if let Some(ips) = self.hosts.addresses(name) {
            let ttl = REREAD;
            return Ok(Addresses { ips, ttl });
        }
        let answer = timeout(DEADLINE, self.resolver.addresses(name)).await;
        answer.unwrap_or_else(|_| Err(ResolveError::NoAnswer(super::LATE.into())))
    }
}

/// Reads a text file; one that can't be read is empty.
fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(LONGEST).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

const HOSTS: &str = "/etc/hosts";
/// Bytes of the file that are read: some 20,000 names.
const LONGEST: u64 = 1 << 20;
/// Names that are resolved at once; each takes two sockets.
const AT_ONCE: usize = 64;
/// Names of one tenant that are resolved at once.
const OF_TENANT: usize = 8;
/// How long the files count as unchanged.
const REREAD: Duration = Duration::from_secs(5);
