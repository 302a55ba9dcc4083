//! The process group of a program.

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpgid, waitpid,
};
use tokio::signal::unix;

/// Process group that a program leads. The program stays a zombie, so that no other process or
/// group gets its id, until the last signal is sent. Dropping the group kills it.
///
/// Nothing else in the server waits for this child: only a process that has ended serving, and
/// keeps the pid, waits for any of its children.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    children: unix::Signal,
    /// Another has waited for the program: the id may belong to others by now.
    is_reaped: bool,
}

impl Group {
    /// Makes the group that a program leads. `children` has been notified of SIGCHLD since
    /// before the program began.
    pub(super) fn new(leader: Pid, children: unix::Signal) -> Self {
        Self {
            leader,
            children,
            is_reaped: false,
        }
    }

    /// Waits until the program has ended; its zombie stays. Returns the signal that ended it,
    /// if it was one. Cancel-safe.
    pub(super) async fn exit(&mut self) -> Option<i32> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match retry_on_intr(|| waitid(WaitId::Pid(self.leader), options)) {
                Ok(Some(ended)) => return ended.terminating_signal(),
                Ok(None) => _ = self.children.recv().await,
                // There is no zombie, so the id must not be used any more.
                Err(_) => {
                    self.is_reaped = true;
                    return None;
                }
            }
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

    /// Kills all processes of the group, and blocks for the moment that the kernel takes to end
    /// the program.
    pub(super) fn end(self) {
        self.kill();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.leader), options));
    }
}

impl Drop for Group {
    /// Kills the group, and frees its id if the program has ended. A server that takes the
    /// children of processes that end, as process 1 does, also waits for those of the group.
    fn drop(&mut self) {
        self.kill();
        if !self.is_reaped {
            let _ = retry_on_intr(|| waitpid(Some(self.leader), WaitOptions::NOHANG));
            while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        }
    }
}
