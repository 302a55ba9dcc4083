//! The field `Retry-After` (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};

/// Returns how long the CA wants to be left alone, at most [`LONGEST`]. A date counts
/// from the answer's own `Date`: this machine's clock may be wrong.
pub(super) fn of(fields: &HeaderMap) -> Option<Duration> {
    Some(wait(fields)?.min(LONGEST))
}

fn wait(fields: &HeaderMap) -> Option<Duration> {
    let value = text(fields, &RETRY_AFTER)?;
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = text(fields, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = now.unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default())
}

fn text<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    Some(fields.get(name)?.to_str().ok()?.trim())
}

/// The longest window of a CA's limits is shorter. A time without bound would
/// overflow sums with it.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("18446744073709551615", Some(30 * 24 * 60 * 60)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(30 * 24 * 60 * 60)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(DATE, date.parse().unwrap());
            fields.insert(RETRY_AFTER, value.parse().unwrap());
            assert_eq!(of(&fields), seconds.map(Duration::from_secs), "{value}");
        }
        assert_eq!(of(&HeaderMap::new()), None);
    }
}
