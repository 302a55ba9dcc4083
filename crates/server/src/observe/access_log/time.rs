//! Times of lines, in UTC.

use std::fmt;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

/// Shows a time as RFC 3339 writes it, with milliseconds.
pub(super) fn rfc3339(time: SystemTime) -> impl fmt::Display {
    let time = OffsetDateTime::from(time);
    fmt::from_fn(move |f| {
        let (year, month, day) = time.to_calendar_date();
        let (hour, minute, second, millis) = time.to_hms_milli();
        let month = u8::from(month);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    })
}

/// Shows a time as the combined format writes it.
pub(super) fn combined(time: SystemTime) -> impl fmt::Display {
    let time = OffsetDateTime::from(time);
    fmt::from_fn(move |f| {
        let (year, month, day) = time.to_calendar_date();
        let (hour, minute, second) = time.to_hms();
        let month = MONTHS[usize::from(u8::from(month)) - 1];
        write!(
            f,
            "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"
        )
    })
}

/// Shows milliseconds with three decimals.
pub(super) fn millis(time: Duration) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "{}.{:03}", time.as_millis(), time.subsec_micros() % 1000))
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

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
            assert_eq!(rfc3339(time).to_string(), want_rfc3339);
            assert_eq!(combined(time).to_string(), want_combined);
        }
    }
}
