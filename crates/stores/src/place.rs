//! Places that URLs of stores name.

use std::path::{Path, PathBuf};

/// Server of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreServer {
    /// An HTTPS server: a name, or an address without brackets, and a port.
    Https(String, u16),
    /// The port of a server that speaks another protocol.
    Port(u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Takes a path of the configuration: absolute, or below `base`.
///
/// # Errors
/// If it is empty or holds a NUL.
pub fn path_below(base: &Path, path: &str) -> Result<PathBuf, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the path must not be empty nor hold a NUL".into());
    }
    Ok(base.join(path))
}
