//! Load generator, fixtures, the comparison with nginx, outages under load, faults
//! while certificates are ordered, claims of due lineages, a simulated year of
//! renewals, and attacks on sites and their upstreams.
#![forbid(unsafe_code)]

mod accounting;
mod acme_faults;
mod chaos;
mod claims;
mod compare;
mod fixtures;
mod flood;
mod floods;
mod h2spec;
mod hook_faults;
mod hosting;
mod load;
mod metrics;
mod redis;
mod renewal_year;
mod scale;
mod server;
mod sites;
mod smuggling;
mod tls;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Load(options) => load::run(&options),
        Command::Redis(options) => redis::run(&options),
        Command::Flood(options) => flood::run(&options),
        Command::Fixtures(options) => fixtures::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Chaos(options) => chaos::run(&options),
        Command::AcmeFaults(options) => acme_faults::run(&options),
        Command::Claims(options) => claims::run(&options),
        Command::RenewalYear(options) => renewal_year::run(&options),
        Command::Scale(options) => scale::run(&options),
        Command::H2spec(options) => h2spec::run(&options),
        Command::Smuggling(options) => smuggling::run(&options),
        Command::Sites(options) => sites::run(&options),
        Command::Floods(options) => floods::run(&options),
        Command::HookFaults(options) => hook_faults::run(&options),
        Command::Upstream(options) => upstream::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sekisho-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures HTTPS servers that serve very many hosts.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Open TLS connections to a server and report what it did.
    #[command(after_help = load::EXAMPLES)]
    Load(Box<load::Options>),
    /// Read certificates from a Redis as a server does, and do nothing with them.
    #[command(after_help = redis::EXAMPLES)]
    Redis(redis::Options),
    /// Flood a server of this machine and measure its other clients.
    #[command(after_help = flood::EXAMPLES)]
    Flood(flood::Options),
    /// Make an authority and certificates for many hosts.
    #[command(after_help = fixtures::EXAMPLES)]
    Fixtures(fixtures::Options),
    /// Run sekisho and nginx side by side and write a report.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Options),
    /// Take stores and servers away under load and judge what clients see.
    #[command(after_help = chaos::EXAMPLES)]
    Chaos(chaos::Options),
    /// Kill servers, flood them and stop the CA while certificates are ordered.
    #[command(after_help = acme_faults::EXAMPLES)]
    AcmeFaults(acme_faults::Options),
    /// Claim due lineages among millions and judge how long that takes.
    #[command(after_help = claims::EXAMPLES)]
    Claims(claims::Options),
    /// Simulate a year of renewals and judge how evenly they spread.
    #[command(after_help = renewal_year::EXAMPLES)]
    RenewalYear(renewal_year::Options),
    /// Look up hosts among millions while others write, without and under a snapshot.
    #[command(after_help = scale::EXAMPLES)]
    Scale(scale::Options),
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
    /// Answer requests of a proxy, on many loopback addresses.
    #[command(after_help = upstream::EXAMPLES)]
    Upstream(upstream::Options),
}
