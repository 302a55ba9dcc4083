//! `sekisho store backup`

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use indicatif::HumanBytes;
use sekisho_stores::sqlite::{Mode, Sqlite};
use sekisho_stores::{Url, own_file};

use super::copy;
use crate::config::Config;
use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(super) fn run(config: Option<&Path>, args: &Args) -> Result<Ended> {
    let config = configuration::load(config)?;
    let url = &config.store.url;
    if !url.is_catalog() {
        bail!("the store {url} is written by others: back it up where it is written");
    }
    let to = Destination::new(args)?;
    let begun = Instant::now();
    let ended = open::runtime()?.block_on(async {
        let ended = match url.database() {
            Some(path) => copy_file(&config, path, &to).await,
            None => copy_all(&config, &to, begun).await,
        }?;
        if ended == Ended::Done {
            check(&config, &to).await?;
        }
        anyhow::Ok(ended)
    })?;
    if ended != Ended::Done {
        return Ok(ended);
    }
    let bytes = to.put_in_place()?;
    let (file, bytes) = (to.file.display(), HumanBytes(bytes));
    let seconds = begun.elapsed().as_secs_f64();
    println!("backed up {url} into {file}: {bytes} in {seconds:.1} s");
    if let Some(keys) = &config.keys {
        println!("the master key, {keys}, is not in it: keep a copy of that elsewhere");
    }
    if url.database().is_none() {
        println!("restore it with: sekisho store copy sqlite:{file} postgres://… (a new database)");
    }
    Ok(Ended::Done)
}

/// Copies the file in one consistent state. Checks the master key first:
/// without it, the backup could not be restored.
async fn copy_file(config: &Config, path: &Path, to: &Destination) -> Result<Ended> {
    let same = fs::canonicalize(&to.file).is_ok_and(|to| fs::canonicalize(path).ok() == Some(to));
    if same {
        bail!("{} is the store itself", path.display());
    }
    open::sealed(config).await?;
    // The backup's mode must not be more open than the store's.
    to.make_part()?;
    Sqlite::open(path, Mode::Existing)?.backup(&to.part).await?;
    Ok(Ended::Done)
}

/// Copies all records into a store of one file; continues what an earlier run
/// left.
async fn copy_all(config: &Config, to: &Destination, begun: Instant) -> Result<Ended> {
    let source = open::sealed(config).await?;
    // The part is renamed in the end: that it was made is no news.
    let (target, _) = copy::open_target(&source, &to.config(config)).await?;
    let copied = copy::copy(&source, &target).await?;
    println!("{}", copied.to);
    Ok(copied.ended(begun))
}

/// Checks the copy: opens it like a restored one.
async fn check(config: &Config, to: &Destination) -> Result<()> {
    let copy = open::sealed(&to.config(config)).await;
    let copy = copy.context("the copy does not open")?;
    // Reads a record: opening the file alone may not read it.
    copy.catalog()
        .head()
        .await
        .context("the copy can't be read")?;
    Ok(())
}

/// Path of the backup, and of its unfinished part.
struct Destination {
    file: PathBuf,
    part: PathBuf,
}

impl Destination {
    fn new(args: &Args) -> Result<Self> {
        let file = std::path::absolute(&args.file)?;
        if !args.force && file.symlink_metadata().is_ok() {
            bail!("{} exists already; --force replaces it", file.display());
        }
        if file.is_dir() {
            bail!("{} is a folder; name a file", file.display());
        }
        let part = own_file::beside(&file, ".part");
        Ok(Self { file, part })
    }

    /// Returns a configuration with the unfinished copy as its store.
    fn config(&self, config: &Config) -> Config {
        Config {
            store: Url::sqlite(self.part.clone()).into(),
            ..config.clone()
        }
    }

    /// Creates the empty part, readable by its owner only.
    fn make_part(&self) -> Result<()> {
        let made = own_file::remove(&self.part).and_then(|()| own_file::create(&self.part));
        let made = made.with_context(|| self.part.display().to_string());
        made.map(drop)
    }

    /// Renames the finished file durably; returns its length.
    fn put_in_place(&self) -> Result<u64> {
        let log = own_file::beside(&self.part, "-wal");
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            bail!(
                "{} is still being written by something else",
                self.part.display()
            );
        }
        let shown = || self.file.display().to_string();
        let part = File::open(&self.part).with_context(shown)?;
        part.sync_all().with_context(shown)?;
        fs::rename(&self.part, &self.file).with_context(shown)?;
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .with_context(|| folder.display().to_string())?;
        Ok(part.metadata().with_context(shown)?.len())
    }
}

const EXAMPLES: &str = "\
The store is served and written on meanwhile; the copy is of one state, and gets
its name only when it is whole and opens under the master key. Of a sqlite: store it is the file that goes in
the store's place to restore it. Of a postgres:// store it is a sqlite: store of
the same content, which 'sekisho store copy' brings back. Private keys are
sealed in it, and the master key is not in it.

Examples:
  sekisho store backup /backup/hosts.db
  sekisho store backup --force /backup/hosts.db";
