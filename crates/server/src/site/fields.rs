//! Header fields that a rule sets, adds and removes.

use http::{HeaderMap, HeaderName};

use super::placeholder::{FieldValue, Fill};

/// Changes to the fields of a request or response, applied in this order:
/// remove, set, add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldOps {
    /// Fields to remove.
    pub(crate) remove: Box<[HeaderName]>,
    /// Fields to replace.
    pub(crate) set: Box<[(HeaderName, FieldValue)]>,
    /// Fields to append.
    pub(crate) add: Box<[(HeaderName, FieldValue)]>,
}

impl FieldOps {
    /// Applies the changes for a request. A field whose value can't be filled is left out; of
    /// `set`, also the one that came: a client could else choose the value itself.
    pub(crate) fn apply(&self, fields: &mut HeaderMap, fill: &Fill<'_>) {
        for name in &self.remove {
            fields.remove(name);
        }
        for (name, value) in &self.set {
            match value.fill(fill) {
                Some(value) => fields.insert(name, value),
                None => fields.remove(name),
            };
        }
        for (name, value) in &self.add {
            if let Some(value) = value.fill(fill) {
                fields.append(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{COOKIE, SERVER, VARY};

    use super::*;

    const FILL: Fill<'_> = Fill {
        host: "a.example",
        client: None,
        tenant: "",
        id: None,
    };

    #[test]
    fn removes_then_sets_then_adds() {
        let value = |text| FieldValue::Fixed(HeaderValue::from_static(text));
        let ops = FieldOps {
            remove: [SERVER, COOKIE].into(),
            set: [(SERVER, value("b"))].into(),
            add: [(VARY, value("c")), (COOKIE, value("d"))].into(),
        };
        let mut fields = HeaderMap::new();
        for (name, text) in [(SERVER, "a"), (SERVER, "a2"), (COOKIE, "a"), (VARY, "a")] {
            fields.append(name, HeaderValue::from_static(text));
        }
        ops.apply(&mut fields, &FILL);
        let all = |name| fields.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all(SERVER), ["b"]);
        assert_eq!(all(COOKIE), ["d"]);
        assert_eq!(all(VARY), ["a", "c"]);
    }

    #[test]
    fn a_value_that_is_not_filled_leaves_the_field_out() {
        let value = |text| FieldValue::parse(text).unwrap();
        let ops = FieldOps {
            remove: Box::default(),
            set: [(SERVER, value("{host}")), (COOKIE, value("{tenant}"))].into(),
            add: [(VARY, value("{client}"))].into(),
        };
        let mut fields = HeaderMap::new();
        for name in [SERVER, COOKIE, VARY] {
            fields.append(name, HeaderValue::from_static("of the client"));
        }
        ops.apply(&mut fields, &FILL);
        assert_eq!(fields[SERVER], "a.example");
        assert!(!fields.contains_key(COOKIE));
        assert_eq!(fields.get_all(VARY).iter().count(), 1);
    }
}
