//! Header fields that a rule sets, adds and removes.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Changes to the fields of a request or response, applied in this order:
/// remove, set, add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldOps {
    /// Fields to remove.
    pub(crate) remove: Box<[HeaderName]>,
    /// Fields to replace.
    pub(crate) set: Box<[(HeaderName, HeaderValue)]>,
    /// Fields to append.
    pub(crate) add: Box<[(HeaderName, HeaderValue)]>,
}

impl FieldOps {
    /// Applies the changes.
    pub(crate) fn apply(&self, fields: &mut HeaderMap) {
        for name in &self.remove {
            fields.remove(name);
        }
        for (name, value) in &self.set {
            fields.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            fields.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{COOKIE, SERVER, VARY};

    use super::*;

    #[test]
    fn removes_then_sets_then_adds() {
        let value = HeaderValue::from_static;
        let ops = FieldOps {
            remove: [SERVER, COOKIE].into(),
            set: [(SERVER, value("b"))].into(),
            add: [(VARY, value("c")), (COOKIE, value("d"))].into(),
        };
        let mut fields = HeaderMap::new();
        fields.append(SERVER, value("a"));
        fields.append(SERVER, value("a2"));
        fields.append(COOKIE, value("a"));
        fields.append(VARY, value("a"));
        ops.apply(&mut fields);
        let all = |name| fields.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all(SERVER), ["b"]);
        assert_eq!(all(COOKIE), ["d"]);
        assert_eq!(all(VARY), ["a", "c"]);
    }
}
