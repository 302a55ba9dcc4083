//! Filter of log lines.

use anyhow::{Result, bail};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Reads an operator's filter: levels, and targets with levels. A level without a target
/// applies to sekisho's own crates. Other crates log errors only, since peers
/// can make them log at will: h2 warns of each unsolicited PING frame. A target
/// such as `h2=debug` names one of them. An empty text is the default, `info`.
///
/// # Errors
/// If a part is neither a level nor a target with one: a typo must not end the log.
pub(super) fn read(text: &str) -> Result<Targets> {
    let directives = directives(text)?;
    Ok(directives.parse()?)
}

fn directives(text: &str) -> Result<String> {
    let mut all = String::from(FOREIGN);
    let text = if text.trim().is_empty() {
        DEFAULT
    } else {
        text
    };
    let parts = text.split(',').map(str::trim);
    for directive in parts.filter(|part| !part.is_empty()) {
        all.push(',');
        match (directive.parse::<LevelFilter>(), directive.split_once('=')) {
            (Ok(LevelFilter::OFF), _) => all.push_str("off"),
            (Ok(_), _) => all.extend([OWN, "=", directive]),
            (Err(_), Some((target, level)))
                if !target.is_empty() && level.parse::<LevelFilter>().is_ok() =>
            {
                all.push_str(directive);
            }
            (Err(_), _) => bail!(
                "{directive:?} is neither a level nor a target with a level; write off, error, \
                 warn, info, debug or trace, or \"info,sekisho_certs=debug\""
            ),
        }
    }
    Ok(all)
}

/// Level of sekisho's own crates unless the environment says otherwise.
pub(super) const DEFAULT: &str = "info";
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
            ("", "error,sekisho=info"),
            ("warn,", "error,sekisho=warn"),
        ] {
            assert_eq!(directives(text).unwrap(), wanted);
            read(text).unwrap();
        }
    }

    #[test]
    fn a_typo_is_named() {
        for (text, wrong) in [
            ("verbose", "verbose"),
            ("debug,foo=bar", "foo=bar"),
            ("h2", "h2"),
            ("=debug", "=debug"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{wrong:?} is neither")),
                "{error}"
            );
        }
    }
}
