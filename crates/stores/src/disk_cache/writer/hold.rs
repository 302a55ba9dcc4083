//! Giving the file to another process, and taking it back.

use rusqlite::Connection;

use super::super::tables::Meta;
use super::Writer;
use crate::fault::unavailable;
use sekisho_certs::store;

/// Hold of the file. `Suspended` may become either of the others, `Retired` stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// This process has the file, or may make it.
    Held,
    /// Another process may have it now.
    Suspended,
    /// Another process has it for good.
    Retired,
}

impl Writer {
    /// Tells whether this process may read, write and make the file.
    pub(in crate::disk_cache) fn has_file(&self) -> bool {
        self.hold == Hold::Held
    }

    pub(in crate::disk_cache) fn suspend(&mut self) {
        if self.hold == Hold::Held {
            self.keep_pending();
            self.close();
            self.hold = Hold::Suspended;
            // Pages of the feed are refused from here on.
            self.shared.resync.late();
        }
    }

    /// Takes the file back. What the other process did there counts: its position may be
    /// higher, and its copies others than this process remembers.
    pub(in crate::disk_cache) fn resume(&mut self) -> store::Result<()> {
        if self.hold != Hold::Suspended {
            return Ok(());
        }
        // A file that is made anew has no documents.
        let wanted = Meta {
            catalog: None,
            ..self.meta.clone()
        };
        let (connection, meta) = self.file.open(&wanted).map_err(unavailable)?;
        self.hold = Hold::Held;
        self.shared.written.clear();
        if meta.own == self.meta.own {
            self.connection = Some(connection);
            if let Some(position) = meta.position {
                // Overtakes answers that were read at a lower number. `seen_epoch` stays: a
                // log that began anew since then voids that position.
                self.recent.restart(position);
            }
            self.meta = meta;
        } else {
            // The other process has made it anew, and sealed what is in it for itself.
            drop(connection);
            self.make();
        }
        self.count();
        self.shared.resync.late();
        Ok(())
    }

    pub(in crate::disk_cache) fn retire(&mut self) {
        if self.hold == Hold::Held {
            self.keep_pending();
            self.close();
        }
        self.hold = Hold::Retired;
        // First: what came later would stay.
        self.file.give_up();
        drop(self.shared.pending.take());
        // Ends the resync.
        self.shared.resync.request();
    }

    fn close(&mut self) {
        if let Some(Err((_, error))) = self.connection.take().map(Connection::close) {
            let file = self.file.path.display();
            tracing::warn!(%file, %error, "the disk cache was not closed well");
        }
    }
}
