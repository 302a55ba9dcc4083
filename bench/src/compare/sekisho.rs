//! sekisho: its configuration.

use std::net::SocketAddr;
use std::path::Path;

use crate::fixtures::Folder;

/// Where sekisho has its hosts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Store {
    Sqlite,
    Files,
}

#[derive(Debug)]
pub(crate) struct Sekisho<'a> {
    pub(crate) fixture: Folder<'a>,
    pub(crate) store: Store,
    pub(crate) memory: &'a str,
    pub(crate) site: &'a Path,
    /// Folder of the SQLite file and its master key.
    pub(crate) catalog: &'a Path,
    pub(crate) address: SocketAddr,
}

impl Sekisho<'_> {
    pub(crate) fn config(&self) -> String {
        let store = match self.store {
            Store::Sqlite => format!(
                "[store]\nurl = \"sqlite:{catalog}/hosts.db\"\n\
                 [keys]\nmaster = \"file:{catalog}/master.key\"\n",
                catalog = self.catalog.display()
            ),
            Store::Files => format!(
                "[store]\nurl = \"files:{},{}\"\n",
                self.fixture.chain("{host}").display(),
                self.fixture.key("{host}").display()
            ),
        };
        format!(
            "[listen]\nhttps = [\"{}\"]\n\
             {store}\
             [cache]\nmemory = \"{}\"\n\
             [site]\nroot = \"{}\"\n\
             [server]\nworkers = 1\n",
            self.address,
            self.memory,
            self.site.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_named_by_its_url() {
        let mut sekisho = Sekisho {
            fixture: Folder(Path::new("/f")),
            store: Store::Files,
            memory: "1MiB",
            site: Path::new("/site"),
            catalog: Path::new("/c"),
            address: "127.0.0.1:443".parse().unwrap(),
        };
        let url = "url = \"files:/f/hosts/{host}.crt,/f/hosts/{host}.key\"";
        assert!(sekisho.config().contains(url));
        sekisho.store = Store::Sqlite;
        assert!(sekisho.config().contains("url = \"sqlite:/c/hosts.db\""));
    }
}
