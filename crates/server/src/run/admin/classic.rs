//! Prometheus's text format, version 0.0.4, for readers that do not ask for OpenMetrics.

use std::fmt::Write as _;

/// Turns a text of OpenMetrics into one of Prometheus: help and type of a counter have the
/// name of its samples, with `_total`, and no mark ends the text.
pub(super) fn of(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), said) => help = Some((name, said)),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (total, kind) = match kind {
                    "counter" => ("_total", kind),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                if let Some((_, said)) = help.take().filter(|(of, _)| *of == name) {
                    line_of(&mut text, "HELP", (name, total), said.unwrap_or_default());
                }
                line_of(&mut text, "TYPE", (name, total), kind);
            }
            // The unit and the end of the text.
            (Some("#"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

fn line_of(text: &mut String, what: &str, (name, total): (&str, &str), value: &str) {
    writeln!(text, "# {what} {name}{total} {value}").expect("a String takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_type_have_the_name_of_the_samples() {
        let open = "# HELP a_requests Requests so far.\n# TYPE a_requests counter\n\
                    a_requests_total{code=\"2xx\"} 3\n# HELP a_open Open now.\n\
                    # TYPE a_open gauge\na_open 1\n# HELP a_b Bytes.\n# TYPE a_b unknown\n\
                    # UNIT a_b bytes\na_b 5\n# EOF\n";
        let classic = "# HELP a_requests_total Requests so far.\n\
                       # TYPE a_requests_total counter\na_requests_total{code=\"2xx\"} 3\n\
                       # HELP a_open Open now.\n# TYPE a_open gauge\na_open 1\n\
                       # HELP a_b Bytes.\n# TYPE a_b untyped\na_b 5\n";
        assert_eq!(of(open), classic);
    }
}
