//! Users of a rule, and the hashes of their passwords.

use std::hash::BuildHasher;

use http::HeaderValue;

use super::password::PasswordHash;

/// Users, one of whose passwords each request of a rule must carry (RFC 7617).
#[derive(Clone, Debug)]
pub(crate) struct Auth {
    /// Value of `WWW-Authenticate`.
    pub(crate) challenge: HeaderValue,
    /// At least one, in the order of their names.
    pub(crate) users: Box<[User]>,
}

/// User with a password.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: Box<str>,
    pub(crate) hash: PasswordHash,
}

impl Auth {
    /// Returns the user of a name.
    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        let found = self.users.binary_search_by(|user| (*user.name).cmp(name));
        found.ok().map(|index| &self.users[index])
    }

    /// Returns the user whose hash is computed for a name that is none: the answer then
    /// takes as long as for a user. `hasher` has a key of this process, so that a name
    /// leads to one user, and nobody can tell which.
    pub(crate) fn stand_in(&self, name: &str, hasher: &impl BuildHasher) -> &User {
        let count = self.users.len() as u64;
        let index = usize::try_from(hasher.hash_one(name) % count);
        &self.users[index.expect("below the number of users")]
    }
}
