//! Configuration of Apache: with prefork and mod_cgi, each child starts programs itself; for
//! files, one process of the event MPM serves all connections.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::server::PROGRAM;
use crate::fixtures::{Folder, host_name};

#[derive(Debug)]
pub(crate) struct Apache<'a> {
    pub(crate) fixture: Folder<'a>,
    /// Number of hosts, a `VirtualHost` for each.
    pub(crate) hosts: usize,
    /// Number of certificates, which the hosts use in turn. Each host has a TLS context of
    /// its own all the same.
    pub(crate) certificates: usize,
    pub(crate) site: &'a Path,
    /// Folder of CGI programs, if it runs any.
    pub(crate) programs: Option<&'a Path>,
    pub(crate) scratch: &'a Path,
    /// Connections at the same time. Apache accepts no more while all its threads are busy, and
    /// closes some that are kept if few are idle.
    pub(crate) connections: usize,
    pub(crate) address: SocketAddr,
}

impl Apache<'_> {
    pub(crate) fn config(&self) -> String {
        let (scratch, address) = (self.scratch.display(), self.address);
        let mut text = String::new();
        let (modules, workers) = match self.programs {
            Some(_) => (PREFORK, CHILDREN.to_owned()),
            None => (EVENT, self.threads()),
        };
        for module in modules.iter().chain(MODULES) {
            let _ = writeln!(
                text,
                "LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so"
            );
        }
        let _ = write!(
            text,
            "ServerRoot {scratch}\n\
             DefaultRuntimeDir {scratch}\n\
             PidFile {scratch}/apache.pid\n\
             Mutex file:{scratch} default\n\
             ErrorLog /dev/stderr\n\
             ServerName localhost\n\
             Listen {address}\n\
             {SETTINGS}{workers}"
        );
        for number in 0..self.hosts {
            self.add_host(&mut text, number);
        }
        text
    }

    /// Returns one process, whose idle connections take no thread.
    fn threads(&self) -> String {
        let threads = (2 * self.connections).max(LEAST_THREADS);
        format!(
            "StartServers 1\n\
             ServerLimit 1\n\
             ThreadLimit {threads}\n\
             ThreadsPerChild {threads}\n\
             MaxRequestWorkers {threads}\n\
             ThreadStackSize {STACK}\n\
             AsyncRequestWorkerFactor 40\n"
        )
    }

    fn add_host(&self, text: &mut String, number: usize) {
        let certificate = host_name(number % self.certificates);
        let path = PROGRAM.rsplit_once('/').map_or("", |(path, _)| path);
        let alias = self.programs.map_or_else(String::new, |programs| {
            format!("    ScriptAlias {path}/ {}/\n", programs.display())
        });
        let _ = writeln!(
            text,
            "<VirtualHost {}>\n\
             \x20   ServerName {}\n\
             \x20   DocumentRoot {}\n\
             {alias}\
             \x20   SSLEngine on\n\
             \x20   SSLCertificateFile {}\n\
             \x20   SSLCertificateKeyFile {}\n\
             </VirtualHost>",
            self.address,
            host_name(number),
            self.site.display(),
            self.fixture.chain(&certificate).display(),
            self.fixture.key(&certificate).display(),
        );
    }
}

/// Modules at the paths of Debian's package.
const MODULES: &[&str] = &["authz_core", "mime", "ssl"];
const PREFORK: &[&str] = &["mpm_prefork", "alias", "cgi", "env"];
const EVENT: &[&str] = &["mpm_event"];

/// Root's children run as Debian's user for web servers, since
/// Apache refuses root. The length that a program states is passed on: the client needs it.
const SETTINGS: &str = "\
User www-data
Group www-data
KeepAlive On
KeepAliveTimeout 600
MaxKeepAliveRequests 0
SSLSessionCache none
SSLProtocol -all +TLSv1.2 +TLSv1.3
SSLCipherSuite ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256
SSLOpenSSLConfCmd Groups X25519:prime256v1
TypesConfig /etc/mime.types
";

/// Children as for one core.
const CHILDREN: &str = "\
StartServers 2
MinSpareServers 1
MaxSpareServers 4
MaxRequestWorkers 16
SetEnv ap_trust_cgilike_cl 1
";

const LEAST_THREADS: usize = 64;
/// Bytes of a thread: the 8 MiB that are usual count against a limit of the address space.
const STACK: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_block_and_certificates_serve_in_turn() {
        let mut apache = Apache {
            fixture: Folder(Path::new("/f")),
            hosts: 5,
            certificates: 2,
            site: Path::new("/site"),
            programs: Some(Path::new("/programs")),
            scratch: Path::new("/scratch"),
            address: "127.0.0.1:443".parse().unwrap(),
            connections: 500,
        };
        let text = apache.config();
        assert_eq!(text.matches("<VirtualHost 127.0.0.1:443>").count(), 5);
        assert_eq!(text.matches("</VirtualHost>").count(), 5);
        assert_eq!(text.matches("ScriptAlias /cgi-bin/ /programs/").count(), 5);
        assert!(text.contains("ServerName h4.example.test\n"));
        assert_eq!(text.matches("/f/hosts/h0.example.test.crt").count(), 3);
        assert!(!text.contains("h2.example.test.key"));
        let module = "LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so";
        assert!(text.starts_with(module));
        apache.programs = None;
        let text = apache.config();
        assert!(text.contains("LoadModule mpm_event_module"));
        assert!(text.contains("ThreadsPerChild 1000\nMaxRequestWorkers 1000\n"));
        assert!(!text.contains("ScriptAlias"));
    }
}
