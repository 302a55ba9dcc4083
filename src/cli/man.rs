//! `sekisho man DIR`: a manual page for each command, from the definitions of the command
//! line. Only programs that the build of packages makes for itself have it.
//!
//! It stands outside of those definitions: neither pages nor completions name it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::Cli;
use crate::terminal::failure::{Ended, Result};

/// Returns the folder that the pages are asked for in, if the command line asks for pages.
pub(crate) fn asked_folder() -> Option<PathBuf> {
    let mut arguments = env::args_os().skip(1);
    (arguments.next()? == OsStr::new("man")).then(|| arguments.next().map(PathBuf::from))?
}

/// Writes the pages into the folder.
pub(crate) fn run(folder: &Path) -> Result<Ended> {
    let named = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(named)?;
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        waiting.extend(shown.cloned());
        write_page(command, folder).with_context(named)?;
    }
    Ok(Ended::Done)
}

fn write_page(command: Command, folder: &Path) -> io::Result<()> {
    let has_subcommands = command.has_subcommands();
    let end = end_of_page(&command);
    let man = Man::new(command).manual("sekisho");
    let mut page = BufWriter::new(File::create(folder.join(man.get_filename()))?);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    end.to_writer(&mut page)?;
    page.flush()
}

/// Makes the end of a page: the text below the options, with its examples line by line.
/// `Man::render` would fill them to one paragraph.
fn end_of_page(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let text = command.get_after_help().map(ToString::to_string);
    let text = text.unwrap_or_default();
    if !text.starts_with("Example") {
        roff.control("SH", ["NOTES"]);
    }
    let mut is_verbatim = false;
    for line in text.lines() {
        let is_indented = line.starts_with("  ");
        if is_indented != is_verbatim {
            roff.control(if is_indented { "nf" } else { "fi" }, []);
            is_verbatim = is_indented;
        }
        match line.split_once(": ") {
            _ if line.is_empty() => roff.control("PP", []),
            _ if line.starts_with("Example") => roff.control("SH", ["EXAMPLES"]),
            Some(("Exit codes", codes)) => roff.control("SH", ["EXIT STATUS"]).text([roman(codes)]),
            _ => roff.text([roman(line)]),
        };
    }
    if is_verbatim {
        roff.control("fi", []);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(SEE_ALSO)]);
    roff
}

const SEE_ALSO: &str =
    "sekisho(1), sekisho.service(8), and the documents in /usr/share/doc/sekisho";
