//! Indexes that lists read. A new store has all of them. No start of a server builds one in
//! a store of an older program, since that takes seconds of a writer's lock.

use sekisho_certs::store::StoreError;

/// Index that some lists need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    HostsByTenant,
    HostsByName,
    HostsUnnamed,
    HostsWithoutCertificate,
    HostsByOrigin,
    HostsSuspended,
    CredentialsByEnd,
    CredentialsByOrigin,
    LineagesWithoutCertificate,
}

impl Index {
    pub(crate) const ALL: [Self; 9] = [
        Self::HostsByTenant,
        Self::HostsByName,
        Self::HostsUnnamed,
        Self::HostsWithoutCertificate,
        Self::HostsByOrigin,
        Self::HostsSuspended,
        Self::CredentialsByEnd,
        Self::CredentialsByOrigin,
        Self::LineagesWithoutCertificate,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HostsByTenant => "hosts_by_tenant",
            Self::HostsByName => "hosts_by_name",
            Self::HostsUnnamed => "hosts_unnamed",
            Self::HostsWithoutCertificate => "hosts_without_certificate",
            Self::HostsByOrigin => "hosts_by_origin",
            Self::HostsSuspended => "hosts_suspended",
            Self::CredentialsByEnd => "credentials_by_end",
            Self::CredentialsByOrigin => "credentials_by_origin",
            Self::LineagesWithoutCertificate => "lineages_without_certificate",
        }
    }

    /// Returns the table with the columns and rows that the index holds. A statement names
    /// the condition of its rows, or neither database takes the index.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::HostsByTenant => "hosts (tenant, pattern)",
            Self::HostsByName => "hosts (reversed) WHERE reversed IS NOT NULL",
            Self::HostsUnnamed => "hosts (pattern) WHERE reversed IS NULL",
            Self::HostsWithoutCertificate => {
                "hosts (pattern) WHERE ecdsa IS NULL AND ed25519 IS NULL AND rsa IS NULL"
            }
            Self::HostsByOrigin => "hosts (origin, pattern) WHERE origin IS NOT NULL",
            Self::HostsSuspended => "hosts (pattern) WHERE suspended IS NOT NULL",
            Self::CredentialsByEnd => "credentials (not_after, id)",
            Self::CredentialsByOrigin => "credentials (origin, id) WHERE origin IS NOT NULL",
            Self::LineagesWithoutCertificate => "lineages (name) WHERE credential IS NULL",
        }
    }

    /// Makes the refusal of a list that lacks the index.
    pub(crate) fn lacking(self) -> StoreError {
        let name = self.name();
        let text = format!(
            "this list needs the index {name}; 'sekisho store upgrade' builds it while servers \
             serve"
        );
        StoreError::Refused(text.into())
    }
}
