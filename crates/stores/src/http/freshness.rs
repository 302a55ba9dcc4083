//! Freshness of an answer by its own fields (RFC 9111).

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, CACHE_CONTROL};

/// For how long an answer needs no second look, and whether it may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freshness {
    /// Freshness; none if the answer does not say.
    pub(super) time: Option<Duration>,
    /// `no-store`: it is handed on, and not kept here.
    pub(super) no_store: bool,
}

impl Freshness {
    /// Of `Cache-Control` the directives `max-age`, `no-cache` and `no-store`
    /// count, the first less what `Age` says. What can't be read counts as
    /// stale (section 4.2.1).
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut freshness = Self::default();
        for value in headers.get_all(CACHE_CONTROL) {
            for directive in value.to_str().unwrap_or("no-cache").split(',') {
                freshness.add(directive.trim());
            }
        }
        let age = headers.get(AGE).and_then(|age| age.to_str().ok());
        let age = age.and_then(seconds).unwrap_or_default();
        freshness.time = freshness.time.map(|time| time.saturating_sub(age));
        freshness
    }

    fn add(&mut self, directive: &str) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let time = match name.to_ascii_lowercase().as_str() {
            "max-age" => seconds(value.trim_matches('"')).unwrap_or_default(),
            "no-cache" | "no-store" => Duration::ZERO,
            _ => return,
        };
        self.no_store |= name.eq_ignore_ascii_case("no-store");
        // Of several times the shortest holds.
        let longest = self.time.unwrap_or(LONGEST);
        self.time = Some(time.min(longest));
    }
}

/// Delta seconds (section 1.2.2); more than fits is the longest time.
fn seconds(text: &str) -> Option<Duration> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Duration::from_secs(digits.parse().unwrap_or(u64::MAX)))
}

/// As long as `[cache] fresh` may be: a key that leaked must not be served for
/// a year because a server in between likes long times.
const LONGEST: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&'static str, &'static str)]) -> Freshness {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: http::HeaderName = name;
            let value: http::HeaderValue = value;
            headers.append(name, value);
        }
        Freshness::of(&headers)
    }

    #[test]
    fn times_are_read() {
        for (value, wanted) in [
            ("max-age=60", Some(60)),
            ("private, MAX-AGE=\"60\" , must-revalidate", Some(60)),
            ("max-age=60, max-age=30", Some(30)),
            ("max-age=0", Some(0)),
            ("max-age=", Some(0)),
            ("max-age=-1", Some(0)),
            ("max-age=6x", Some(0)),
            ("max-age=99999999999999999999999", Some(86_400)),
            ("no-cache, max-age=60", Some(0)),
            ("no-cache=\"set-cookie\"", Some(0)),
            ("no-store", Some(0)),
            ("s-maxage=60", None),
            ("public", None),
            ("", None),
        ] {
            let said = of(&[("cache-control", value)]);
            assert_eq!(said.time, wanted.map(Duration::from_secs), "{value}");
            assert_eq!(said.no_store, value == "no-store");
        }
        assert_eq!(of(&[]), Freshness::default());
    }

    #[test]
    fn an_age_counts() {
        let aged = |age| of(&[("cache-control", "max-age=60"), ("age", age)]).time;
        assert_eq!(aged("20"), Some(Duration::from_secs(40)));
        assert_eq!(aged("90"), Some(Duration::ZERO));
        assert_eq!(aged("x"), Some(Duration::from_secs(60)));
        let two = of(&[
            ("cache-control", "max-age=60"),
            ("cache-control", "no-store"),
        ]);
        assert!(two.no_store && two.time == Some(Duration::ZERO));
    }
}
