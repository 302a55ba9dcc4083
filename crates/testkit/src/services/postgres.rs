//! PostgreSQL.

mod dumps;
mod standby;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::{Pid, Signal as Number, kill_process};

use super::reaper::Reaper;
use super::{Runner, free_port, program, ran, until};
use crate::ca::{Key, TestCa};

/// PostgreSQL server with a user `sekisho`, TLS, and a collation that differs
/// from byte order.
pub struct Postgres {
    folder: PathBuf,
    programs: Vec<PathBuf>,
    runner: Runner,
    port: u16,
    server: Mutex<Option<Child>>,
    _reaper: Reaper,
}

/// Signal to a server.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// Shut down: clients are cut off, committed data is kept.
    End,
    /// Kill, as in a power failure.
    Kill,
    /// Pause: the server accepts, and answers nothing.
    Pause,
    /// Resume after a pause.
    Resume,
}

impl Signal {
    /// Returns its number, which is `end` for [`Signal::End`]: SIGINT shuts the main process down
    /// fast, but only cancels the query of a backend, which SIGTERM ends.
    const fn number(self, end: Number) -> Number {
        match self {
            Self::End => end,
            Self::Kill => Number::KILL,
            Self::Pause => Number::STOP,
            Self::Resume => Number::CONT,
        }
    }
}

impl Postgres {
    /// Returns the server of the whole process, in which each test makes its
    /// own database.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Starts a server that a test may stop and start.
    ///
    /// # Panics
    /// If PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        let runner = Runner::named("postgres");
        let folder = runner.folder("sekisho-postgres-");
        let reaper = Reaper::new(&folder);
        let server = Self {
            programs: installed(),
            runner,
            port: free_port(),
            server: Mutex::default(),
            _reaper: reaper,
            folder,
        };
        server.init();
        server.begin();
        server
    }

    /// Creates a database; returns its URL without TLS.
    #[must_use]
    pub fn database(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.sql(
            "postgres",
            &format!("CREATE DATABASE {name} TEMPLATE template0"),
        );
        format!("{}?sslmode=disable", self.url(&name))
    }

    /// Returns the URL of a database, without parameters.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://sekisho:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the main process, the parent of all others.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server().as_ref().expect("it runs").id()
    }

    /// Returns the file of the CA's certificate, PEM. The server's certificate
    /// is for 127.0.0.1.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Runs SQL with psql; returns the rows as lines.
    ///
    /// # Panics
    /// If it fails.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = self.client("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]);
        ran(&mut psql)
    }

    /// Dumps a whole database as text.
    #[must_use]
    pub fn dump(&self, database: &str) -> String {
        ran(self.client("pg_dump").args(["-d", database]))
    }

    /// Runs a dump's text in an empty database.
    ///
    /// # Panics
    /// If it fails.
    pub fn restore(&self, database: &str, dump: &str) {
        let file = self.folder.join(format!("{database}.sql"));
        fs::write(&file, dump).expect("a file");
        let mut psql = self.client("psql");
        psql.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-d", database]);
        ran(psql.arg("-f").arg(file));
    }

    /// Sends a signal; after [`Signal::End`] and [`Signal::Kill`] waits until
    /// the server is gone.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal(&self, signal: Signal) {
        let mut server = self.server();
        let child = server.as_mut().expect("it runs");
        let _ = send(
            signal.number(Number::INT),
            self.processes(child.id(), signal),
        );
        if matches!(signal, Signal::End | Signal::Kill) {
            child.wait().expect("it is a child");
            *server = None;
        }
    }

    /// Sends a signal to the backends of an application alone. [`Signal::End`] ends their
    /// connections.
    ///
    /// # Panics
    /// If it has none.
    pub fn signal_backends(&self, application: &str, signal: Signal) {
        let pids = "SELECT pid FROM pg_stat_activity WHERE application_name";
        let pids = self.sql("postgres", &format!("{pids} = '{application}'"));
        let pids = pids
            .split_whitespace()
            .map(|pid| pid.parse().expect("an id"));
        let pids: Vec<u32> = pids.collect();
        let sent = send(signal.number(Number::TERM), pids);
        assert!(sent > 0, "no backend of {application} took it");
    }

    /// Starts the server again on the same port, with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn begin(&self) {
        let log = self.folder.join("log");
        let file = File::options().create(true).append(true).open(&log);
        let file = file.expect("a log");
        let child = self
            .command("postgres")
            .arg("-D")
            .arg(self.folder.join("data"))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a handle"))
            .stderr(file)
            .spawn();
        *self.server() = Some(child.expect("it was found"));
        until("PostgreSQL starts", &log, || {
            let mut ready = self.client("pg_isready");
            ready
                .arg("-q")
                .status()
                .is_ok_and(|status| status.success())
        });
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the processes to signal: pausing and killing affect all of them.
    fn processes(&self, main: u32, signal: Signal) -> Vec<u32> {
        let children = match signal {
            Signal::End => String::new(),
            _ => {
                fs::read_to_string(format!("/proc/{main}/task/{main}/children")).unwrap_or_default()
            }
        };
        let children = children
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok());
        std::iter::once(main).chain(children).collect()
    }

    fn init(&self) {
        let password = self.folder.join("password");
        self.runner.write(&password, PASSWORD);
        let mut init = self.command("initdb");
        init.arg("-D").arg(self.folder.join("data"));
        init.arg(format!("--pwfile={}", password.display()));
        init.args([
            "-U",
            "sekisho",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--no-sync",
        ]);
        init.args([
            "--locale=C.UTF-8",
            "--locale-provider=icu",
            "--icu-locale=en-US",
        ]);
        ran(init.current_dir(&self.folder));
        self.secure();
        let folder = self.folder.display();
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{folder}'\n\
             max_connections = 1000\nfsync = off\nssl = on\nssl_cert_file = '{folder}/tls.crt'\n\
             ssl_key_file = '{folder}/tls.key'\n",
            self.port
        );
        let file = self.folder.join("data/postgresql.auto.conf");
        self.runner.write(&file, &settings);
    }

    fn secure(&self) {
        let ca = TestCa::new();
        let pair = ca.issue(&["127.0.0.1"], Key::P256);
        let at = |name: &str| self.folder.join(name);
        self.runner.write(&at("authority.pem"), &ca.root_pem());
        self.runner.write(&at("tls.crt"), &pair.chain_pem());
        self.runner.write(&at("tls.key"), &pair.key_pem());
        fs::set_permissions(at("tls.key"), Permissions::from_mode(0o600)).expect("our file");
        // Other users may read the CA's certificate.
        fs::set_permissions(&self.folder, Permissions::from_mode(0o755)).expect("our folder");
    }

    fn command(&self, name: &str) -> Command {
        self.runner.command(&self.program(name))
    }

    fn client(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        command
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "sekisho",
                "-p",
                &self.port.to_string(),
            ])
            .env("PGPASSWORD", PASSWORD)
            .env("PGSSLMODE", "disable");
        command
    }

    fn program(&self, name: &str) -> PathBuf {
        program(name, &self.programs, "postgresql")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.server().is_some() {
            self.signal(Signal::Resume);
            self.signal(Signal::Kill);
        }
    }
}

/// Returns Debian's folders of programs outside of `PATH`, the newest first.
fn installed() -> Vec<PathBuf> {
    let Ok(versions) = fs::read_dir(Path::new("/usr/lib/postgresql")) else {
        return Vec::new();
    };
    let mut folders: Vec<_> = versions
        .flatten()
        .map(|one| one.path().join("bin"))
        .collect();
    folders.sort();
    folders.reverse();
    folders
}

/// Password of the user `sekisho`.
pub(super) const PASSWORD: &str = "correct-horse";

/// Sends a signal to processes, of which some may have ended meanwhile; returns how many had not.
fn send(number: Number, pids: Vec<u32>) -> usize {
    let pids = pids.into_iter().map(|pid| {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.expect("ids are positive")
    });
    pids.filter(|pid| kill_process(*pid, number).is_ok())
        .count()
}
