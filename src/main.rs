//! sekisho: HTTPS for very many domains, each certificate loaded from its
//! store during the handshake.

#![deny(unsafe_code)]

mod cli;
mod config;
mod handover;
mod process;
mod terminal;
mod wiring;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

fn main() -> ExitCode {
    let begun = Instant::now();
    // The kernel names a process after its path: `exe` behind a reload.
    let _ = rustix::thread::set_name(c"sekisho");
    // Must come before any key is read and before any thread starts: threads
    // inherit both settings.
    process::keep_memory_private();
    #[cfg(feature = "man")]
    if let Some(folder) = cli::man::asked_folder() {
        return cli::man::run(&folder)
            .map_or_else(|error| terminal::failure::report(&error), Into::into);
    }
    let cli = cli::Cli::parse();
    process::give_up_privileges();
    match cli.run(begun) {
        Ok(ended) => ended.into(),
        Err(error) => terminal::failure::report(&error),
    }
}
