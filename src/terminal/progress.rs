//! Progress bar on a terminal, for long operations.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// Makes a bar if standard error is a terminal. Only then is `total` called.
pub(crate) fn bar(total: impl FnOnce() -> Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = total().map_or_else(ProgressBar::no_length, ProgressBar::new);
    let style = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {rate} {eta}")
        .expect("the template is sound")
        .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            // A bar that can't be drawn is omitted.
            let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
        });
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
