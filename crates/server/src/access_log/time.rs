//! Times of lines, in UTC.

use std::fmt;
use std::time::{Duration, SystemTime};

/// Point in time, in the Gregorian calendar.
pub(super) struct Time {
    year: u64,
    month: u64,
    day: u64,
    /// Seconds of the day.
    second: u64,
    millis: u32,
}

impl Time {
    /// Returns the time as RFC 3339 writes it, with milliseconds.
    pub(super) fn rfc3339(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            let (hour, minute, second) = self.clock();
            write!(
                f,
                "{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
                self.year, self.month, self.day, self.millis
            )
        })
    }

    /// Returns the time as the combined format writes it.
    pub(super) fn combined(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            let (hour, minute, second) = self.clock();
            let month = MONTHS[usize::try_from(self.month - 1).expect("1 to 12")];
            write!(
                f,
                "{:02}/{month}/{:04}:{hour:02}:{minute:02}:{second:02} +0000",
                self.day, self.year
            )
        })
    }

    fn clock(&self) -> (u64, u64, u64) {
        let second = self.second;
        (second / 3600, second / 60 % 60, second % 60)
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        // A clock before 1970 is wrong, and no reason to fail.
        let since = since.unwrap_or(Duration::ZERO);
        let (days, second) = (since.as_secs() / DAY, since.as_secs() % DAY);
        let (year, month, day) = date(days);
        Self {
            year,
            month,
            day,
            second,
            millis: since.subsec_millis(),
        }
    }
}

/// Shows milliseconds with three decimals.
pub(super) fn millis(time: Duration) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "{}.{:03}", time.as_millis(), time.subsec_micros() % 1000))
}

/// Returns the date so many days after 1970-01-01. Years begin in March here, so
/// that the leap day is their last; 400 years repeat.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day)
}

const DAY: u64 = 86_400;
/// Days from the first of March of year 0 to 1970.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_OF_400_YEARS: u64 = 146_097;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_both_forms() {
        for (millis, rfc3339, combined) in [
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
            let time = Time::from(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
            assert_eq!(time.rfc3339().to_string(), rfc3339);
            assert_eq!(time.combined().to_string(), combined);
        }
    }
}
