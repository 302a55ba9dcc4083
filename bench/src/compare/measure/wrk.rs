//! wrk, the client of the papers' measurement of throughput.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use super::figures::operation_figures;
use super::{CLIENT_BOUND, Sample, Subject, namespace};
use crate::compare::meter::Meter;
use crate::compare::server::PAGE;
use crate::fixtures::host_name;
use sekisho_bench::load::{Outcome, Tally};
use sekisho_bench::tls::Version;

impl Subject<'_> {
    /// Measures requests by wrk on connections that stay open. What its handshakes cost the
    /// server counts, too: wrk has no warm-up.
    pub(super) async fn wrk(&mut self, connections: usize, seconds: u64) -> Result<Sample> {
        let seconds = self.effort(seconds);
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let folder = self
            .place
            .workspace
            .scratch(&format!("{}-wrk", self.name))?;
        let host = host_name(0);
        fs::write(folder.join("hosts"), format!("127.0.0.1 {host}\n"))?;
        fs::write(folder.join("openssl.cnf"), settings(self.row.version))?;
        let url = format!("https://{host}:{}{PAGE}", server.address.port());
        let core = self.place.options.client_core;
        let mut wrk = namespace::command(core, &folder, &script(connections, seconds, &url));
        self.commands.push(format!("{:?}", wrk.as_std()));
        let meter = Meter::start(server.pid(), self.place.support)?;
        let bound = CLIENT_BOUND + Duration::from_secs(seconds);
        let output = timeout(bound, wrk.output()).await;
        let output = output.context("wrk does not end")??;
        let used = meter.stop()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let outcome = read(&said)?;
        let memory = server.memory()?;
        self.server = Some(server);
        Ok(operation_figures(&outcome, &used, memory))
    }
}

/// Runs wrk, and asks the shell for the CPU time that it took.
fn script(connections: usize, seconds: u64, url: &str) -> String {
    format!("OPENSSL_CONF=openssl.cnf wrk -t1 -c{connections} -d{seconds}s --latency {url}; times")
}

/// Returns OpenSSL's settings for wrk, which has no options for TLS: one version, and the suite
/// and group of the harness's own client.
fn settings(version: Version) -> String {
    let version = match version {
        Version::Tls12 => "TLSv1.2",
        Version::Tls13 => "TLSv1.3",
    };
    format!(
        "config_diagnostics = 1\n\
         openssl_conf = modules\n\
         [modules]\n\
         ssl_conf = ssl\n\
         [ssl]\n\
         system_default = settings\n\
         [settings]\n\
         MinProtocol = {version}\n\
         MaxProtocol = {version}\n\
         CipherString = ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256\n\
         Ciphersuites = TLS_AES_128_GCM_SHA256\n\
         Groups = X25519\n"
    )
}

/// Reads what wrk and the shell printed.
///
/// # Errors
/// If there was no answer, or any error.
fn read(said: &str) -> Result<Outcome> {
    let parsed = parse(said).with_context(|| format!("wrk said {said:?}"))?;
    let wrong = ["Socket errors", "Non-2xx"];
    let failed = wrong.iter().any(|wrong| said.contains(wrong));
    ensure!(!failed && parsed.operations > 0, "wrk had errors: {said}");
    Ok(parsed)
}

fn parse(said: &str) -> Option<Outcome> {
    let line = |begin: &str| {
        let mut lines = said.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(begin))
    };
    let mut outcome = Tally::new().ok()?.outcome(Duration::ZERO);
    outcome.per_second = line("Requests/sec:")?.trim().parse().ok()?;
    let (requests, _) = said.split_once(" requests in ")?;
    outcome.operations = requests.split_whitespace().last()?.parse().ok()?;
    outcome.seconds = outcome.operations as f64 / outcome.per_second;
    outcome.operation_us.p50 = micros(line("50%")?)?;
    outcome.operation_us.p99 = micros(line("99%")?)?;
    // The shell's own times come first, those of its children last.
    let times = said.lines().last()?.split_whitespace();
    let used = times.map(cpu_seconds).sum::<Option<f64>>()?;
    outcome.core_percent = 100.0 * used / outcome.seconds;
    Some(outcome)
}

/// Reads a time such as `1.50ms`.
fn micros(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(char::is_alphabetic);
    let factor = match &text[number.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor).round() as u64)
}

/// Reads a time such as `1m2.50s`.
fn cpu_seconds(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Running 5s test @ https://h0.example.test:45991/index.html
  1 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.99ms    0.50ms   9.99ms   95.00%
    Req/Sec    50.00k     1.00k   51.00k    99.00%
  Latency Distribution
     50%  990.00us
     75%    1.20ms
     90%    1.90ms
     99%    2.53ms
  250000 requests in 5.00s, 204.00MB read
Requests/sec:  50000.00
Transfer/sec:     40.80MB
0m0.010000s 0m0.020000s
0m1.250000s 0m2.750000s
";

    #[test]
    fn figures_of_wrk_are_read() {
        let outcome = read(SAID).unwrap();
        assert_eq!((outcome.operations, outcome.per_second), (250_000, 5e4));
        let latency = &outcome.operation_us;
        assert_eq!((latency.p50, latency.p99), (990, 2_530));
        assert_eq!((outcome.seconds, outcome.core_percent), (5.0, 80.0));
    }

    #[test]
    fn errors_of_wrk_are_no_figures() {
        for wrong in [
            "  Socket errors: connect 0, read 7, write 0, timeout 0\n",
            "  Non-2xx or 3xx responses: 7\n",
        ] {
            let said = SAID.replace("Requests/sec:", &format!("{wrong}Requests/sec:"));
            assert!(read(&said).is_err(), "{wrong}");
        }
        assert!(read(&SAID.replace("250000 requests", "0 requests")).is_err());
        assert!(read("sh: 1: wrk: not found\n0m0.0s 0m0.0s\n0m0.0s 0m0.0s\n").is_err());
    }

    #[test]
    fn times_have_units() {
        let times = ["12.00us", "1.20ms", "2.00s", "1.00m"].map(micros);
        assert_eq!(times, [Some(12), Some(1_200), Some(2_000_000), None]);
        assert_eq!(cpu_seconds("2m3.500000s"), Some(123.5));
    }
}
