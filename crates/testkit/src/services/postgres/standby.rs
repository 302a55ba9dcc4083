//! Standbys, which follow another server until they are promoted.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use super::{PASSWORD, Postgres, installed};
use crate::services::reaper::Reaper;
use crate::services::{Runner, free_port, ran, until};

impl Postgres {
    /// Starts a standby that follows this server through `port`, which leads to
    /// this server.
    ///
    /// # Panics
    /// If it can't be made, or does not start.
    #[must_use]
    pub fn standby(&self, port: u16) -> Self {
        let runner = Runner::named("postgres");
        let folder = runner.folder("sekisho-standby-");
        let standby = Self {
            programs: installed(),
            runner,
            port: free_port(),
            server: Mutex::default(),
            _reaper: Reaper::new(&folder),
            folder,
        };
        let url = format!("postgres://sekisho:{PASSWORD}@127.0.0.1:{port}/?sslmode=disable");
        let mut copy = standby.command("pg_basebackup");
        // pg_basebackup stores which server to follow.
        copy.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &url]);
        copy.arg("-D").arg(standby.folder.join("data"));
        ran(copy.current_dir(&standby.folder));
        // The last line of a setting counts.
        let settings = standby.folder.join("data/postgresql.auto.conf");
        let mut settings = File::options().append(true).open(settings).expect("a file");
        let folder = standby.folder.display();
        let own = format!(
            "port = {}\nunix_socket_directories = '{folder}'\nwal_retrieve_retry_interval = 100\n",
            standby.port
        );
        settings.write_all(own.as_bytes()).expect("our file");
        standby.begin();
        standby
    }

    /// Waits until this standby has all data of the primary.
    pub fn catches_up_with(&self, primary: &Self) {
        let position = primary.sql("postgres", "SELECT pg_current_wal_lsn()");
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", position.trim());
        until("the standby follows", &self.folder.join("log"), || {
            self.sql("postgres", &sql).trim() == "t"
        });
    }

    /// Promotes this standby, which then takes writes.
    ///
    /// # Panics
    /// If it is none.
    pub fn promote(&self) {
        let mut promote = self.command("pg_ctl");
        promote
            .arg("promote")
            .arg("-D")
            .arg(self.folder.join("data"));
        ran(promote.current_dir(&self.folder));
    }
}
