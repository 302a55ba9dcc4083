//! Keys with a default or a range, as docs/configuration.md lists them.

use std::time::Duration;

use sekisho_server::value::Unit::{self, Bytes, Count, Time};

use super::locate::Problem;

/// Key of the configuration with a default or a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// The default as it is written; None if the machine or another key
    /// decides.
    pub(super) default: Option<&'static str>,
    /// The least and the greatest value.
    pub(super) range: (&'static str, &'static str),
}

/// Section of the keys of a zone, as the documentation names it.
pub(super) const ZONE: &str = "acme.dns.\"ZONE\"";

/// All keys with a default or a range. A test compares them with the
/// documentation.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    // No client can connect to port 0.
    entry("listen", "public_port", Count, None, ("1", "65535")),
    // Smaller caches are useless; larger values are typing errors.
    entry("cache", "memory", Bytes, Some("64MiB"), ("1MiB", "1TiB")),
    entry("cache", "fresh", Time, Some("60s"), ("1s", "1d")),
    entry("cache", "absent", Time, Some("5s"), ("100ms", "1h")),
    entry("cache", "files", Bytes, Some("16MiB"), ("1MiB", "1TiB")),
    // The minimum holds a thousand hosts.
    entry("cache", "disk_size", Bytes, Some("256MiB"), ("4MiB", "1TiB")),
    entry("acme", "waiting", Count, Some("1000"), ("1", "1000000")),
    // No client waits for longer.
    entry("acme", "handshake_timeout", Time, Some("20s"), ("1s", "5m")),
    entry("acme", "orders", Count, Some("64"), ("1", "1024")),
    // Most DNS hosts need less than one minute.
    entry(ZONE, "propagation_timeout", Time, Some("2m"), ("1s", "1h")),
    // A state with the script alone takes about 200 KiB.
    entry("hook", "memory", Bytes, Some("16MiB"), ("2MiB", "1GiB")),
    // A worker serves nobody else meanwhile.
    entry("hook", "cpu", Time, Some("20ms"), ("1ms", "1s")),
    entry("hook", "timeout", Time, Some("5s"), ("10ms", "5m")),
    entry("hook", "waiting", Count, Some("1024"), ("1", "65536")),
    entry("server", "workers", Count, None, ("1", "1024")),
    entry("server", "connections", Count, Some("65536"), ("1", "10000000")),
    entry("server", "handshake_timeout", Time, Some("10s"), ("100ms", "5m")),
    entry("server", "header_timeout", Time, Some("15s"), ("100ms", "5m")),
    entry("server", "idle_timeout", Time, Some("60s"), ("1s", "1h")),
    entry("server", "body_timeout", Time, Some("30s"), ("100ms", "1h")),
    entry("server", "drain_timeout", Time, Some("30s"), ("0s", "1h")),
    // WebSockets live as long.
    entry("server", "handover_timeout", Time, Some("1h"), ("0s", "7d")),
    entry("server", "absent_per_prefix", Count, Some("600"), ("1", "1000000000")),
    entry("server", "loads", Count, Some("256"), ("1", "65536")),
    // `loads` bounds this value, too.
    entry("server", "loads_per_prefix", Count, Some("64"), ("1", "65536")),
    entry("server", "loads_waiting", Count, Some("4096"), ("0", "1000000")),
];

/// Defaults of keys without a range, as section, name and value. A test compares each with
/// what the program does without the key.
pub(super) const WORDS: [(&str, &str, &str); 8] = [
    ("listen", "plain", "false"),
    ("log", "format", "json"),
    ("acme", "first_access", "hosts"),
    ("acme", "caa", "true"),
    ("acme", "key", "p256"),
    ("acme", "reuse_key", "false"),
    (ZONE, "check", "true"),
    ("hook", "on_error", "refuse"),
];

/// `[cache] disk`: a file beside the configuration.
pub(super) const DISK_CACHE: &str = "disk-cache.db";
/// `[keys] master`: a file beside an embedded store.
pub(super) const MASTER_KEY: &str = "file:master.key";

/// Returns the entry of [`KEYS`].
///
/// # Panics
/// If there is no such entry, which is a bug.
pub(super) fn key(section: &str, name: &str) -> Key {
    let found = KEYS
        .iter()
        .find(|key| (key.section, key.name) == (section, name));
    *found.expect("KEYS lists each key that is read through it")
}

impl Key {
    /// Reads a number of bytes.
    pub(super) fn bytes(&self, text: Option<&String>) -> Result<usize, Problem> {
        let bytes = self.text(text)?;
        Ok(usize::try_from(bytes).expect("the range fits"))
    }

    /// Reads a duration.
    pub(super) fn time(&self, text: Option<&String>) -> Result<Duration, Problem> {
        Ok(Duration::from_millis(self.text(text)?))
    }

    /// Reads a number.
    pub(super) fn count(&self, number: Option<i64>) -> Result<usize, Problem> {
        self.count_up_to(number, usize::MAX)
    }

    /// Reads a number; without one, clamps `default` to the range.
    pub(super) fn count_or(&self, number: Option<i64>, default: usize) -> Result<usize, Problem> {
        let (least, most) = self.bounds();
        let default = (default as u64).clamp(least, most).cast_signed();
        self.count(number.or(Some(default)))
    }

    /// Reads a number that `most` bounds besides the key's own range.
    pub(super) fn count_up_to(&self, number: Option<i64>, most: usize) -> Result<usize, Problem> {
        let (least, own) = self.bounds();
        let most = own.min(most as u64);
        let number = match number {
            None => self.default().min(most),
            Some(number) => u64::try_from(number)
                .ok()
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| self.out_of_range(&number.to_string(), least, most))?,
        };
        Ok(usize::try_from(number).expect("the range fits"))
    }

    fn text(&self, text: Option<&String>) -> Result<u64, Problem> {
        let Some(text) = text else {
            return Ok(self.default());
        };
        let value = self.unit.parse(text);
        let value = value.map_err(|text| Problem::at(&[self.section, self.name], text))?;
        let (least, most) = self.bounds();
        if !(least..=most).contains(&value) {
            return Err(self.out_of_range(&self.unit.display(value), least, most));
        }
        Ok(value)
    }

    fn out_of_range(&self, value: &str, least: u64, most: u64) -> Problem {
        let (least, most) = (self.unit.display(least), self.unit.display(most));
        let text = format!("{value} is out of range; write {least} to {most}");
        Problem::at(&[self.section, self.name], text)
    }

    fn default(&self) -> u64 {
        self.own(self.default.expect("this key has a default"))
    }

    fn bounds(&self) -> (u64, u64) {
        (self.own(self.range.0), self.own(self.range.1))
    }

    fn own(&self, text: &str) -> u64 {
        self.unit.parse(text).expect("KEYS holds values that parse")
    }
}

/// Makes an entry of [`KEYS`].
const fn entry(
    section: &'static str,
    name: &'static str,
    unit: Unit,
    default: Option<&'static str>,
    range: (&'static str, &'static str),
) -> Key {
    Key {
        section,
        name,
        unit,
        default,
        range,
    }
}
