//! Tests which `[acme]` is refused.

use super::*;

/// `[acme]` with what must be there, in lines 3 to 5.
const ACME: &str = "[acme]\nagree = true\ncas = [\"letsencrypt\"]\n";

#[test]
fn a_wrong_key_of_acme_is_named_with_its_line() {
    for (lines, expected) in WRONG {
        let error = refusal(&format!("{MINIMAL}{ACME}{lines}\n"));
        assert!(
            error.starts_with("/etc/sekisho/sekisho.toml:") && error.contains(expected),
            "{lines}: {error}"
        );
    }
}

#[test]
fn acme_needs_a_catalog_agreement_and_a_ca() {
    for url in ["files:/{host}", "https://h/{host}", "redis://h"] {
        let text = MINIMAL.replace("sqlite:a.db", url) + ACME;
        let error = refusal(&text);
        assert!(
            error.contains(".toml:3: [acme]: needs a store that this server writes"),
            "{error}"
        );
    }
    for (section, expected) in [
        (
            "cas = [\"zerossl\"]",
            ".toml:3: [acme] agree: required: you agree",
        ),
        (
            "cas = [\"zerossl\"]\nagree = false",
            ".toml:5: [acme] agree: required",
        ),
        (
            "agree = true",
            ".toml:3: [acme] cas: is missing; write cas = [\"letsencrypt\"]",
        ),
        ("agree = true\ncas = []", ".toml:5: [acme] cas: is missing"),
        (
            "agree = true\ncas = [\"x\"]\n[acme.ca.x]\ndir = 1",
            ".toml:7: [acme] ca.x.dir: unknown key `dir`; known here: directory, ca",
        ),
        (
            "agree = true\ncas = [\n\"letsencrypt\",\n\"lets-encrypt\"]\n[acme.ca.internal]\n\
             directory = \"https://ca\"",
            ".toml:7: [acme] cas[1]: \"lets-encrypt\" is no known CA; write one of letsencrypt, \
             letsencrypt-staging, zerossl, google, internal, or describe it in [acme.ca.NAME]",
        ),
    ] {
        let error = refusal(&format!("{MINIMAL}[acme]\n{section}\n"));
        assert!(error.contains(expected), "{section}: {error}");
    }
}

#[test]
fn a_wrong_secret_of_acme_is_not_repeated() {
    for lines in [
        "[acme.ca.zerossl]\neab_id = \"i\"\neab_key = \"c2VjcmV0\"",
        "[acme.dns.\"a.example\"]\nrfc2136 = \"192.0.2.1\"\ntsig = \"hmac-sha256:k:c2VjcmV0\"",
        "[acme.dns.\"a.example\"]\nwebhook = \"https://h\"\nuser = \"u\"\npassword = \"c2VjcmV0\"",
    ] {
        let error = refusal(&format!("{MINIMAL}{ACME}{lines}\n"));
        assert!(
            error.contains("this is no source of a secret") && !error.contains("c2VjcmV0"),
            "{error}"
        );
    }
}

/// Lines behind [`ACME`], and what is said of them.
const WRONG: &[(&str, &str)] = &[
    (
        "contacts = []",
        ":6: [acme] contacts: unknown key `contacts`; did you mean `contact`?",
    ),
    (
        "contact = [\"ops@example.com\"]",
        ":6: [acme] contact[0]: \"ops@example.com\" is no mailto: URI; write \"mailto:",
    ),
    (
        "contact = [\"mailto:a@b.example\", \"mailto:a@b?subject=x\"]",
        ":6: [acme] contact[1]: ",
    ),
    (
        "first_access = \"all\"",
        ":6: [acme] first_access: \"all\"; write \"hosts\", \"ask\" or \"off\"",
    ),
    (
        "first_access = \"ask\"",
        ":6: [acme] first_access: \"ask\" needs ask = \"URL\"",
    ),
    (
        "ask = \"127.0.0.1:9000\"",
        ":6: [acme] ask: \"127.0.0.1:9000\" is no http:// or https:// URL",
    ),
    (
        "ask_ca = \"ca.pem\"",
        ":6: [acme] ask_ca: only together with ask",
    ),
    (
        "addresses = [\"192.0.2.1:443\"]",
        ":6: [acme] addresses[0]: \"192.0.2.1:443\" is no IP address",
    ),
    (
        "allow = [\"*.example\",\n\"a.*.example\"]",
        ":7: [acme] allow[1]: \"a.*.example\": ",
    ),
    ("deny = [\"\"]", ":6: [acme] deny[0]: "),
    (
        "resolvers = [\"dns.example\"]",
        ":6: [acme] resolvers[0]: \"dns.example\" is no address",
    ),
    (
        "key = \"rsa1024\"",
        ":6: [acme] key: \"rsa1024\" is no key type: p256",
    ),
    (
        "solvers = [\"dns\"]",
        ":6: [acme] solvers[0]: \"dns\" is no kind of challenge; write tls-alpn-01, http-01",
    ),
    ("solvers = []", ":6: [acme] solvers: must not be empty"),
    (
        "solvers = [\"dns-01\", \"dns-01\"]",
        ":6: [acme] solvers: \"dns-01\" stands twice",
    ),
    (
        "waiting = 0",
        ":6: [acme] waiting: 0 is out of range; write 1 to 1000000",
    ),
    (
        "handshake_timeout = \"10m\"",
        ":6: [acme] handshake_timeout: 10m is out of range; write 1s to 5m",
    ),
    (
        "orders = 2000",
        ":6: [acme] orders: 2000 is out of range; write 1 to 1024",
    ),
    (
        "[acme.ca.Internal]\ndirectory = \"https://ca\"",
        ":6: [acme] ca.Internal: \"Internal\" is no name of a CA",
    ),
    (
        "[acme.ca.internal]\nca = \"ca.pem\"",
        ":6: [acme] ca.internal.directory: is missing; write directory = ",
    ),
    (
        "[acme.ca.internal]\ndirectory = \"http://ca\"",
        ":7: [acme] ca.internal.directory: \"http://ca\" is no https:// URL",
    ),
    (
        "[acme.ca.google]\ndirectory = \"https://ca\"",
        ":7: [acme] ca.google.directory: google is built in",
    ),
    (
        "[acme.ca.google]\nprofiles = \"ca.pem\"",
        ":7: [acme] ca.google.profiles: unknown key `profiles`; did you mean `profile`?",
    ),
    (
        "[acme.ca.google]\neab_id = \"i\"",
        ":7: [acme] ca.google.eab_id: only together with eab_key",
    ),
    (
        "[acme.ca.google]\neab_key = \"env:K\"",
        ":7: [acme] ca.google.eab_key: only together with eab_id",
    ),
    (
        "[acme.ca.google]\nprofile = \"\"",
        ":7: [acme] ca.google.profile: must not be empty",
    ),
    (
        "[acme.ca.google]\nquotas = { orders = \"300/3h\" }",
        ":7: [acme] ca.google.quotas.orders: \"300/3h\" is no limit; write a count",
    ),
    (
        "[acme.ca.google.quotas]\ndomains = \"0 per 7d\"",
        ":7: [acme] ca.google.quotas.domains: \"0 per 7d\" is no limit",
    ),
    (
        "[acme.dns.\"*.example\"]\nexec = \"/a\"",
        ":6: [acme] dns.\"*.example\": \"*.example\" is no zone",
    ),
    (
        "[acme.dns.\"A.example\"]\nexec = \"/a\"",
        ":6: [acme] dns.\"A.example\": write this zone as \"a.example\"",
    ),
    (
        "[acme.dns.\"a.example\"]",
        ":6: [acme] dns.\"a.example\": write exactly one of exec, webhook, rfc2136 and serve",
    ),
    (
        "[acme.dns.\"a.example\"]\nexec = \"/a\"\nserve = [\"0.0.0.0:53\"]",
        ":7: [acme] dns.\"a.example\".exec: not together with serve; leave the key out",
    ),
    (
        "[acme.dns.\"a.example\"]\nserve = []",
        ":7: [acme] dns.\"a.example\".serve: must not be empty; write serve =",
    ),
    (
        "[acme.dns.\"a.example\"]\nserve = [\"localhost:53\"]",
        ":7: [acme] dns.\"a.example\".serve: \"localhost:53\" is no address",
    ),
    (
        "[acme.dns.\"a.example\"]\nserve = [\"0.0.0.0:53\"]\ncheck = false",
        ":8: [acme] dns.\"a.example\".check: not together with serve",
    ),
    (
        "[acme.dns.\"a.example\"]\nserve = [\"0.0.0.0:53\"]\nname_servers = [\"ns.a.example\"]",
        ":8: [acme] dns.\"a.example\".name_servers: \"ns.a.example\" is no address",
    ),
    (
        "[acme.dns.\"a.example\"]\nserve = [\"0.0.0.0:53\"]\ntsig = \"file:key\"",
        ":8: [acme] dns.\"a.example\".tsig: only together with rfc2136; leave the key out",
    ),
    (
        "[acme.dns.\"a.example\"]\nexec = \"/a\"\nname_servers = [\"192.0.2.1\"]",
        ":8: [acme] dns.\"a.example\".name_servers: only together with serve",
    ),
    (
        "[acme.dns.\"a.example\"]\nserve = [\"0.0.0.0:53\"]\n[acme.dns.\"b.example\"]\nserve = [\"[::]:53\"]",
        ":9: [acme] dns.\"b.example\".serve: another zone is served already",
    ),
    (
        "[acme.dns.\"a.example\"]\nexec = \"/a\"\nwebhook = \"https://h\"",
        ":6: [acme] dns.\"a.example\": write exactly one of",
    ),
    (
        "[acme.dns.\"a.example\"]\nexec = \"\"",
        ":7: [acme] dns.\"a.example\".exec: the path must not be empty",
    ),
    (
        "[acme.dns.\"a.example\"]\nexec = \"/a\"\ntsig = \"file:k\"",
        ":8: [acme] dns.\"a.example\".tsig: only together with rfc2136",
    ),
    (
        "[acme.dns.\"a.example\"]\nexec = \"/a\"\nuser = \"u\"",
        ":8: [acme] dns.\"a.example\".user: only together with webhook",
    ),
    (
        "[acme.dns.\"a.example\"]\nwebhook = \"https://h\"\nuser = \"u\"",
        ":8: [acme] dns.\"a.example\".user: only together with password",
    ),
    (
        "[acme.dns.\"a.example\"]\nrfc2136 = \"192.0.2.53\"",
        ":6: [acme] dns.\"a.example\".tsig: is missing",
    ),
    (
        "[acme.dns.\"a.example\"]\nrfc2136 = \"ns.example\"\ntsig = \"file:k\"",
        ":7: [acme] dns.\"a.example\".rfc2136: \"ns.example\" is no address",
    ),
];
