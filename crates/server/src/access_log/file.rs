//! Target of the lines: no write begins or ends within a line.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::Target;

/// Open target.
#[derive(Debug)]
pub(super) struct File {
    target: Target,
    open: fs::File,
    /// The last write took only the beginning of a line.
    torn: bool,
}

impl File {
    /// Opens the target.
    ///
    /// # Errors
    /// The system's. A named pipe that no process reads is an error, too.
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        let open = match target {
            Target::Stdout => fs::File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Target::File(path) => append_to(path)?,
        };
        Ok(Self {
            target: target.clone(),
            open,
            torn: false,
        })
    }

    /// Opens the file again. Standard output stays as it is.
    ///
    /// # Errors
    /// The errors of [`File::open`]; the open file is then kept.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Target::File(path) = &self.target {
            self.open = append_to(path)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes lines, of which each ends with a line break. Behind half a line, of
    /// which a full disk took no more, they begin a new one. Returns how many bytes
    /// were written, and the system's error if those are not all.
    pub(super) fn write(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        let mut write = || {
            if self.torn && !lines.is_empty() {
                self.open.write_all(b"\n")?;
                self.torn = false;
            }
            while written < lines.len() {
                match self.open.write(&lines[written..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(more) => {
                        written += more;
                        self.torn = lines[written - 1] != b'\n';
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let result = write();
        (written, result)
    }
}

/// Checks that the file can be opened, or created if it is not there.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match access(path, Access::WRITE_OK) {
        Ok(()) if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Err(Errno::NOENT) => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        checked => Ok(checked?),
    }
}

/// Opens a file to append lines to. Opening does not wait for the reader of a
/// named pipe; writing does.
fn append_to(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = fs::File::options()
        .append(true)
        .create(true)
        .mode(MODE)
        .custom_flags(i32::try_from(flags.bits()).expect("flags of open(2) fit"))
        .open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Readable by the group, which may be that of a log shipper.
const MODE: u32 = 0o640;

#[cfg(test)]
impl File {
    /// Lets the next line find half a line before it.
    pub(super) fn tear(&mut self) {
        self.torn = true;
    }
}
