use super::*;

fn patterns(names: &[&str]) -> Vec<HostPattern> {
    names
        .iter()
        .map(|name| HostPattern::parse(name).unwrap())
        .collect()
}

fn keys(charges: &[Charge]) -> Vec<&str> {
    charges.iter().map(|charge| charge.key.as_str()).collect()
}

#[test]
fn lets_encrypt_exempts_renewals() {
    let names = patterns(&["a.example.com", "*.example.com", "b.co.uk"]);
    let quotas = Quotas::letsencrypt();
    let first = quotas.charges(Kind::First, &names);
    let set = &first[3].key;
    assert_eq!(
        keys(&first),
        ["orders", "domain/b.co.uk", "domain/example.com", set]
    );
    assert!(set.starts_with("names/") && set.len() == 38, "{set}");
    assert_eq!(keys(&quotas.charges(Kind::Renewal, &names)), [set]);
    assert_eq!(quotas.charges(Kind::Replaces, &names), []);
}

#[test]
fn another_ca_counts_what_its_configuration_says() {
    let names = patterns(&["a.example.com"]);
    let quotas = Quotas {
        orders: Limit::new(10, 60),
        ..Quotas::default()
    };
    assert_eq!(keys(&quotas.charges(Kind::Replaces, &names)), ["orders"]);
    assert_eq!(quotas.failure(&names[0]), None);
    assert_eq!(Quotas::default().charges(Kind::First, &names), []);
}

#[test]
fn the_set_of_names_has_no_order() {
    let one = patterns(&["b.example", "a.example"]);
    let other = patterns(&["a.example", "b.example", "a.example"]);
    assert_eq!(set_of(&one), set_of(&other));
    assert_ne!(set_of(&one), set_of(&one[..1]));
}

#[test]
fn a_429_closes_the_limit_that_it_names() {
    let names = patterns(&["a.example.com", "b.example.com", "*.c.example"]);
    let quotas = Quotas::letsencrypt();
    let set = format!("names/{}", set_of(&names));
    for (detail, closed) in [
        (
            "too many new orders (300) from this account in the last 3h0m0s, retry after 2026-11-22 10:00:00 UTC",
            vec!["orders"],
        ),
        (
            "too many certificates (50) already issued for \"example.com\" in the last 168h0m0s, retry after …",
            vec!["domain/example.com"],
        ),
        (
            "too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s, retry after …",
            vec![set.as_str()],
        ),
        (
            "too many failed authorizations (5) for \"b.example.com\" in the last 1h0m0s, retry after …",
            vec!["failed/b.example.com"],
        ),
        (
            "too many failed authorizations (5) for \"c.example\" in the last 1h0m0s, retry after …",
            vec!["failed/*.c.example"],
        ),
        (
            "too many certificates (50) already issued for \"other.example\" in the last 168h0m0s",
            vec!["orders"],
        ),
        ("slow down", vec!["orders"]),
    ] {
        assert_eq!(keys(&quotas.closed_by(detail, &names)), closed, "{detail}");
    }
}
