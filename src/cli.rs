//! The command line: parses arguments and runs the command.

mod acme;
mod admin;
mod cert;
mod check;
mod completions;
mod config;
mod control;
mod demo;
mod edit;
mod filter;
#[cfg(feature = "hook")]
mod hook;
mod host;
mod init;
mod issuance;
mod key;
mod lineage;
#[cfg(feature = "man")]
pub(crate) mod man;
mod named;
mod serve;
mod status;
mod store;
mod tenant;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand};

use crate::handover::keeper;
use crate::terminal::failure::{Ended, Result};

/// HTTPS for very many domains: each host's certificate is loaded from its
/// store during the TLS handshake.
#[derive(Debug, Parser)]
#[command(name = "sekisho", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// The configuration [default: ./sekisho.toml, then
    /// /etc/sekisho/sekisho.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a configuration to begin with
    Init(init::Args),
    /// Serve the hosts of the store until SIGTERM, SIGINT or SIGQUIT
    Serve(serve::Args),
    /// Begin the running server anew with its configuration, without a lost connection
    #[command(after_help = control::RELOAD)]
    Reload,
    /// Replace the running server by the program on the disk, without a lost connection
    #[command(after_help = control::UPGRADE)]
    Upgrade,
    /// Show how the running server is
    Status(status::Args),
    /// Check the configuration and the stores, without serving
    Check(check::Args),
    /// Show the configuration that is in effect
    #[command(subcommand)]
    Config(config::Command),
    /// Set, show, list, suspend and remove hosts
    #[command(subcommand)]
    Host(host::Command),
    /// List tenants, suspend and resume their hosts
    ///
    /// A tenant is a name that host records have ('sekisho host set --tenant'); it needs no record
    /// of its own.
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Import, order, renew, show, list, revoke, remove and export certificates
    #[command(subcommand)]
    Cert(cert::Command),
    /// Manage the accounts at CAs
    #[command(subcommand)]
    Acme(acme::Command),
    /// Add, change, list and remove master keys
    #[command(subcommand)]
    Key(key::Command),
    /// Try the script of `[hook]`
    #[cfg(feature = "hook")]
    #[command(subcommand)]
    Hook(hook::Command),
    /// Copy the store into another one, back it up, or upgrade it
    #[command(subcommand)]
    Store(store::Command),
    /// Make a CA and hosts, serve them, and verify a request
    Demo(demo::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Keep the pid of a server that has handed over
    #[command(hide = true)]
    KeepPid {
        /// Process that serves
        newest: u32,
    },
}

impl Cli {
    /// Runs the command. `begun` is when the process began.
    pub(crate) fn run(self, begun: Instant) -> Result<Ended> {
        let config = self.config.as_deref();
        match self.command {
            Command::Init(args) => init::run(&args),
            Command::Serve(args) => serve::run(config, &args, begun),
            Command::Reload => control::reload(config),
            Command::Upgrade => control::upgrade(config),
            Command::Status(args) => status::run(config, &args),
            Command::Check(args) => check::run(config, &args),
            Command::Config(command) => config::run(config, &command),
            Command::Host(command) => host::run(config, command),
            Command::Tenant(command) => tenant::run(config, command),
            Command::Cert(command) => cert::run(config, command),
            Command::Acme(command) => acme::run(config, command),
            Command::Key(command) => key::run(config, command),
            #[cfg(feature = "hook")]
            Command::Hook(command) => hook::run(config, &command),
            Command::Store(command) => store::run(config, command),
            Command::Demo(args) => demo::run(&args),
            Command::Completions(args) => completions::run(&args),
            Command::KeepPid { newest } => Ok(Ended::With(keeper::keep(newest)?)),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  sekisho demo                                     try it: makes hosts, serves them, verifies one
  sekisho init                                     write a configuration to begin with
  sekisho cert import --chain a.crt --key a.key    store a certificate for the names in it
  sekisho host set a.example --root /srv/www/a     say how requests to a host are answered
  sekisho serve                                    serve all of them

Exit codes: 0 done, 1 failed or partly refused, 2 wrong usage.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_shows_an_example() {
        let mut waiting = vec![Cli::command().disable_help_subcommand(true)];
        while let Some(mut command) = waiting.pop() {
            let help = command.render_long_help().to_string();
            let is_shown = !command.is_hide_set();
            assert!(
                !is_shown || help.contains("Example"),
                "{}",
                command.get_name()
            );
            waiting.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }
}
