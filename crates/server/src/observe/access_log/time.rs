//! Times of lines, in UTC.

use std::fmt;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

/// Shows a time in a form.
pub(super) fn show(time: SystemTime, form: StaticFormatDescription) -> String {
    let written = OffsetDateTime::from(time).format(form);
    written.expect("a date and time have all parts")
}

/// Shows milliseconds with three decimals.
pub(super) fn millis(time: Duration) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "{}.{:03}", time.as_millis(), time.subsec_micros() % 1000))
}

/// Form of RFC 3339, with milliseconds.
pub(super) const RFC3339: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
/// Form of the combined format.
pub(super) const COMBINED: StaticFormatDescription =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_both_forms() {
        for (millis, want_rfc3339, want_combined) in [
            (0, "1970-01-01T00:00:00.000Z", "01/Jan/1970:00:00:00 +0000"),
            (
                951_782_399_999,
                "2000-02-28T23:59:59.999Z",
                "28/Feb/2000:23:59:59 +0000",
            ),
            (
                951_782_400_001,
                "2000-02-29T00:00:00.001Z",
                "29/Feb/2000:00:00:00 +0000",
            ),
            (
                1_795_356_862_120,
                "2026-11-22T14:14:22.120Z",
                "22/Nov/2026:14:14:22 +0000",
            ),
            (
                4_107_542_400_000,
                "2100-03-01T00:00:00.000Z",
                "01/Mar/2100:00:00:00 +0000",
            ),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(show(time, RFC3339), want_rfc3339);
            assert_eq!(show(time, COMBINED), want_combined);
        }
    }
}
