//! Load generator, fixtures, the comparison with nginx, claims of due lineages, imports, and a
//! simulated year of renewals.
#![forbid(unsafe_code)]

mod claims;
mod compare;
mod fixtures;
mod import_million;
mod redis;
mod renewal_year;
mod scale;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sekisho_bench::load;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Load(options) => load::run(&options),
        Command::Redis(options) => redis::run(&options),
        Command::Fixtures(options) => fixtures::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Paper(options) => compare::paper(&options),
        Command::Evaluation(options) => compare::evaluation(&options),
        Command::Claims(options) => claims::run(&options),
        Command::RenewalYear(options) => renewal_year::run(&options),
        Command::Scale(options) => scale::run(&options),
        Command::ImportMillion(options) => import_million::run(&options),
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
    /// Make an authority and certificates for many hosts.
    #[command(after_help = fixtures::EXAMPLES)]
    Fixtures(fixtures::Options),
    /// Run sekisho and nginx side by side and write a report.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Options),
    /// Repeat the papers' evaluation, part by part.
    #[command(after_help = compare::PAPER_EXAMPLES)]
    Paper(compare::PaperOptions),
    /// Write docs/evaluation.md from the results of `paper`, or check it.
    #[command(after_help = compare::EVALUATION_EXAMPLES)]
    Evaluation(compare::EvaluationOptions),
    /// Claim due lineages among millions and judge how long that takes.
    #[command(after_help = claims::EXAMPLES)]
    Claims(claims::Options),
    /// Simulate a year of renewals and judge how evenly they spread.
    #[command(after_help = renewal_year::EXAMPLES)]
    RenewalYear(renewal_year::Options),
    /// Look up hosts among millions while others write, without and under a snapshot.
    #[command(after_help = scale::EXAMPLES, args_override_self = true)]
    Scale(scale::Options),
    /// Import very many pairs while servers are visited, and judge rates and memory.
    #[command(after_help = import_million::EXAMPLES)]
    ImportMillion(import_million::Options),
    /// Answer requests of a proxy, on many loopback addresses.
    #[command(after_help = upstream::EXAMPLES)]
    Upstream(upstream::Options),
}
