//! `sekisho key list`

use anyhow::bail;
use sekisho_certs::seal::KeyRing;
use serde::Serialize;

use super::KeyId;
use super::tally::{Sealings, Tally};
use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Listing;
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// As a JSON array, one key per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(config: &Config, args: &Args) -> Result<Ended> {
    let sealer = open::unopened(config).await?;
    let seals = sealer.seals_under().await?;
    let tally = Tally::of(&sealer).await?;
    let keys = keys(&sealer.ring(), seals, &tally);
    let mut listing = Listing::new(args.json);
    for key in &keys {
        listing.push(|| View::new(key), || key.line())?;
    }
    listing.end()?;
    if !args.json && keys.iter().any(Key::is_done) {
        eprintln!("{KEPT}");
    }
    let missing = keys.iter().filter(|key| key.role == Role::Missing);
    let missing: Vec<_> = missing.map(|key| key.id.to_string()).collect();
    if !missing.is_empty() {
        bail!(
            "keys that are needed and not in [keys] master: {}; add them, or what is sealed \
             under them can't be served",
            missing.join(", ")
        );
    }
    Ok(Ended::Done)
}

/// Key of the ring or of the store.
struct Key {
    id: KeyId,
    seals: bool,
    role: Role,
    under: Sealings,
}

/// State of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A key after the sealing one in the ring: not used yet.
    New,
    /// The key that seals.
    Current,
    /// A key before the sealing one: used earlier.
    Old,
    /// A key that the store needs, and the ring lacks.
    Missing,
}

impl Key {
    /// Returns whether nothing needs the key any more.
    fn is_done(&self) -> bool {
        self.role == Role::Old && self.under.are_none()
    }

    fn line(&self) -> String {
        let Self { id, under, .. } = self;
        let role = match (self.role, self.seals) {
            (Role::Missing, true) => "MISSING, it seals",
            (Role::Missing, false) => "MISSING",
            (Role::Current, _) => "seals",
            (Role::New | Role::Old, _) => "opens",
        };
        let note = match self.role {
            Role::Old if self.is_done() => format!("; 'sekisho key remove {id}' takes it out"),
            Role::New => "; 'sekisho key rotate' makes it seal".to_owned(),
            _ => String::new(),
        };
        format!("{id}  {role}: {under}{note}")
    }
}

/// Lists the keys of the ring in order, and then those that the store needs and
/// the ring lacks.
fn keys(ring: &KeyRing, seals: u32, tally: &Tally) -> Vec<Key> {
    let mut role = if ring.has(seals) {
        Role::Old
    } else {
        Role::New
    };
    let mut keys = Vec::new();
    for id in ring.ids() {
        if id == seals {
            keys.push((id, Role::Current));
            role = Role::New;
        } else {
            keys.push((id, role));
        }
    }
    let needed = tally.keys().chain([seals]).filter(|id| !ring.has(*id));
    let mut needed: Vec<_> = needed.map(|id| (id, Role::Missing)).collect();
    needed.sort_by_key(|(id, _)| *id);
    needed.dedup_by_key(|(id, _)| *id);
    let all = keys.into_iter().chain(needed).map(|(id, role)| Key {
        id: KeyId(id),
        seals: id == seals,
        role,
        under: tally.under(id),
    });
    all.collect()
}

/// JSON form of a key.
#[derive(Serialize)]
struct View {
    id: String,
    in_ring: bool,
    seals: bool,
    #[serde(flatten)]
    under: Sealings,
}

impl View {
    fn new(key: &Key) -> Self {
        Self {
            id: key.id.to_string(),
            in_ring: key.role != Role::Missing,
            seals: key.seals,
            under: key.under,
        }
    }
}

/// Note about copies of secrets outside the store, which rotation does not seal
/// again.
pub(super) const KEPT: &str = "\
note: backups of the store are sealed under an older key, and so may be Redis
before it for up to a day, and each server's copy of a host on disk until the
server has read the host again, as after a restart";

const EXAMPLES: &str = "\
Reads the whole store, a page at a time. A key that the store needs and that
[keys] master does not hold is an error (exit code 1).

Examples:
  sekisho key list
  sekisho key list --json | jq -r '.[] | select(.seals) | .id'";
