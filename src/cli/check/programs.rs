//! Finds CGI programs that servers will not run.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use sekisho_server::{starts_by_fork, survey};

use crate::config::Config;
use crate::terminal::output::Output;

/// Writes which programs below the folders of `cgi:` entries, and of `[site]`, will not run,
/// and why.
pub(super) fn write(config: &Config, output: &mut Output) -> Result<()> {
    let of_site = config.site.programs().map(PathBuf::from);
    let entries = config.allowed.programs().iter().cloned().chain(of_site);
    let entries: BTreeSet<PathBuf> = entries.collect();
    for entry in &entries {
        write_of(entry, output)?;
    }
    if !entries.is_empty() && starts_by_fork() {
        writeln!(
            output,
            "this system's glibc is older than 2.29: each start of a CGI program copies the \
             server's page table, which takes longer the more memory it has"
        )?;
    }
    Ok(())
}

fn write_of(entry: &Path, output: &mut Output) -> Result<()> {
    let surveyed = match survey(entry) {
        Ok(surveyed) => surveyed,
        Err(refused) => {
            writeln!(
                output,
                "no program below {} runs: {refused}",
                entry.display()
            )?;
            return Ok(());
        }
    };
    if surveyed.refused.is_empty() && !surveyed.is_cut {
        return Ok(());
    }
    writeln!(
        output,
        "programs below {} that do not run:",
        entry.display()
    )?;
    for refused in &surveyed.refused {
        writeln!(output, "  {refused}")?;
    }
    if surveyed.is_cut {
        writeln!(
            output,
            "  and there may be more: the folder has too many files to look at all"
        )?;
    }
    Ok(())
}
