//! Report of a run: a line for each kind, and the count of all failures as the last one.

use sekisho_bench::table::Table;

use super::field::Field;

/// Prints a line for each kind; returns the number of failures.
pub(super) fn print(field: &Field) -> u64 {
    println!(
        "{:<24}{:>10} {:>7} {:>9} {:>9} {:>9}",
        "kind", "operations", "failed", "p50 ms", "p99 ms", "max ms"
    );
    let mut failed = 0;
    for (kind, outcome) in field.outcomes() {
        let latency = &outcome.operation_us;
        let millis = |us: u64| us as f64 / 1000.0;
        println!(
            "{:<24}{:>10} {:>7} {:>9.1} {:>9.1} {:>9.1}",
            kind.name(),
            outcome.operations + outcome.failed,
            outcome.failed,
            millis(latency.p50),
            millis(latency.p99),
            millis(latency.max)
        );
        for (error, count) in &outcome.errors {
            println!("    {count} failed: {error}");
        }
        failed += outcome.failed;
    }
    for (note, count) in field.notes() {
        println!("{count} {}", note.name());
    }
    failed
}

/// Returns a case for each kind.
pub(super) fn table(field: &Field) -> Table {
    let mut table = Table::new("Clients while the server is reloaded and upgraded");
    for (kind, outcome) in field.outcomes() {
        let latency = &outcome.operation_us;
        let millis = |us: u64| us as f64 / 1000.0;
        let figures = vec![
            ("failed", outcome.failed as f64),
            ("operations", (outcome.operations + outcome.failed) as f64),
            ("p50 ms", millis(latency.p50)),
            ("p99 ms", millis(latency.p99)),
            ("max ms", millis(latency.max)),
        ];
        let error = (outcome.failed > 0).then_some("clients noticed the hand-overs");
        table.add(kind.name(), &figures, error);
    }
    table
}

/// Returns the last line of a run.
pub(super) fn last_line(field: &Field) -> String {
    let (mut all, mut failed) = (0, 0);
    for (_, outcome) in field.outcomes() {
        all += outcome.operations + outcome.failed;
        failed += outcome.failed;
    }
    format!("{failed} failed of {all}")
}
