//! The hook: what the server asks in each handshake.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::metrics::Registry;
use sekisho_certs::{LogLimiter, lock};
use tokio::time::Instant;

use crate::cache::Cache;
use crate::choice::{Answer, Charge, Choice, Source};
use crate::compile::Program;
use crate::error::Error;
use crate::failure::{Charged, Failure};
use crate::files::Folders;
use crate::flight::Flight;
use crate::hello::Hello;
use crate::imports::Imports;
use crate::metrics::Metrics;
use crate::region::Region;
use crate::report::Report;
use crate::run::Run;
use crate::run::call::call;
use crate::run::state::State;
use crate::settings::{OnError, Settings};
use crate::shared::{Shared, Sizes};
use crate::worker_time::WorkerTime;

/// Script with its bounds and all that its runs share. Each worker thread that asks
/// it has a Luau state of its own.
pub struct Hook<I: Imports> {
    shared: Arc<Shared<I>>,
    /// The end of this value tells the workers to drop their states.
    _alive: Arc<()>,
}

impl<I: Imports> Hook<I> {
    /// Compiles a script, and runs its main chunk once.
    ///
    /// # Errors
    /// The script does not compile, calls what is not there in its main chunk, has no
    /// function `handshake`, or keeps over half of its memory from the start; or a folder
    /// can't be opened.
    pub fn compile(settings: Settings, imports: I) -> Result<Self, Error> {
        let program = Program::compile(&settings.name, &settings.source)?;
        let folders = Folders::open(&settings.folders).map_err(|what| program.error(&what))?;
        let alive = Arc::new(());
        let shared = Arc::new(Shared {
            alive: Arc::downgrade(&alive),
            program,
            imports,
            folders,
            region: Region::new(settings.region),
            cache: Cache::new(settings.cache),
            flight: Flight::new(settings.in_flight, settings.waiting_per_prefix),
            metrics: Metrics::default(),
            failures: LogLimiter::per_second(FAILURES),
            lines: LogLimiter::per_second(LINES),
            replacements: LogLimiter::per_second(REPLACEMENTS),
            settings,
        });
        // Dropped again: the workers make their own.
        let time = Arc::new(WorkerTime::new());
        let state = State::new(&shared, time)?;
        let (kept, memory) = (state.kept(), shared.settings.memory);
        if kept > memory / 2 {
            let (kept, memory) = (kept >> 10, memory >> 10);
            let what = format!("the script keeps {kept} KiB of {memory} KiB before its first run");
            return Err(Error {
                hint: "[hook] memory is to be twice as much".into(),
                ..shared.program.error(&what)
            });
        }
        Ok(Self {
            shared,
            _alive: alive,
        })
    }

    /// Runs the script for a handshake, until `deadline` or the hook's own at most.
    /// A run that failed is counted, logged, and answered as `on_error` says.
    /// Dropping the future ends the run; functions of `tls:cached` that it began go
    /// on.
    pub async fn ask(&self, hello: Arc<Hello>, deadline: Instant) -> Answer<I::Made> {
        self.handshake(hello, deadline, None).await
    }

    /// Does what [`ask`](Self::ask) does, and reports what the run did.
    pub async fn report(&self, hello: Arc<Hello>, deadline: Instant) -> (Answer<I::Made>, Report) {
        let report = Arc::new(Mutex::new(Report::default()));
        let begun = Instant::now();
        let answer = self
            .handshake(hello, deadline, Some(Arc::clone(&report)))
            .await;
        (answer, taken(&report, begun))
    }

    /// Runs the script's function `test`, if there is one. The report has an error if
    /// it failed.
    pub async fn test(&self) -> Option<Report> {
        let report = Arc::new(Mutex::new(Report::default()));
        let begun = Instant::now();
        let deadline = begun + self.shared.settings.deadline;
        let result = match State::of_worker(&self.shared) {
            Ok(state) => {
                let test = state.test.clone()?;
                let run = Run::new(state, None, deadline, Some(Arc::clone(&report)));
                call(&Arc::new(run), &test, ()).await
            }
            Err(error) => Err(Failure::Script(error)),
        };
        let mut report = taken(&report, begun);
        report.error = result.err().map(|failure| failure.to_string());
        Some(report)
    }

    /// Registers the hook's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
        let sizes = Sizes(Arc::downgrade(&self.shared));
        registry.register_collector(Box::new(sizes));
    }

    async fn handshake(
        &self,
        hello: Arc<Hello>,
        deadline: Instant,
        report: Option<Arc<Mutex<Report>>>,
    ) -> Answer<I::Made> {
        let deadline = deadline.min(Instant::now() + self.shared.settings.deadline);
        let state = match State::of_worker(&self.shared) {
            Ok(state) => state,
            Err(error) => {
                let failure = Failure::Script(error);
                return self.failed(&failure, None, &hello, report.as_deref());
            }
        };
        if state.time.is_busy() && !self.has_token(&hello) {
            return self.failed(&Failure::Overloaded, None, &hello, report.as_deref());
        }
        let mut run = Arc::new(Run::new(state, Some(hello), deadline, report));
        let mut called = call(&run, &run.state.handshake, &run.state.tls).await;
        // A script only reads: beginning again does nothing twice.
        if let Err(Failure::Memory { own: false }) = called
            && let Ok(state) = State::of_worker(&self.shared)
        {
            run = Arc::new(run.again(state));
            called = call(&run, &run.state.handshake, &run.state.tls).await;
        }
        self.finish(&run, called)
    }

    /// Tells whether the client's network has a token. Asked while runs take much of the
    /// worker's time: a network whose runs were cut has none left to take.
    fn has_token(&self, hello: &Hello) -> bool {
        let client = hello.facts.client.ip();
        self.shared.imports.try_admit(client).is_some()
    }

    /// Ends the run of a handshake.
    fn finish(&self, run: &Run<I>, called: Result<(), Failure>) -> Answer<I::Made> {
        run.report(|report| report.memory = run.state.lua.used_memory());
        let finished = called.and_then(|()| {
            let error = |what: String| Failure::Script(self.shared.program.error(&what));
            run.finish().map_err(error)
        });
        match finished {
            Ok(answer) => {
                self.shared
                    .metrics
                    .ended(&answer.choice, answer.source, None);
                answer
            }
            Err(failure) => {
                let hello = run.hello.as_ref().expect("handshakes have one");
                let token = self.charge(run, &failure, hello);
                self.failed(&failure, token, hello, run.report.as_deref())
            }
        }
    }

    /// Charges a run that failed. Returns a token that what `on_error` chooses may spend.
    fn charge(&self, run: &Run<I>, failure: &Failure, hello: &Hello) -> Option<Charge> {
        let token = run.take_token();
        let charge = match run.token().is_owed() {
            true => Charged::Always,
            false => failure.charge(),
        };
        match charge {
            Charged::Always => {
                let client = hello.facts.client.ip();
                let token = token.or_else(|| self.shared.imports.try_admit(client));
                if let Some(token) = token {
                    token();
                }
                None
            }
            Charged::Calls => token.filter(|_| !run.token().met_outage()),
            Charged::Nothing => None,
        }
    }

    /// Counts, logs and reports a failure, and applies the policy for failures.
    fn failed(
        &self,
        failure: &Failure,
        token: Option<Charge>,
        hello: &Hello,
        report: Option<&Mutex<Report>>,
    ) -> Answer<I::Made> {
        let shared = &self.shared;
        let answer = shared.on_error(token);
        shared
            .metrics
            .ended(&answer.choice, answer.source, Some(failure));
        shared.log_failure(failure, Some(hello));
        if let Some(report) = report {
            let mut report = lock(report);
            report.error = Some(failure.to_string());
        }
        answer
    }
}

impl<I: Imports> Shared<I> {
    /// Logs a failure at a limited rate; the metrics count all.
    pub(crate) fn log_failure(&self, failure: &Failure, hello: Option<&Hello>) {
        let Some(others) = self.failures.allow() else {
            return;
        };
        let name = hello.and_then(|hello| hello.server_name.as_ref());
        let name = name.map_or("", |name| name.as_str());
        let script = &*self.program.name;
        tracing::error!(name, script, %failure, others, "hook failed: [hook] on_error decides");
    }

    /// Applies the policy for failures. A run that failed after a store call has led to
    /// nothing, as an absence: its token is spent, unless the lookup of the client's own
    /// name finds something.
    fn on_error(&self, token: Option<Charge>) -> Answer<I::Made> {
        let (choice, charge, spent) = match self.settings.on_error {
            OnError::Refuse => (Choice::Refuse(INTERNAL_ERROR), None, token),
            OnError::Lookup => (Choice::Lookup, token, None),
            OnError::Default => (Choice::Default, None, token),
        };
        if let Some(token) = spent {
            token();
        }
        Answer {
            choice,
            // The failure may be over then.
            until: Instant::now() + FAILED,
            source: Source::Failed,
            charge,
        }
    }
}

fn taken(report: &Mutex<Report>, begun: Instant) -> Report {
    let mut report = lock(report);
    let mut report = std::mem::take(&mut *report);
    report.took = begun.elapsed();
    report
}

const INTERNAL_ERROR: u8 = 80;
/// How long a connection keeps what `on_error` says.
const FAILED: Duration = Duration::from_secs(10);
/// Lines per second of failed runs.
const FAILURES: u32 = 1;
/// Lines per second of states that were replaced.
const REPLACEMENTS: u32 = 1;
/// Lines per second of the scripts' `log`.
const LINES: u32 = 20;
