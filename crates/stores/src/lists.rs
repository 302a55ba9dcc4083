//! Statements of lists, one for each condition that may lead. They are in SQLite's dialect, from
//! which PostgreSQL's differs by some words.

use crate::catalog_row::{self, credential_columns, host_columns, signed};
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{CredentialFilter, HostFilter, names_below, reversed};

/// Statement that reads a page of a list.
pub(crate) struct List {
    /// Index that it reads; empty for a primary key.
    pub(crate) index: &'static str,
    pub(crate) text: String,
    /// Place after which the page begins, number of rows, and what the condition compares.
    pub(crate) values: Vec<Value>,
}

/// Parameter of a statement.
pub(crate) enum Value {
    Text(String),
    Number(i64),
}

/// Lists hosts by the condition whose index usually has fewest.
pub(crate) fn hosts(filter: &HostFilter, after: Option<&HostPattern>, limit: usize) -> List {
    let mut start = catalog_row::list_start(after);
    let mut order = "pattern";
    let (index, rows, value) = if let (true, Some(name)) = (filter.is_by_name(), &filter.under) {
        let (before, end) = names_below(name);
        start = after.map(reversed).unwrap_or_default().max(before);
        order = "reversed";
        let rows = "h.reversed IS NOT NULL AND h.reversed < ?3";
        ("hosts_by_name", rows, Some(end))
    } else if let Some(tenant) = filter.leading_tenant() {
        let value = tenant.as_str().to_owned();
        ("hosts_by_tenant", "h.tenant = ?3", Some(value))
    } else if filter.suspended {
        ("hosts_suspended", "h.suspended IS NOT NULL", None)
    } else if filter.without_certificate {
        let rows = "h.ecdsa IS NULL AND h.ed25519 IS NULL AND h.rsa IS NULL";
        ("hosts_without_certificate", rows, None)
    } else if let Some(source) = &filter.origin {
        let rows = "h.origin IS NOT NULL AND h.origin = ?3";
        ("hosts_by_origin", rows, Some(source.to_string()))
    } else {
        ("", "true", None)
    };
    let (columns, by) = (host_columns!(), indexed_by(index));
    let text = format!(
        "SELECT {columns}, h.pattern FROM main.hosts h{by}
        WHERE {rows} AND h.{order} > ?1 ORDER BY h.{order} LIMIT ?2"
    );
    let value = value.map(Value::Text);
    List::new(index, text, Value::Text(start), limit).with(value)
}

/// Lists credentials. No end of validity and no id is below 0.
pub(crate) fn credentials(
    filter: &CredentialFilter,
    after: Option<(i64, CredentialId)>,
    limit: usize,
) -> List {
    let (mut end, mut id) = after.map_or((0, -1), |(end, id)| (end, signed(id.as_u64())));
    let (index, rows, order, values) = match filter {
        CredentialFilter::All => ("", "c.id > ?1", "c.id", Vec::new()),
        CredentialFilter::Ends { from, until } => {
            (end, id) = (end, id).max((*from, -1));
            let rows = "(c.not_after, c.id) > (?3, ?1) AND c.not_after < ?4";
            let values = vec![Value::Number(end), Value::Number(*until)];
            ("credentials_by_end", rows, "c.not_after, c.id", values)
        }
        CredentialFilter::Origin(source) => {
            let rows = "c.origin IS NOT NULL AND c.origin = ?3 AND c.id > ?1";
            let values = vec![Value::Text(source.to_string())];
            ("credentials_by_origin", rows, "c.id", values)
        }
    };
    let (columns, by) = (credential_columns!(), indexed_by(index));
    let text = format!(
        "SELECT {columns} FROM main.credentials c{by}
        LEFT JOIN main.issuers i ON i.id = c.issuer
        WHERE {rows} ORDER BY {order} LIMIT ?2"
    );
    List::new(index, text, Value::Number(id), limit).with(values)
}

/// Lists tenants: goes from one to the next, however many hosts each has.
pub(crate) fn tenants(after: Option<&Tenant>, limit: usize) -> List {
    // The first text after that name: a name has no control characters.
    let start = after.map(|after| format!("{}\u{1}", after.as_str()));
    let index = "hosts_by_tenant";
    let by = indexed_by(index);
    let text = format!(
        "WITH RECURSIVE t(tenant) AS (
            SELECT min(h.tenant) FROM main.hosts h{by} WHERE h.tenant >= ?1
            UNION ALL
            SELECT (SELECT min(h.tenant) FROM main.hosts h{by} WHERE h.tenant > t.tenant)
            FROM t WHERE t.tenant IS NOT NULL
        )
        SELECT t.tenant FROM t WHERE t.tenant IS NOT NULL LIMIT ?2"
    );
    let start = Value::Text(start.unwrap_or_default());
    List::new(index, text, start, limit)
}

/// Lists hosts that an older program wrote, without the names by which [`names_below`] finds
/// them. Reads the primary key while it has no index.
pub(crate) fn unnamed(after: String) -> List {
    let text = "SELECT h.pattern FROM main.hosts h
        WHERE h.reversed IS NULL AND h.pattern > ?1 ORDER BY h.pattern LIMIT ?2";
    List::new("", text.into(), Value::Text(after), NAMED_AT_ONCE)
}

impl List {
    fn new(index: &'static str, text: String, start: Value, limit: usize) -> Self {
        let values = vec![start, Value::Number(catalog_row::limit(limit))];
        Self {
            index,
            text,
            values,
        }
    }

    fn with(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.values.extend(values);
        self
    }
}

/// Makes SQLite take this index, or refuse the statement: without statistics of a table it
/// may read all of its primary key.
fn indexed_by(index: &str) -> String {
    match index {
        "" => String::new(),
        _ => format!(" INDEXED BY {index}"),
    }
}

/// Hosts that one transaction names, in some 5 ms of SQLite's writer lock.
const NAMED_AT_ONCE: usize = 1000;

/// Makes a list of each kind, whose plans tests read.
#[cfg(test)]
pub(crate) fn each() -> Vec<List> {
    let all = HostFilter::default;
    let name = sekisho_certs::host::HostName::parse("h1.example");
    let filters = [
        all(),
        HostFilter {
            suspended: true,
            ..all()
        },
        HostFilter {
            without_certificate: true,
            ..all()
        },
        HostFilter {
            under: Some(name.unwrap()),
            ..all()
        },
        HostFilter {
            tenant: Some("t7".try_into().unwrap()),
            ..all()
        },
        HostFilter {
            origin: Some("/srv".into()),
            ..all()
        },
    ];
    let hosts = filters.iter().map(|filter| hosts(filter, None, 100));
    let ends = CredentialFilter::Ends {
        from: 5000,
        until: 6000,
    };
    let filters = [
        CredentialFilter::All,
        ends,
        CredentialFilter::Origin("/srv".into()),
    ];
    let credentials = filters.iter().map(|filter| credentials(filter, None, 100));
    let others = [tenants(None, 100), unnamed(String::new())];
    hosts.chain(credentials).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sekisho_certs::host::HostName;

    #[test]
    fn a_customers_index_leads_and_the_operators_comes_last() {
        let list = |tenant: &str| {
            let filter = HostFilter {
                tenant: Some(tenant.try_into().unwrap()),
                ..HostFilter::default()
            };
            let under = HostFilter {
                under: Some(HostName::parse("b.example").unwrap()),
                ..filter.clone()
            };
            let suspended = HostFilter {
                suspended: true,
                ..filter.clone()
            };
            let without = HostFilter {
                without_certificate: true,
                ..filter.clone()
            };
            let all = [filter, under, suspended, without];
            all.map(|filter| hosts(&filter, None, 9).index)
        };
        assert_eq!(list("anna"), ["hosts_by_tenant"; 4]);
        let operators = [
            "hosts_by_tenant",
            "hosts_by_name",
            "hosts_suspended",
            "hosts_without_certificate",
        ];
        assert_eq!(list(""), operators);
    }

    #[test]
    fn a_list_below_a_domain_begins_within_it() {
        let filter = HostFilter {
            under: Some(HostName::parse("b.example").unwrap()),
            ..HostFilter::default()
        };
        for (after, start) in [
            (None, "example.b-~"),
            (Some("a.example"), "example.b-~"),
            (Some("b.example"), "example.b."),
            (Some("*.b.example"), "example.b.*."),
        ] {
            let after = after.map(|text| HostPattern::parse(text).unwrap());
            let list = hosts(&filter, after.as_ref(), 9);
            let [Value::Text(first), Value::Number(9), Value::Text(end)] = &list.values[..] else {
                panic!("it has other values");
            };
            assert_eq!((&**first, &**end), (start, "example.b/"));
        }
    }
}
