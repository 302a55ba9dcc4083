//! The process group of a program.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpgid, waitpid,
};

/// Process group that a program leads. The program stays a zombie, so that no other process or
/// group gets its id, until the last signal is sent. Dropping the group kills it.
///
/// Nothing else in the server waits for this child: only a process that has ended serving, and
/// keeps the pid, waits for any of its children.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// The id may belong to others by now.
    is_reaped: bool,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// By itself, or in an unknown way.
    Itself,
    /// By this signal.
    Signal(i32),
}

impl Group {
    pub(super) fn new(leader: Pid) -> Self {
        Self {
            leader,
            is_reaped: false,
        }
    }

    /// Returns how the program ended, if it has. Its zombie stays.
    pub(super) fn exit(&mut self) -> Option<Exit> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            return match waitid(WaitId::Pid(self.leader), options) {
                Ok(ended) => {
                    let signal = ended?.terminating_signal();
                    Some(signal.map_or(Exit::Itself, Exit::Signal))
                }
                Err(Errno::INTR) => continue,
                // There is no zombie, so the id must not be used any more.
                Err(_) => {
                    self.is_reaped = true;
                    Some(Exit::Itself)
                }
            };
        }
    }

    /// Asks all processes of the group to end.
    pub(super) fn terminate(&self) {
        if !self.is_reaped {
            // Fails if the program has left its own group.
            let _ = kill_process_group(self.leader, Signal::TERM);
        }
    }

    /// Kills all processes of the group, and the program if it has left that.
    pub(super) fn kill(&self) {
        if !self.is_reaped {
            let _ = kill_process_group(self.leader, Signal::KILL);
            let _ = kill_process(self.leader, Signal::KILL);
        }
    }

    /// Frees the id, once the program has ended. A server that takes the children of processes
    /// that end, as process 1 does, also waits for those of the group.
    pub(super) fn reap(&mut self) {
        if !self.is_reaped {
            self.is_reaped = true;
            while matches!(
                waitpid(Some(self.leader), WaitOptions::NOHANG),
                Err(Errno::INTR)
            ) {}
            while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        }
    }

    /// Kills the group, and waits until the program has ended. Blocks for the time that the
    /// kernel takes to end it.
    pub(super) fn end(&mut self) {
        self.kill();
        if !self.is_reaped {
            self.is_reaped = true;
            while matches!(
                waitpid(Some(self.leader), WaitOptions::empty()),
                Err(Errno::INTR)
            ) {}
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}
