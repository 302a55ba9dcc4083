//! Fixtures: certificates for as many hosts as a measurement needs.

mod authority;
mod der;
mod manifest;
mod write;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

pub(crate) use self::authority::Authority;
use self::manifest::Manifest;

/// Fills the folder unless it already holds these hosts.
pub(crate) fn run(options: &Options) -> Result<()> {
    let made = prepare(options)?;
    let folder = options.dir.display();
    if made {
        eprintln!("{} hosts in {folder}", options.hosts);
    } else {
        eprintln!("{folder} already holds these {} hosts", options.hosts);
    }
    Ok(())
}

/// Fills the folder; returns whether anything had to be written.
pub(crate) fn prepare(options: &Options) -> Result<bool> {
    ensure!(options.hosts > 0, "--hosts must be at least 1");
    let wanted = Manifest::of(options);
    if wanted.matches(&options.dir)? {
        return Ok(false);
    }
    let folder = Folder(&options.dir);
    std::fs::create_dir_all(folder.hosts())?;
    // The manifest comes first: an interrupted run must not continue with keys
    // of another kind.
    wanted.begun().write(&options.dir)?;
    let authority = Authority::load_or_create(folder)?;
    write::hosts(options, folder, &authority)?;
    wanted.write(&options.dir)?;
    Ok(true)
}

/// How many hosts, with what keys, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Folder to fill; what it already holds for the same options is kept
    #[arg(long)]
    pub(crate) dir: PathBuf,

    /// Number of hosts: h0.example.test and up
    #[arg(long, value_name = "N")]
    pub(crate) hosts: usize,

    /// Type of the hosts' keys
    #[arg(long, value_enum, default_value = "ecdsa")]
    pub(crate) key: KeyKind,

    /// Keys that the hosts share in turn, each with a certificate of its own; 0 gives each
    /// host its own key [default: 0 for ecdsa, 200 for rsa2048, 50 for rsa4096]
    #[arg(long, value_name = "N")]
    pub(crate) pool: Option<usize>,
}

impl Options {
    fn pool(&self) -> usize {
        self.pool.unwrap_or(match self.key {
            KeyKind::Ecdsa => 0,
            KeyKind::Rsa2048 => 200,
            // To find one takes a second.
            KeyKind::Rsa4096 => 50,
        })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyKind {
    Ecdsa,
    Rsa2048,
    Rsa4096,
}

impl KeyKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ecdsa => "ecdsa",
            Self::Rsa2048 => "rsa2048",
            Self::Rsa4096 => "rsa4096",
        }
    }
}

/// Paths in a fixture's folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folder<'a>(pub(crate) &'a Path);

impl Folder<'_> {
    /// Returns the folder with `NAME.crt` and `NAME.key`, as for `cert import
    /// --layout flat`.
    pub(crate) fn hosts(self) -> PathBuf {
        self.0.join("hosts")
    }

    pub(crate) fn chain(self, name: &str) -> PathBuf {
        self.hosts().join(format!("{name}.crt"))
    }

    pub(crate) fn key(self, name: &str) -> PathBuf {
        self.hosts().join(format!("{name}.key"))
    }

    pub(crate) fn root(self) -> PathBuf {
        self.0.join("ca.crt")
    }

    fn intermediate(self) -> PathBuf {
        self.0.join("intermediate.crt")
    }

    fn intermediate_key(self) -> PathBuf {
        self.0.join("intermediate.key")
    }

    fn names(self) -> PathBuf {
        self.0.join("names.txt")
    }
}

/// Writes a file whose presence shows that something is complete: whole, or not at all if this
/// process is killed.
fn write_whole(file: &Path, text: &str) -> Result<()> {
    let begun = file.with_extension("begun");
    std::fs::write(&begun, text)?;
    Ok(std::fs::rename(begun, file)?)
}

pub(crate) fn host_name(number: usize) -> String {
    HOST_PATTERN.replace("{n}", &number.to_string())
}

pub(crate) const HOST_PATTERN: &str = "h{n}.example.test";

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  100,000 hosts with a P-256 key each (400 MB of files take 800 MB of disk):
    sekisho-bench fixtures --dir fixtures/ecdsa --hosts 100000
  100,000 certificates over 200 RSA keys:
    sekisho-bench fixtures --dir fixtures/rsa2048 --hosts 100000 --key rsa2048 --pool 200

The folder holds hosts/NAME.crt (leaf and intermediate) and hosts/NAME.key, the root as ca.crt,
and names.txt. An interrupted run continues where it stopped.
";

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn chains_have_the_sizes_of_a_public_authority() {
        let dir = scratch("sizes");
        let mut options = options(&dir, KeyKind::Ecdsa, 3);
        assert!(prepare(&options).unwrap());
        assert!(
            !prepare(&options).unwrap(),
            "the second run has nothing to do"
        );
        for number in 0..3 {
            let chain = Folder(&dir).chain(&host_name(number));
            let sizes: Vec<usize> = CertificateDer::pem_file_iter(chain)
                .unwrap()
                .map(|certificate| certificate.unwrap().len())
                .collect();
            assert_eq!(sizes.len(), 2);
            for size in sizes {
                assert!((1_000..=1_300).contains(&size), "{size} bytes");
            }
        }
        options.hosts = 4;
        let kept = fs::read(Folder(&dir).key("h0.example.test")).unwrap();
        assert!(prepare(&options).unwrap());
        assert_eq!(fs::read(Folder(&dir).key("h0.example.test")).unwrap(), kept);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_pool_is_shared_in_turn() {
        let dir = scratch("pool");
        let mut options = options(&dir, KeyKind::Ecdsa, 4);
        options.pool = Some(2);
        prepare(&options).unwrap();
        let keys: Vec<Vec<u8>> = (0..4)
            .map(|number| fs::read(Folder(&dir).key(&host_name(number))).unwrap())
            .collect();
        assert!(keys[0] == keys[2] && keys[1] == keys[3] && keys[0] != keys[1]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn another_kind_of_key_is_refused() {
        let dir = scratch("kinds");
        prepare(&options(&dir, KeyKind::Ecdsa, 1)).unwrap();
        let error = prepare(&options(&dir, KeyKind::Rsa2048, 1)).unwrap_err();
        assert!(error.to_string().contains("other options"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }

    fn options(dir: &Path, key: KeyKind, hosts: usize) -> Options {
        Options {
            dir: dir.to_owned(),
            hosts,
            key,
            pool: None,
        }
    }

    fn scratch(name: &str) -> PathBuf {
        let id = std::process::id();
        std::env::temp_dir().join(format!("sekisho-bench-fixtures-{name}-{id}"))
    }
}
