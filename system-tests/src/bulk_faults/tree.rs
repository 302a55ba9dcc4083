//! Source of the imports: a folder of pairs that changes, and all leaves that it ever had.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sekisho_testkit::{Key, TestCa};

use sekisho_bench::load::SplitMix;

use crate::leaf::digest_of;

/// Folder of `NAME.crt` and `NAME.key`.
pub(super) struct Tree {
    folder: PathBuf,
    ca: TestCa,
    random: SplitMix,
    /// Number of the next new host.
    next: usize,
    /// Number of the next certificate: each is valid a day longer than the one before.
    issued: u32,
    hosts: BTreeMap<String, History>,
}

/// Leaves of a host, the newest last.
#[derive(Default)]
struct History {
    leaves: Vec<String>,
    is_there: bool,
}

impl Tree {
    pub(super) fn new(folder: &Path, hosts: usize, seed: u64) -> Result<Self> {
        fs::create_dir(folder)?;
        let mut tree = Self {
            folder: folder.to_owned(),
            ca: TestCa::new(),
            random: SplitMix(seed),
            next: 0,
            issued: 0,
            hosts: BTreeMap::new(),
        };
        tree.add(hosts)?;
        Ok(tree)
    }

    /// Returns the CA's certificate.
    pub(super) fn root_pem(&self) -> String {
        self.ca.root_pem()
    }

    /// Returns the hosts that the folder has.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &String> {
        let there = self.hosts.iter().filter(|(_, history)| history.is_there);
        there.map(|(host, _)| host)
    }

    /// Returns whether the folder has a host.
    pub(super) fn has(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|history| history.is_there)
    }

    /// Returns whether a leaf was ever a host's.
    pub(super) fn had(&self, host: &str, leaf: &str) -> bool {
        let leaves = self.hosts.get(host).map(|history| &history.leaves);
        leaves.is_some_and(|leaves| leaves.iter().any(|one| one == leaf))
    }

    /// Returns whether a leaf is a host's newest.
    pub(super) fn is_newest(&self, host: &str, leaf: &str) -> bool {
        let newest = self.hosts.get(host).and_then(|one| one.leaves.last());
        newest.is_some_and(|newest| newest == leaf)
    }

    /// Adds new hosts.
    pub(super) fn add(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let host = format!("h{}.bulk.example", self.next);
            self.next += 1;
            self.issue(&host)?;
        }
        Ok(())
    }

    /// Issues new certificates for some hosts.
    pub(super) fn renew(&mut self, count: usize) -> Result<()> {
        for host in self.some(count) {
            self.issue(&host)?;
        }
        Ok(())
    }

    /// Removes some hosts.
    pub(super) fn remove(&mut self, count: usize) -> Result<()> {
        for host in self.some(count) {
            for ending in ["crt", "key"] {
                fs::remove_file(self.folder.join(format!("{host}.{ending}")))?;
            }
            let history = self.hosts.get_mut(&host).context("it is there")?;
            history.is_there = false;
        }
        Ok(())
    }

    /// Draws a number of at least 0 and below 1.
    pub(super) fn draw(&mut self) -> f64 {
        self.random.unit()
    }

    /// Draws hosts that are there, each once.
    fn some(&mut self, count: usize) -> Vec<String> {
        let mut left: Vec<_> = self.hosts().cloned().collect();
        let mut drawn = Vec::new();
        while drawn.len() < count && !left.is_empty() {
            let place = self.random.below(left.len());
            drawn.push(left.swap_remove(place));
        }
        drawn
    }

    /// Writes a pair in two steps, as tools do. The history comes first: a watcher may take
    /// the pair at once.
    fn issue(&mut self, host: &str) -> Result<()> {
        // Years of twelve months of 28 days.
        let (year, day) = (2050 + self.issued / 336, self.issued % 336);
        let (month, day) = (1 + day / 28, 1 + day % 28);
        let until = (
            i32::try_from(year)?,
            u8::try_from(month)?,
            u8::try_from(day)?,
        );
        self.issued += 1;
        let pair = self.ca.issue_valid(&[host], Key::P256, (2020, 1, 1), until);
        let history = self.hosts.entry(host.to_owned()).or_default();
        history.leaves.push(digest_of(&pair.chain[0]));
        history.is_there = true;
        let file = |ending: &str| self.folder.join(format!("{host}.{ending}"));
        fs::write(file("key"), pair.key_pem())?;
        Ok(fs::write(file("crt"), pair.chain_pem())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_remembers_what_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(&folder.path().join("pairs"), 3, 1).unwrap();
        let host = "h0.bulk.example";
        let first = tree.hosts[host].leaves[0].clone();
        tree.renew(3).unwrap();
        assert!(tree.had(host, &first) && !tree.is_newest(host, &first));
        assert!(!tree.had("h1.bulk.example", &first));
        tree.remove(3).unwrap();
        assert!(!tree.has(host) && tree.had(host, &first));
        assert_eq!(tree.hosts().count(), 0);
        tree.add(1).unwrap();
        assert!(tree.has("h3.bulk.example"));
    }
}
