//! Starts the program again, on a thread that keeps the right to bind low ports.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::sync::oneshot;

use super::message::Control;
use crate::process;

/// Program as it was started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its path on the disk.
    path: PathBuf,
    /// Its name and arguments.
    arguments: Vec<OsString>,
}

/// Thread that starts the program, and does nothing else. No thread that reads clients' bytes
/// has the right to bind low ports.
#[derive(Debug)]
pub(crate) struct Launcher(Sender<Order>);

/// Command to start, and where its process is told.
type Order = (Command, oneshot::Sender<io::Result<Child>>);

impl Program {
    /// Notes how this process was started. Called before the working directory changes.
    pub(crate) fn this() -> Self {
        let arguments: Vec<_> = env::args_os().collect();
        let name = arguments.first().map(PathBuf::from).unwrap_or_default();
        let path = on_disk(&name).or_else(|| env::current_exe().ok());
        Self {
            path: path.unwrap_or_else(|| RUNNING.into()),
            arguments,
        }
    }

    /// Returns the file that a hand-over starts.
    pub(crate) fn file(&self, kind: Control) -> &Path {
        match kind {
            Control::Reload => Path::new(RUNNING),
            Control::Upgrade => &self.path,
        }
    }

    /// Makes the command of a hand-over, under the name of this program.
    fn command(&self, kind: Control) -> Command {
        let mut command = Command::new(self.file(kind));
        let mut arguments = self.arguments.iter();
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        command.args(arguments);
        command
    }
}

impl Launcher {
    /// Starts the thread, which may bind low ports if the caller may. Called before the
    /// process gives that right up.
    pub(crate) fn start() -> io::Result<Self> {
        let (orders, received) = channel::<Order>();
        thread::Builder::new()
            .name("launcher".into())
            .spawn(move || {
                process::pass_on_binding();
                for (mut command, started) in received {
                    let _ = started.send(command.spawn());
                }
            })?;
        Ok(Self(orders))
    }

    /// Starts the program, with one end of a link as its standard input, and in a process
    /// group of its own: the keeper of the pid passes on what a terminal sends.
    pub(crate) async fn launch(
        &self,
        program: &Program,
        kind: Control,
        input: OwnedFd,
    ) -> io::Result<Child> {
        let (started, child) = oneshot::channel();
        let mut command = program.command(kind);
        command.env(HANDOVER, "1").stdin(Stdio::from(input));
        command.process_group(0);
        let gone = || io::Error::other("the thread that starts programs has ended");
        self.0.send((command, started)).map_err(|_| gone())?;
        child.await.map_err(|_| gone())?
    }
}

/// Returns the path at which a shell found the program of this name.
fn on_disk(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return std::path::absolute(name).ok();
    }
    let folders = env::var_os("PATH")?;
    let files = env::split_paths(&folders).map(|folder| folder.join(name));
    files
        .filter_map(|file| std::path::absolute(file).ok())
        .find(|file| file.is_file())
}

/// Variable that says that standard input is a link to the process that serves. Programs that
/// the new process starts have it too, and another standard input.
pub(crate) const HANDOVER: &str = "SEKISHO_HANDOVER";
/// The program that runs, also when its file was replaced or removed.
const RUNNING: &str = "/proc/self/exe";
