//! PgBouncer in transaction mode.

use std::fs::File;
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use super::postgres::{PASSWORD, Postgres};
use super::reaper::Reaper;
use super::{Runner, free_port, program, until};

/// PgBouncer in front of a server.
pub struct PgBouncer {
    port: u16,
    child: Child,
    _reaper: Reaper,
}

impl PgBouncer {
    /// Returns the pooler of the whole process, before the shared server.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PgBouncer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Postgres::shared()))
    }

    /// Starts a pooler for one test.
    ///
    /// # Panics
    /// If PgBouncer is not installed, or does not start.
    #[must_use]
    pub fn start(server: &Postgres) -> Self {
        let runner = Runner::named("postgres");
        let folder = runner.folder("sekisho-pgbouncer-");
        let reaper = Reaper::new(&folder);
        let port = free_port();
        let users = folder.join("users");
        runner.write(&users, &format!("\"sekisho\" \"{PASSWORD}\"\n"));
        // Few server connections for many clients: each transaction gets
        // another one.
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\n\
             pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 500\n\
             pidfile = {}\n",
            server.port(),
            users.display(),
            folder.join("pgbouncer.pid").display(),
        );
        let file = folder.join("pgbouncer.ini");
        runner.write(&file, &config);
        let log = folder.join("log");
        let said = File::create(&log).expect("a log");
        let child = runner
            .command(&program("pgbouncer", &[], "pgbouncer"))
            .arg(&file)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a handle"))
            .stderr(said)
            .spawn();
        let child = child.expect("it was found");
        until("PgBouncer starts", &log, || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            port,
            child,
            _reaper: reaper,
        }
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a database's URL through the pooler.
    #[must_use]
    pub fn through(&self, server: &Postgres, url: &str) -> String {
        let (own, server) = (format!(":{}/", self.port), format!(":{}/", server.port()));
        format!("{}&pgbouncer=1", url.replace(&server, &own))
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
