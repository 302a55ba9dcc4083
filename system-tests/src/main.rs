//! Tests of promises with the real binary: outages under load, faults while certificates are
//! ordered, first visits, moves from other tools, attacks, and requests that servers read
//! differently.
#![forbid(unsafe_code)]

mod acme;
mod acme_faults;
mod bulk_faults;
mod chaos;
mod first_access;
mod flood;
mod floods;
mod h2spec;
mod hook_faults;
mod hosting;
mod leaf;
mod move_in;
mod php_cgi;
mod sites;
mod smuggling;
mod upgrade;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use sekisho_bench::server;
use tokio::runtime;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Flood(options) => flood::run(&options),
        Command::Chaos(options) => chaos::run(&options),
        Command::AcmeFaults(options) => acme_faults::run(&options),
        Command::FirstAccess(options) => first_access::run(&options),
        Command::H2spec(options) => h2spec::run(&options),
        Command::Smuggling(options) => smuggling::run(&options),
        Command::Sites(options) => sites::run(&options),
        Command::Floods(options) => floods::run(&options),
        Command::HookFaults(options) => hook_faults::run(&options),
        Command::PhpCgi(options) => php_cgi::run(&options),
        Command::Upgrade(options) => upgrade::run(&options),
        Command::MoveIn(options) => move_in::run(&options),
        Command::BulkFaults(options) => bulk_faults::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sekisho-system-tests: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does the work of a command on this thread.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(work)
}

/// Breaks servers, stores, CAs and clients, and judges what others notice.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Flood a server of this machine and measure its other clients.
    #[command(after_help = flood::EXAMPLES)]
    Flood(flood::Options),
    /// Take stores and servers away under load and judge what clients see.
    #[command(after_help = chaos::EXAMPLES)]
    Chaos(chaos::Options),
    /// Kill servers, flood them and stop the CA while certificates are ordered.
    #[command(after_help = acme_faults::EXAMPLES)]
    AcmeFaults(acme_faults::Options),
    /// Visit hosts without a certificate, at sekisho and at Caddy, and measure the wait.
    #[command(after_help = first_access::EXAMPLES)]
    FirstAccess(first_access::Options),
    /// Run h2spec on files and through the proxy.
    #[command(after_help = h2spec::EXAMPLES)]
    H2spec(h2spec::Options),
    /// Send requests that servers read differently, to upstreams that tell what they saw.
    #[command(after_help = smuggling::EXAMPLES)]
    Smuggling(smuggling::Options),
    /// Serve thousands of hosts, each with a site of its own, and visit all.
    #[command(after_help = sites::EXAMPLES)]
    Sites(sites::Options),
    /// Flood a server in each way that has a limit, and judge what others notice.
    #[command(after_help = floods::EXAMPLES)]
    Floods(floods::Options),
    /// Run scripts that go wrong in handshakes, and judge what others notice.
    #[command(after_help = hook_faults::EXAMPLES)]
    HookFaults(hook_faults::Options),
    /// Run two tenants' scripts by php-fpm and fcgiwrap, and judge whose each answer is.
    #[command(after_help = php_cgi::EXAMPLES)]
    PhpCgi(php_cgi::Options),
    /// Reload and upgrade a server under load, and judge what clients notice.
    #[command(after_help = upgrade::EXAMPLES)]
    Upgrade(upgrade::Options),
    /// Import what each other tool keeps, and compare what both servers show.
    #[command(after_help = move_in::EXAMPLES)]
    MoveIn(move_in::Options),
    /// Kill imports at any moment, and judge what they leave behind.
    #[command(after_help = bulk_faults::EXAMPLES)]
    BulkFaults(bulk_faults::Options),
}
