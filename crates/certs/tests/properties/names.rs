//! Host names and patterns.

use proptest::prelude::*;
use sekisho_certs::{HostName, HostPattern};

/// A valid label, in the case that somebody may have typed.
const LABEL: &str = "[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,8}[a-zA-Z0-9_])?";

/// A valid name of one to four labels, with or without a trailing dot. No
/// label begins like punycode, and the last is no number.
fn name() -> impl Strategy<Value = String> {
    let labels = prop::collection::vec(LABEL, 0..4);
    (labels, "[a-zA-Z]{1,6}", "\\.?").prop_filter_map("punycode", |(mut labels, last, dot)| {
        labels.push(last);
        let name = labels.join(".");
        (!name.to_ascii_lowercase().contains("xn--")).then_some(name + &dot)
    })
}

fn host(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

proptest! {
    #[test]
    fn a_valid_name_is_lowered_and_its_dot_dropped(text in name()) {
        let wanted = text.trim_end_matches('.').to_ascii_lowercase();
        prop_assert_eq!(host(&text).to_string(), wanted);
    }

    /// Characters that no path, key, query or URL must ever meet.
    #[test]
    fn any_text_gives_a_safe_name_or_an_error(text in any::<String>()) {
        if let Ok(name) = HostName::parse(&text) {
            let safe = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
            prop_assert!(name.as_str().chars().all(safe));
            prop_assert!(!name.as_str().contains("..") && name.as_str().len() <= 253);
        }
        if let Ok(pattern) = HostPattern::parse(&text) {
            prop_assert_eq!(pattern.exact().is_none(), text.starts_with("*."));
        }
    }

    #[test]
    fn a_parsed_name_is_its_own_name(text in "[a-zA-Zäöüß関所\u{301}_.-]{1,20}") {
        if let Ok(name) = HostName::parse(&text) {
            prop_assert_eq!(&host(name.as_str()), &name);
            prop_assert_eq!(&host(&name.to_unicode()), &name);
            prop_assert_eq!(HostPattern::from(&name).exact(), Some(name));
        }
    }

    #[test]
    fn a_pattern_covers_by_its_text(pattern in name(), name in name(), wild: bool) {
        // A random name covers next to nothing; these end with the pattern. No "x":
        // with a label like "n--0" it would begin like punycode.
        let ends = ["", "a.", "a.b.", "y"].map(|start| format!("{start}{pattern}"));
        for name in ends.iter().chain([&name]).map(|name| host(name)) {
            let prefix = if wild { "*." } else { "" };
            let pattern = HostPattern::parse(&format!("{prefix}{pattern}")).unwrap();
            let below = name.as_str().split_once('.').map(|(_, parent)| format!("*.{parent}"));
            let covers = pattern.as_str() == name.as_str()
                || below.as_deref() == Some(pattern.as_str());
            prop_assert_eq!(pattern.covers(&name), covers);
            prop_assert_eq!(name.wildcard().is_some_and(|above| above == pattern), covers && wild);
        }
    }
}
