//! Target of the lines: no write begins or ends within a line.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Open target.
#[derive(Debug)]
pub struct File {
    /// The path; none for an open descriptor, such as standard output.
    path: Option<PathBuf>,
    open: fs::File,
    /// The last write took only the beginning of a line.
    torn: bool,
}

impl File {
    /// Opens a file to append lines to; creates it with mode 640.
    ///
    /// # Errors
    /// The system's. A named pipe that no process reads is an error, too.
    pub fn append(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: Some(path.to_owned()),
            open: append_to(path)?,
            torn: false,
        })
    }

    /// Takes a copy of an open descriptor.
    ///
    /// # Errors
    /// The system's.
    pub fn of(descriptor: &impl AsFd) -> io::Result<Self> {
        Ok(Self {
            path: None,
            open: descriptor.as_fd().try_clone_to_owned()?.into(),
            torn: false,
        })
    }

    /// Opens the file again. A descriptor stays as it is.
    ///
    /// # Errors
    /// The errors of [`File::append`]; the open file is then kept.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
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
pub(crate) fn check(path: &Path) -> io::Result<()> {
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
mod tests {
    use super::*;

    #[test]
    fn behind_half_a_line_begins_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut file = File::append(&path).unwrap();
        file.write(b"one\n").1.unwrap();
        file.torn = true;
        let (written, result) = file.write(b"two\nthree\n");
        assert!(written == 10 && result.is_ok());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "one\n\ntwo\nthree\n");
    }
}
