//! Filter of log lines.

use tracing_subscriber::filter::LevelFilter;

/// Returns the directives of an operator's filter. A level without a target
/// applies to sekisho's own crates. Other crates log errors only, since peers
/// can make them log at will: h2 warns of each unsolicited PING frame. A target
/// such as `h2=debug` names one of them.
pub(super) fn directives(text: &str) -> String {
    let mut all = String::from(FOREIGN);
    for directive in text.split(',').map(str::trim) {
        all.push(',');
        match directive.parse::<LevelFilter>() {
            Ok(LevelFilter::OFF) => all.push_str("off"),
            Ok(_) => all.extend([OWN, "=", directive]),
            Err(_) => all.push_str(directive),
        }
    }
    all
}

/// Level of all other crates.
const FOREIGN: &str = "error";
/// Prefix of sekisho's own crates.
const OWN: &str = "sekisho";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_is_for_our_own_crates() {
        for (text, wanted) in [
            ("info", "error,sekisho=info"),
            (
                "warn,sekisho_certs=debug",
                "error,sekisho=warn,sekisho_certs=debug",
            ),
            ("info, h2=trace", "error,sekisho=info,h2=trace"),
            ("off", "error,off"),
        ] {
            assert_eq!(directives(text), wanted);
        }
    }
}
