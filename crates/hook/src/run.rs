//! Run of a script's function: for a handshake, or for a key of `tls:cached`.
//!
//! A run goes on in stretches, in a state of its worker ([`state`]), which knows the run
//! of its stretch; what a script calls ([`api`]) acts on that run.

pub(crate) mod api;
pub(crate) mod call;
mod load;
pub(crate) mod state;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use sekisho_certs::{Secret, lock};
use tokio::time::Instant;

use crate::choice::{Answer, Charge, Choice, Source};
use crate::failure::Failure;
use crate::flight::Permit;
use crate::hello::Hello;
use crate::imports::{Imports, Owner, Pair};
use crate::report::Report;
use crate::run::state::State;
use crate::shared::Shared;
use crate::token::Token;

/// Run with what it has chosen so far.
pub(crate) struct Run<I: Imports> {
    pub(crate) shared: Arc<Shared<I>>,
    pub(crate) state: Arc<State<I>>,
    /// The ClientHello; none for `test()`.
    pub(crate) hello: Option<Arc<Hello>>,
    pub(crate) deadline: Instant,
    /// True if a run before this one found no memory.
    pub(crate) is_again: bool,
    /// Key whose function this runs; none for `handshake` and `test`.
    pub(crate) key: Option<Arc<str>>,
    /// Token of the client's prefix, made for the first store call; a load shares that
    /// of the run that began it.
    token: OnceLock<Arc<Token>>,
    /// Report to write, if anybody reads it.
    pub(crate) report: Option<Arc<Mutex<Report>>>,
    /// Calls so far.
    calls: AtomicU32,
    work: Mutex<Work<I::Made>>,
}

/// Parts of a run that change while it goes on.
struct Work<M> {
    chosen: Chosen<M>,
    owner: Owner,
    /// Permit among the runs that wait; taken with the first wait.
    permit: Option<Permit>,
}

/// Choice of a script so far.
enum Chosen<M> {
    Nothing,
    /// Parts of certificates: chains and keys in the order in which they were given.
    Pairs {
        chains: Vec<Vec<u8>>,
        keys: Vec<Secret>,
    },
    One {
        choice: Choice<M>,
        until: Option<Instant>,
        source: Source,
    },
}

/// Part of a pair.
pub(crate) enum Part {
    Chain(Vec<u8>),
    Key(Secret),
}

impl<I: Imports> Run<I> {
    /// Makes a run for a handshake, or for `test` without a hello.
    pub(crate) fn new(
        state: Arc<State<I>>,
        hello: Option<Arc<Hello>>,
        deadline: Instant,
        report: Option<Arc<Mutex<Report>>>,
    ) -> Self {
        Self {
            shared: Arc::clone(&state.shared),
            state,
            hello,
            deadline,
            is_again: false,
            key: None,
            token: OnceLock::new(),
            report,
            calls: AtomicU32::new(0),
            work: Mutex::new(Work {
                chosen: Chosen::Nothing,
                owner: Owner::default(),
                permit: None,
            }),
        }
    }

    /// Makes the run that begins a handshake's again, with its token and permit.
    pub(crate) fn again(&self, state: Arc<State<I>>) -> Self {
        let again = self.beside(state, self.deadline, true);
        lock(&again.work).permit = lock(&self.work).permit.take();
        again
    }

    /// Makes the run of a function of `tls:cached`, for the client of this one.
    pub(crate) fn load(&self, key: Arc<str>, deadline: Instant, is_again: bool) -> Self {
        let load = self.beside(Arc::clone(&self.state), deadline, is_again);
        lock(&load.work).owner = lock(&self.work).owner.clone();
        Self {
            key: Some(key),
            ..load
        }
    }

    /// Makes a run for the same client, which shares its token.
    fn beside(&self, state: Arc<State<I>>, deadline: Instant, is_again: bool) -> Self {
        let (hello, report) = (self.hello.clone(), self.report.clone());
        Self {
            is_again,
            token: Arc::clone(self.token()).into(),
            ..Self::new(state, hello, deadline, report)
        }
    }

    /// Takes a permit among the runs that wait. A load uses that of the run that began
    /// it.
    pub(crate) fn waits(&self) -> Result<(), Failure> {
        if self.key.is_some() {
            return Ok(());
        }
        let mut work = lock(&self.work);
        if work.permit.is_none()
            && let Some(hello) = &self.hello
        {
            let permit = self.shared.flight.enter(hello.facts.client.ip());
            work.permit = Some(permit.ok_or(Failure::Overloaded)?);
        }
        Ok(())
    }

    /// Counts a call: of a client, of `tls:lookup`, or the read of a file. Relaxed: one
    /// thread.
    ///
    /// # Errors
    /// The run has made as many as it may.
    pub(crate) fn calls(&self) -> Result<(), String> {
        match self.calls.fetch_add(1, Ordering::Relaxed) {
            MAX_CALLS.. => Err(format!("a run makes at most {MAX_CALLS} calls")),
            _ => Ok(()),
        }
    }

    /// Takes a permit and the token of the client's prefix, before a store call. Waits for
    /// the token until `deadline`.
    pub(crate) async fn admitted(&self, deadline: Instant) -> Result<(), Failure> {
        self.waits()?;
        let Some(hello) = &self.hello else {
            return Ok(());
        };
        if self.token().is_there() {
            return Ok(());
        }
        let imports = &self.shared.imports;
        let admitted = imports.admit(hello.facts.client.ip(), deadline).await;
        self.token().put(admitted.map_err(|_| Failure::Overloaded)?);
        Ok(())
    }

    /// Takes the token of the client's prefix, if there is one. Dropping it gives it back.
    pub(crate) fn take_token(&self) -> Option<Charge> {
        self.token.get()?.take()
    }

    /// Returns the place of the token.
    pub(crate) fn token(&self) -> &Arc<Token> {
        self.token.get_or_init(Arc::default)
    }

    /// Chooses something. Fails if the script has chosen already.
    pub(crate) fn choose(
        &self,
        choice: Choice<I::Made>,
        until: Option<Instant>,
        source: Source,
    ) -> Result<(), String> {
        let mut work = lock(&self.work);
        let Chosen::Nothing = work.chosen else {
            return Err(TWICE.into());
        };
        work.chosen = Chosen::One {
            choice,
            until,
            source,
        };
        Ok(())
    }

    /// Adds a part of a pair.
    pub(crate) fn add(&self, part: Part) -> Result<(), String> {
        let mut work = lock(&self.work);
        if let Chosen::Nothing = work.chosen {
            work.chosen = Chosen::Pairs {
                chains: Vec::new(),
                keys: Vec::new(),
            };
        }
        let Chosen::Pairs { chains, keys } = &mut work.chosen else {
            return Err(TWICE.into());
        };
        match part {
            Part::Chain(chain) if chains.len() < MAX_PAIRS => chains.push(chain),
            Part::Key(key) if keys.len() < MAX_PAIRS => keys.push(key),
            Part::Chain(_) | Part::Key(_) => {
                return Err("at most two certificates: one for each key type".into());
            }
        }
        Ok(())
    }

    /// Tells whether the script has chosen something.
    pub(crate) fn has_chosen(&self) -> bool {
        !matches!(lock(&self.work).chosen, Chosen::Nothing)
    }

    /// Tells whether the script has named a site.
    pub(crate) fn has_site(&self) -> bool {
        lock(&self.work).owner.site.is_some()
    }

    /// Changes whose certificate the script gives.
    ///
    /// # Errors
    /// The script has chosen something that has an owner already.
    pub(crate) fn own(&self, change: impl FnOnce(&mut Owner)) -> Result<(), &'static str> {
        let mut work = lock(&self.work);
        if let Chosen::One { .. } = work.chosen {
            return Err("comes too late: what was chosen has tenant and site");
        }
        change(&mut work.owner);
        Ok(())
    }

    /// Returns the key in the region for a script's key. The tenant that the script
    /// has named so far is part of it: under one key of a script, no tenant gets
    /// what another one's run made.
    pub(crate) fn region_key(&self, key: &str) -> Arc<str> {
        let work = lock(&self.work);
        [work.owner.tenant.as_str(), "\0", key].concat().into()
    }

    /// Ends a run: makes what the script gave, and returns the choice.
    ///
    /// # Errors
    /// Says why what the script gave can't be served.
    pub(crate) fn finish(&self) -> Result<Answer<I::Made>, String> {
        let (chosen, owner) = {
            let mut work = lock(&self.work);
            let chosen = std::mem::replace(&mut work.chosen, Chosen::Nothing);
            (chosen, std::mem::take(&mut work.owner))
        };
        let (choice, until, source) = match chosen {
            Chosen::Nothing => (Choice::Lookup, None, Source::Script),
            Chosen::One {
                choice,
                until,
                source,
            } => (choice, until, source),
            Chosen::Pairs { chains, keys } => {
                let key = self.key.clone();
                let made = self.make(chains, keys, &Owner { key, ..owner })?;
                (Choice::Made(made), None, Source::Script)
            }
        };
        Ok(Answer {
            charge: self.settle(&choice),
            choice,
            until: until.unwrap_or_else(|| Instant::now() + self.shared.settings.keep),
            source,
        })
    }

    /// Writes into the report, if anybody reads it.
    pub(crate) fn report(&self, write: impl FnOnce(&mut Report)) {
        if let Some(report) = &self.report {
            write(&mut lock(report));
        }
    }

    /// Settles the token. A load leaves it to the run that began it.
    fn settle(&self, choice: &Choice<I::Made>) -> Option<Charge> {
        if self.key.is_some() {
            return None;
        }
        let token = self.token.get()?;
        let charge = token.take()?;
        let is_spent = match choice {
            // The lookup says what these led to.
            Choice::Lookup | Choice::Use(_) if !token.is_owed() => return Some(charge),
            Choice::Lookup | Choice::Use(_) | Choice::Made(_) => token.is_owed(),
            Choice::Refuse(_) | Choice::Default => token.is_owed() || !token.met_outage(),
        };
        if is_spent {
            charge();
        }
        None
    }

    fn make(
        &self,
        chains: Vec<Vec<u8>>,
        keys: Vec<Secret>,
        owner: &Owner,
    ) -> Result<I::Made, String> {
        if chains.len() != keys.len() {
            let (chains, keys) = (chains.len(), keys.len());
            return Err(format!(
                "{chains} certificates with {keys} keys: call tls:certificate_key once for each tls:certificate"
            ));
        }
        let pairs = chains.into_iter().zip(keys);
        let pairs: Vec<Pair> = pairs
            .map(|(certificate, key)| Pair { certificate, key })
            .collect();
        self.shared.imports.make(&pairs, owner)
    }
}

const TWICE: &str = "the run has chosen already: return after tls:use, tls:default, \
                     tls:refuse, tls:certificate or tls:cached has chosen";
const MAX_PAIRS: usize = 2;
/// Calls in one run: of clients and lookups, and reads of files.
const MAX_CALLS: u32 = 64;
