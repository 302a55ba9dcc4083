use std::fmt::Write as _;

use super::year::{NEW_NAMES, OUTAGE, TAKEN_OVER};
use super::{DAY, Outcome};
use sekisho_bench::table::thousands;

/// Draws the busiest hour of each day over the year. `years` are pairs, with ARI
/// and without, and each pair is a panel.
pub(super) fn draw(hosts: u32, years: &[Outcome]) -> String {
    let panels = years.as_chunks::<2>().0;
    let hosts = thousands(i64::from(hosts));
    let height = TOP + panels.len() as i64 * PANEL + 20;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Orders per hour over a year, {hosts} hosts\">\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">Orders per hour, busiest hour of each day, {hosts} hosts</text>\n\
         <path class=\"ari\" d=\"M{LEFT} 44h24\"/><text x=\"{}\" y=\"48\">with ARI</text>\n\
         <path class=\"plain\" d=\"M{} 44h24\"/><text x=\"{}\" y=\"48\">without</text>\n",
        LEFT + 30,
        LEFT + 110,
        LEFT + 140,
    );
    for (index, pair) in panels.iter().enumerate() {
        panel(&mut svg, TOP + index as i64 * PANEL, pair);
    }
    events(&mut svg, height);
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, top: i64, pair: &[Outcome; 2]) {
    let [with, without] = pair.each_ref().map(|year| year.figures.days());
    let title = pair[0].scenario.title;
    let most = with.iter().chain(&without).max().copied().unwrap_or(0);
    let scale = nice(most);
    let base = top + PLOT;
    // Writing into a String cannot fail.
    let _ = writeln!(
        svg,
        "<text class=\"panel\" x=\"{LEFT}\" y=\"{}\">certificates of {title}</text>",
        top - 6
    );
    for part in [0, 1, 2] {
        let y = base - PLOT * part / 2;
        let value = i64::from(scale) * part / 2;
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{}\"/>",
            WIDTH - RIGHT
        );
        let _ = writeln!(
            svg,
            "<text class=\"value\" x=\"{}\" y=\"{}\">{}</text>",
            LEFT - 6,
            y + 4,
            thousands(value)
        );
    }
    for (class, days) in [("plain", &without), ("ari", &with)] {
        let points = days.iter().enumerate().map(|(day, orders)| {
            let y = base as f64 - PLOT as f64 * f64::from(*orders) / f64::from(scale);
            format!("{:.1} {y:.1}", x_of(day as i64 * DAY))
        });
        let path = points.collect::<Vec<_>>().join("L");
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{path}\"/>");
    }
}

/// Marks the imports and the outage over all panels, and names the days.
fn events(svg: &mut String, height: i64) {
    let bottom = height - 36;
    for (at, what) in [
        (NEW_NAMES, "new names of one tenant"),
        (TAKEN_OVER, "certificates taken over"),
        (OUTAGE.start, "CA down for 24 h"),
    ] {
        let x = x_of(at);
        let _ = writeln!(svg, "<path class=\"event\" d=\"M{x:.1} 64V{bottom}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"note\" x=\"{:.1}\" y=\"74\">{what}</text>",
            x + 4.0
        );
    }
    for day in (0..=360).step_by(60) {
        let x = x_of(day * DAY);
        let _ = writeln!(
            svg,
            "<text class=\"day\" x=\"{x:.1}\" y=\"{}\">day {day}</text>",
            height - 12
        );
    }
}

fn x_of(at: i64) -> f64 {
    LEFT as f64 + (WIDTH - LEFT - RIGHT) as f64 * at as f64 / (365 * DAY) as f64
}

/// Returns the next number of the form 1, 2, 3, 4, 5, 6 or 8 with zeros.
fn nice(most: u32) -> u32 {
    let mut unit = 1;
    while most / unit >= 10 {
        unit *= 10;
    }
    let steps = [1, 2, 3, 4, 5, 6, 8, 10];
    let fits = steps.into_iter().find(|step| step * unit >= most);
    fits.unwrap_or(10) * unit
}

const WIDTH: i64 = 900;
const LEFT: i64 = 64;
const RIGHT: i64 = 16;
const TOP: i64 = 104;
const PANEL: i64 = 170;
const PLOT: i64 = 130;
/// Readable on light and on dark pages; both line colours have a contrast of at
/// least 3 to 1 with the page (WCAG 2.2, 1.4.11).
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}\
.panel{font-weight:600}.value{text-anchor:end}.day{text-anchor:middle}.note{font-size:11px}\
.page{fill:#ffffff}path{fill:none}.grid{stroke:#d0d7de}.event{stroke:#8c959f;stroke-dasharray:3 3}\
.ari{stroke:#0969da;stroke-width:1.5}.plain{stroke:#bc4c00;stroke-width:1.5}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.grid{stroke:#30363d}\
.event{stroke:#6e7681}.ari{stroke:#4493f8}.plain{stroke:#f0883e}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (most, end) in [
            (0, 1),
            (7, 8),
            (10, 10),
            (1_389, 2_000),
            (25_001, 30_000),
            (99_999, 100_000),
        ] {
            assert_eq!(nice(most), end, "{most}");
        }
    }
}
