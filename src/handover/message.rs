//! Messages between two processes of one server, which may be of two versions. Messages
//! and fields that a version does not know are left out. A field that an earlier version does
//! not send has a default: the hand-over would fail without.

use std::net::SocketAddr;

pub(crate) use sekisho_server::admin::Control;
use serde::{Deserialize, Serialize};

/// Message of a hand-over, and of processes that live beside each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub(crate) enum Message {
    /// To the old process: the program takes what it gets.
    Hello,
    /// To the new process: listening sockets, by their addresses as configured. Carries
    /// a descriptor for each.
    Listeners { addresses: Vec<SocketAddr> },
    /// To the new process: the socket of the admin listener, with its address as
    /// configured. Carries the descriptor.
    Admin { address: String },
    /// To the new process: sockets of a name server's address as configured. Carries the
    /// descriptors of UDP and TCP.
    Zone { address: SocketAddr },
    /// To the new process: the lock of the disk cache. Carries the descriptor.
    DiskCache,
    /// To the new process: a link to an older process. Carries the descriptor.
    Older(ProcessState),
    /// To the new process: ticket keys, as the bytes behind it.
    TicketKeys,
    /// To the new process: names that clients ask for most, a line each, behind it.
    HotNames,
    /// To the new process: values of the configuration, a line each, behind it.
    ConfigLines,
    /// To the new process: all was given.
    Complete(Complete),
    /// To the old process: all is bound and opened, and requests are answered.
    Ready {
        /// The new process serves the admin listener's socket.
        takes_admin: bool,
    },
    /// To the old process: the new one can't serve, and ends.
    Failed { error: String },
    /// To the new process: the old one stops accepting now, and has let go of what only one
    /// process may have.
    Yours,
    /// To an older process: end as at SIGTERM.
    Drain,
    /// To an older process: end at once.
    CutOff,
    /// To an older process: open the logs again.
    ReopenLogs,
    /// To the keeper of the pid: this process serves now.
    Newest { pid: u32 },
    /// From an older process: how many connections are still open.
    Open { connections: u64 },
    /// From an older process: it has cut off so many connections.
    Cut { connections: u64 },
    /// From the keeper of the pid: nothing is left of it but the pid.
    Idle,
    /// From the keeper of the pid: a signal that it got.
    Signal { signal: Signal },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// What a new process learns of the hand-over that starts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Complete {
    pub(crate) kind: Control,
    /// The process that gives.
    pub(crate) from: ProcessState,
    /// Connections that hand-overs have cut off.
    pub(crate) cut: u64,
    /// Hand-overs, with this one.
    pub(crate) handovers: u64,
    /// When the first process of the service began, in seconds since the Unix epoch; none
    /// from a program that does not know.
    #[serde(default)]
    pub(crate) service_began: Option<i64>,
}

/// State of a process, as its successors know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessState {
    pub(crate) pid: u32,
    /// Keeps the pid that whoever started the service knows: it is the oldest, passes
    /// signals on, and ends last.
    pub(crate) keeper: bool,
    /// A keeper whose connections have ended.
    pub(crate) idle: bool,
    /// It was told to end.
    pub(crate) ending: bool,
    /// Connections that were open when it last said so.
    pub(crate) connections: u64,
    /// When its hand-over began, in seconds since the Unix epoch.
    pub(crate) since: i64,
}

/// Signal that the keeper of the pid passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Signal {
    /// SIGTERM, SIGINT or SIGQUIT.
    Drain,
    /// SIGHUP.
    Reload,
    /// SIGUSR2.
    Upgrade,
    /// SIGUSR1.
    ReopenLogs,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the first version with hand-overs sent it, and as a later one may.
    #[test]
    fn other_versions_are_understood() {
        let first = r#""is": "complete", "kind": "upgrade", "from": {"pid": 7, "keeper": true,
            "idle": false, "ending": false, "connections": 3, "since": 1700000000},
            "cut": 1, "handovers": 2"#;
        let parse = |text: String| serde_json::from_str::<Message>(&text).expect("a message");
        let Message::Complete(complete) = parse(format!("{{{first}}}")) else {
            panic!("another message");
        };
        assert_eq!((complete.handovers, complete.service_began), (2, None));
        let later = parse(format!(
            r#"{{{first}, "service_began": 5, "colour": "red"}}"#
        ));
        let began = match later {
            Message::Complete(complete) => complete.service_began,
            other => panic!("{other:?}"),
        };
        assert_eq!(began, Some(5));
        assert_eq!(parse(r#"{"is": "dance"}"#.into()), Message::Unknown);
        let zone = parse(r#"{"is": "zone", "address": "0.0.0.0:53"}"#.into());
        let address = "0.0.0.0:53".parse().expect("an address");
        assert_eq!(zone, Message::Zone { address });
    }
}
