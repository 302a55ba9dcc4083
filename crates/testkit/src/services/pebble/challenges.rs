//! Pebble's challenge server: answers validations, and DNS for all names.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use super::{program, quoted};
use crate::services::free_ports;
use crate::services::process::{Process, attempts};

/// Challenge server, told by tests what to answer. Every name leads to 127.0.0.1
/// until told otherwise.
pub struct ChallengeServer {
    pub(super) http: u16,
    pub(super) tls: u16,
    pub(super) dns: u16,
    management: u16,
    _process: Process,
}

impl ChallengeServer {
    pub(in crate::services) fn start(folder: &Path) -> Self {
        attempts("pebble-challtestsrv", || {
            let [http, tls, dns, management] = free_ports();
            let mut command = Command::new(program("pebble-challtestsrv"));
            let ports = [
                ("-http01", http),
                ("-tlsalpn01", tls),
                ("-dnsserver", dns),
                ("-management", management),
            ];
            for (option, port) in ports {
                command.args([option, &format!("127.0.0.1:{port}")]);
            }
            command.args(["-https01", "", "-doh", "", "-defaultIPv6", ""]);
            let process = Process::spawn(&mut command, folder, "challtestsrv");
            let process = process.answers((Ipv4Addr::LOCALHOST, management).into())?;
            // The last one bound: without it, no name resolves.
            let process = process.answers((Ipv4Addr::LOCALHOST, dns).into())?;
            Some(Self {
                http,
                tls,
                dns,
                management,
                _process: process,
            })
        })
    }

    /// Returns the port of DNS, over UDP and TCP, on 127.0.0.1.
    #[must_use]
    pub fn dns_port(&self) -> u16 {
        self.dns
    }

    /// Returns the port on 127.0.0.1 at which programs other than tests tell it what to answer.
    #[must_use]
    pub fn management_port(&self) -> u16 {
        self.management
    }

    /// Answers HTTP-01 for this token.
    pub fn add_http01(&self, token: &str, key_authorization: &str) {
        self.tell(
            "add-http01",
            &[("token", token), ("content", key_authorization)],
        );
    }

    /// Answers TLS-ALPN-01 for this name.
    pub fn add_tls_alpn01(&self, name: &str, key_authorization: &str) {
        self.tell(
            "add-tlsalpn01",
            &[("host", name), ("content", key_authorization)],
        );
    }

    /// Adds a TXT record; the name is fully qualified, with its last dot.
    pub fn add_txt(&self, name: &str, value: &str) {
        self.tell("set-txt", &[("host", name), ("value", value)]);
    }

    /// Removes all TXT records of this name.
    pub fn clear_txt(&self, name: &str) {
        self.tell("clear-txt", &[("host", name)]);
    }

    /// Sets a CNAME record; both names are fully qualified.
    pub fn set_cname(&self, name: &str, target: &str) {
        self.tell("set-cname", &[("host", name), ("target", target)]);
    }

    /// Answers SERVFAIL to all questions for this name.
    pub fn set_servfail(&self, name: &str) {
        self.tell("set-servfail", &[("host", name)]);
    }

    /// Ends [`ChallengeServer::set_servfail`].
    pub fn clear_servfail(&self, name: &str) {
        self.tell("clear-servfail", &[("host", name)]);
    }

    /// Sets the only address of this name.
    pub fn set_address(&self, name: &str, address: impl Into<IpAddr>) {
        let address = address.into();
        self.tell("clear-a", &[("host", name)]);
        self.tell("clear-aaaa", &[("host", name)]);
        let what = if address.is_ipv4() {
            "add-a"
        } else {
            "add-aaaa"
        };
        let name = quoted(name);
        let body = format!(r#"{{"host": {name}, "addresses": ["{address}"]}}"#);
        self.post(what, &body);
    }

    /// Adds a CAA record.
    pub fn add_caa(&self, name: &str, tag: &str, value: &str) {
        let [name, tag, value] = [name, tag, value].map(quoted);
        let policy = format!(r#"{{"tag": {tag}, "value": {value}}}"#);
        let body = format!(r#"{{"host": {name}, "policies": [{policy}]}}"#);
        self.post("add-caa", &body);
    }

    /// Returns the requests for a name that HTTP-01 received, as JSON.
    #[must_use]
    pub fn http_requests(&self, name: &str) -> String {
        let body = format!(r#"{{"host": {}}}"#, quoted(name));
        self.post("http-request-history", &body)
    }

    fn tell(&self, what: &str, fields: &[(&str, &str)]) {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
            .collect();
        self.post(what, &format!("{{{}}}", fields.join(",")));
    }

    fn post(&self, what: &str, body: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.management))
            .expect("the challenge server runs");
        write!(
            stream,
            "POST /{what} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("it takes a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.contains(" 200 OK"), "{what} {body}: {answer}");
        answer
    }
}
