//! The fixed words that stand in label values.

use sekisho_certs::metrics::Counters;

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Returns the metric of these counters, each at the index of its value.
            pub(super) fn metric<C: Clone>(
                label: &'static str,
                counters: &[C; [$($text),*].len()],
            ) -> Counters<{ [$($text),*].len() }, C> {
                let each = Self::ALL.map(|value| (value.as_str(), counters[value as usize].clone()));
                Counters { label, each }
            }

            /// The label's value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

labels! {
    /// How a connection to a TLS port ended its handshake.
    HandshakeResult {
        /// Finished, with a certificate sent.
        Full = "full",
        /// Finished, resumed from a ticket.
        Resumed = "resumed",
        /// Finished with a challenge certificate, and closed (RFC 8737).
        Challenge = "challenge",
        /// Refused: no such host (`unrecognized_name`).
        AbsentHost = "absent_host",
        /// Refused: `acme-tls/1` for a name without a challenge
        /// (`no_application_protocol`).
        AbsentChallenge = "absent_challenge",
        /// Refused: the host has no credential (`unrecognized_name`).
        NoCredential = "no_credential",
        /// Refused: the host is disabled (`unrecognized_name`).
        Disabled = "disabled",
        /// Refused: the store failed or did not answer in time, or what it gave
        /// can't be used (`internal_error`).
        Failed = "failed",
        /// Refused: too much is in flight, or the client's prefix is over its
        /// budget (`internal_error`).
        Overloaded = "overloaded",
        /// Refused by the hook, with the alert of its choice.
        HookRefused = "hook_refused",
        /// Refused: the hook failed or did not answer in time (`internal_error`).
        HookFailed = "hook_failed",
        /// Refused: no SNI, and the address has no default.
        NoSni = "no_sni",
        /// Refused: no protocol of the client's ALPN list is served here.
        NoApplicationProtocol = "no_application_protocol",
        /// Refused: the client has no certificate, or none that the host's client CA
        /// accepts.
        ClientCertificate = "client_certificate",
        /// Refused: no version, cipher suite, group or signature scheme in
        /// common.
        Incompatible = "incompatible",
        /// Plain HTTP on a TLS port, answered with a readable 400.
        PlainHttp = "plain_http",
        /// Neither TLS nor HTTP by its first byte.
        NotTls = "not_tls",
        /// TLS that breaks the protocol's rules.
        Malformed = "malformed",
        /// The client took longer than the whole handshake may.
        TimedOut = "timed_out",
        /// The client answered with an alert.
        PeerAlert = "peer_alert",
        /// The client went away before the end.
        Aborted = "aborted",
    }
}

labels! {
    /// How a lookup was answered, as the connection that asked saw it.
    LookupResult {
        /// From memory.
        Hit = "hit",
        /// By a load that this connection started.
        Loaded = "loaded",
        /// By a load that was in flight already.
        Joined = "joined",
        /// Not at all: the hook gave a certificate.
        Hook = "hook",
        /// Not at all: the hook failed, and what it chose before is served on.
        HookKept = "hook_kept",
        /// No such host.
        AbsentHost = "absent_host",
        /// A host without a credential.
        NoCredential = "no_credential",
        /// A disabled host.
        Disabled = "disabled",
        /// The store failed, or what it gave can't be used.
        Failed = "failed",
        /// Too many loads in flight, or lookups that wait for a certificate.
        Overloaded = "overloaded",
        /// The client's prefix is over its budget.
        OverBudget = "over_budget",
    }
}

labels! {
    /// How a connection from `[listen] proxy` began.
    ProxyHeaderResult {
        /// With the address of a client.
        Client = "client",
        /// With a header of the proxy's own, such as that of a health check.
        Local = "local",
        /// With a header that names no address.
        Unknown = "unknown",
        /// Not at all: closed before the first byte.
        Closed = "closed",
        /// Refused: something else than a header.
        Malformed = "malformed",
        /// Refused: a header that is not complete.
        Cut = "cut",
        /// Refused: no complete header before the deadline.
        TimedOut = "timed_out",
    }
}

labels! {
    /// How a request to an upstream server ended.
    UpstreamResult {
        /// With an answer.
        Answered = "answered",
        /// With an answer of 502, 503 or 504.
        Unavailable = "unavailable",
        /// Without a connection.
        Unreachable = "unreachable",
        /// With a connection, without an answer.
        NoAnswer = "no_answer",
        /// Before any of these, as when the client left.
        Abandoned = "abandoned",
        /// Without a connection for a reason on this side: all were in use, too many
        /// requests waited, or name servers failed.
        Refused = "refused",
    }
}

labels! {
    /// How a question for the addresses of an upstream server ended.
    Resolution {
        /// With addresses.
        Found = "found",
        /// The name has none.
        Absent = "absent",
        /// Without an answer.
        Failed = "failed",
    }
}

labels! {
    /// Why a request was refused by its site's rule.
    RequestRefusal {
        /// The client's address is denied, or not allowed.
        Address = "address",
        /// The request's body is larger than the rule allows.
        Body = "body",
        /// The client has shown no trusted certificate.
        Certificate = "certificate",
        /// The client's prefix is over its rate.
        ClientRate = "client_rate",
        /// The host is over its rate.
        HostRate = "host_rate",
        /// The client's prefix has as many requests in flight as it may have.
        InFlight = "in_flight",
        /// There was no password, or a wrong one.
        Password = "password",
        /// The client's prefix has sent too many wrong passwords.
        PasswordRate = "password_rate",
        /// Too many passwords waited for their verification, or for too long.
        PasswordsLate = "passwords_late",
    }
}
