use super::*;

static ID: HeaderValue = HeaderValue::from_static("0123456789abcdef");

fn filled(text: &str, fill: &Fill<'_>) -> Option<String> {
    let value = FieldValue::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
    let value = value.fill(fill)?;
    Some(value.to_str().unwrap().to_owned())
}

fn of_tenant(tenant: &str) -> Fill<'_> {
    Fill {
        host: "a.example",
        client: Some("192.0.2.7".parse().unwrap()),
        tenant,
        id: Some(&ID),
    }
}

#[test]
fn fills_each_placeholder() {
    let fill = of_tenant("anna");
    for (text, expected) in [
        ("plain text", "plain text"),
        ("{host}", "a.example"),
        ("{client}", "192.0.2.7"),
        ("for={client};host={host}", "for=192.0.2.7;host=a.example"),
        ("{tenant}-{id}", "anna-0123456789abcdef"),
        ("{label.plan_2}x", "x"),
        ("a {label.x}", "a"),
        ("{{host}}", "{host}"),
        ("{{{host}}}", "{a.example}"),
        ("{{", "{"),
        ("a}}b", "a}b"),
        ("{{\"a\":1}}", "{\"a\":1}"),
    ] {
        assert_eq!(filled(text, &fill).as_deref(), Some(expected), "{text}");
    }
    let hidden = Fill {
        client: None,
        id: None,
        ..fill
    };
    assert_eq!(filled("a{client}{id}", &hidden).as_deref(), Some("a"));
}

#[test]
fn leaves_out_what_is_no_visible_ascii() {
    let long = "é".repeat(64);
    for (tenant, text) in [
        ("a\r\nX-Evil: 1", "{tenant}"),
        ("a\nb", "before {tenant} behind"),
        ("a\0b", "{tenant}"),
        ("a\u{7f}b", "{tenant}"),
        (long.as_str(), "{tenant}"),
        (long.as_str(), "of {tenant}"),
        ("", "{tenant}"),
        ("  ", "{tenant}"),
        ("anna", "{label.x}"),
    ] {
        assert_eq!(filled(text, &of_tenant(tenant)), None, "{tenant:?} {text}");
    }
    let hidden = Fill {
        client: None,
        ..of_tenant("anna")
    };
    assert_eq!(filled("{client}", &hidden), None);
    let unreadable = HeaderValue::from_bytes(b"\xff").unwrap();
    let unreadable = Fill {
        id: Some(&unreadable),
        ..of_tenant("anna")
    };
    assert_eq!(filled("{id}", &unreadable), None);
}

#[test]
fn a_value_that_grows_too_long_is_left_out() {
    let fill = of_tenant("anna");
    let most = MAX_VALUE / fill.host.len();
    assert!(filled(&"{host}".repeat(most), &fill).is_some());
    assert_eq!(filled(&"{host}".repeat(most + 1), &fill), None);
}

#[test]
fn the_longest_value_is_known_before_a_request() {
    let host = "a".repeat(LONGEST);
    let fill = Fill {
        host: &host,
        ..of_tenant("anna")
    };
    for text in ["plain", "{host}", "of {host}, {{{host}}}", "{{host}}"] {
        let filled = filled(text, &fill).unwrap();
        let longest = FieldValue::parse(text).unwrap().longest();
        assert!(longest >= filled.len(), "{text}");
        assert!(longest <= filled.len() + text.len(), "{text}");
    }
}

#[test]
fn braces_that_are_no_placeholder_are_refused() {
    for (text, expected) in [
        ("{nobody}", "{nobody} is no placeholder; there are {host},"),
        ("{}", "{} is no placeholder"),
        ("{Host}", "{Host} is no placeholder"),
        ("{label.}", "{label.} is no placeholder"),
        ("{label.A}", "{label.A} is no placeholder"),
        ("{host", "has a { without its }; {{ is a brace"),
        ("host}", "has a } without its {; }} is a brace"),
        ("{{host}", "has a } without its {"),
        ("{a{host}}", "{a{host} is no placeholder"),
    ] {
        let wrong = FieldValue::parse(text).expect_err(text);
        assert!(wrong.problem().contains(expected), "{text}: {wrong}");
    }
    let long = format!("{{label.{}}}", "a".repeat(MAX_LABEL + 1));
    FieldValue::parse(&long).unwrap_err();
}
