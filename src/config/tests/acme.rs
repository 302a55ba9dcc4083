//! Tests what `[acme]` gives.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

use sekisho_issuance::acme::{ChallengeType, KeyKind};
use sekisho_issuance::admission::FirstAccess;
use sekisho_issuance::quota::{Limit, Quotas};
use sekisho_issuance::settings::Settings;
use sekisho_issuance::solver::dns01::Writer;

use super::*;

const SMALL: &str = "[acme]\ncas = [\"letsencrypt\"]\nagree = true\n";

fn issuance(text: &str) -> Settings {
    let config = parse(&format!("{MINIMAL}{text}")).unwrap();
    config.issuance().unwrap().unwrap()
}

#[test]
fn acme_is_off_unless_its_section_is_there() {
    assert!(parse(MINIMAL).unwrap().issuance().unwrap().is_none());
}

#[test]
fn a_small_section_has_the_defaults() {
    let settings = issuance(SMALL);
    let [ca] = &*settings.cas else {
        panic!("{settings:?}")
    };
    assert_eq!(ca.ca.name, "letsencrypt");
    assert_eq!(ca.quotas, Quotas::letsencrypt());
    assert!(settings.agree && settings.admission.caa && !settings.reuse_key);
    assert_eq!(settings.admission.first_access, FirstAccess::Hosts);
    assert_eq!(settings.key, KeyKind::P256);
    assert_eq!(settings.orders, 64);
    let solvers = settings.solvers.iter().map(|kind| kind.as_str());
    assert!(solvers.eq(["tls-alpn-01", "http-01", "dns-01"]));
}

#[test]
fn all_keys_reach_the_settings() {
    let text = "[acme]\ncas = [\"internal\", \"letsencrypt\"]\nagree = true\n\
        contact = [\"mailto:ops@example.com\"]\nfirst_access = \"ask\"\n\
        ask = \"https://ask.example/\"\nask_ca = \"ask.pem\"\naddresses = [\"192.0.2.1\", \"2001:db8::1\"]\n\
        caa = false\nallow = [\"*.example.com\"]\ndeny = [\"a.example.com\"]\n\
        resolvers = [\"192.0.2.53\", \"[::1]:5353\"]\nkey = \"p384\"\nreuse_key = true\n\
        solvers = [\"dns-01\"]\nwaiting = 7\nhandshake_timeout = \"9s\"\norders = 3\n\
        [acme.ca.internal]\ndirectory = \"https://ca.internal/directory\"\nca = \"ca.pem\"\n\
        profile = \"short\"\nchain = \"Root\"\n\
        quotas = { orders = \"300 per 3h\", failures = \"5 per 1h\" }\n";
    let config = parse(&format!("{MINIMAL}{text}")).unwrap();
    let waits = CertificateWaits {
        waiting: 7,
        time: Duration::from_secs(9),
    };
    assert_eq!(config.limits.certificates, waits);
    let settings = config.issuance().unwrap().unwrap();
    let names: Vec<_> = settings.cas.iter().map(|ca| &*ca.ca.name).collect();
    assert_eq!(names, ["internal", "letsencrypt"]);
    let internal = &settings.cas[0];
    assert_eq!(internal.ca.directory, "https://ca.internal/directory");
    assert_eq!(internal.ca.root, Some("/etc/sekisho/ca.pem".into()));
    assert_eq!(internal.profile.as_deref(), Some("short"));
    assert_eq!(internal.chain.as_deref(), Some("Root"));
    let quotas = Quotas {
        orders: Limit::new(300, 3 * 3600),
        failures: Limit::new(5, 3600),
        ..Quotas::default()
    };
    assert_eq!(internal.quotas, quotas);
    assert_eq!(settings.contact, ["mailto:ops@example.com"]);
    let admission = &settings.admission;
    assert_eq!(admission.first_access, FirstAccess::Ask);
    assert_eq!(admission.ask.as_deref(), Some("https://ask.example/"));
    assert_eq!(admission.ask_ca, Some("/etc/sekisho/ask.pem".into()));
    assert_eq!(admission.addresses.len(), 2);
    assert!(!admission.caa);
    assert_eq!(admission.allow[0].as_str(), "*.example.com");
    assert_eq!(admission.deny[0].as_str(), "a.example.com");
    let resolvers = ["192.0.2.53:53", "[::1]:5353"].map(|text| text.parse().unwrap());
    assert_eq!(admission.resolvers, resolvers);
    assert_eq!((settings.key, settings.reuse_key), (KeyKind::P384, true));
    assert_eq!(settings.solvers, [ChallengeType::Dns01]);
    assert_eq!(settings.orders, 3);
}

#[test]
fn quotas_of_lets_encrypt_keep_its_exemptions() {
    let text = format!("{SMALL}[acme.ca.letsencrypt]\nquotas = {{ domains = \"500 per 7d\" }}\n");
    let quotas = Quotas {
        domains: Limit::new(500, 7 * 86_400),
        exempts_renewals: true,
        ..Quotas::default()
    };
    assert_eq!(issuance(&text).cas[0].quotas, quotas);
}

#[test]
fn a_zone_is_served_with_its_name_servers() {
    let serve = |keys: &str| {
        let text = format!("{MINIMAL}{SMALL}[acme.dns.\"dcv.example\"]\n{keys}");
        let config = parse(&text).unwrap();
        let settings = config.issuance().unwrap().unwrap();
        assert_eq!(settings.served.unwrap().zone.as_str(), "dcv.example");
        assert!(settings.dns.is_empty());
        config.acme.unwrap().serve.unwrap()
    };
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let own = serve("serve = [\"0.0.0.0:53\", \"192.0.2.1\", \"[2001:db8::1]:5353\"]\n");
    let addresses = ["0.0.0.0:53", "192.0.2.1:53", "[2001:db8::1]:5353"];
    assert_eq!(own.addresses, addresses.map(|text| text.parse().unwrap()));
    assert_eq!(own.name_servers, [ip("192.0.2.1"), ip("2001:db8::1")]);
    assert!(serve("serve = [\"0.0.0.0:53\"]\n").name_servers.is_empty());
    let named = "serve = [\"0.0.0.0:53\"]\nname_servers = [\"192.0.2.1\", \"192.0.2.2\"]\n";
    let expected = [ip("192.0.2.1"), ip("192.0.2.2")];
    assert_eq!(serve(named).name_servers, expected);
}

/// Writes a configuration with secrets in files, and returns its folder.
fn with_secrets(files: &[(&str, &str, u32)]) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, mode) in files {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode)).unwrap();
    }
    let file = folder.path().join("sekisho.toml");
    let text = format!(
        "{MINIMAL}{SMALL}[acme.ca.letsencrypt]\neab_id = \"me\"\neab_key = \"file:eab\"\n\
         [acme.dns.\"a.example\"]\nrfc2136 = \"192.0.2.53\"\ntsig = \"file:tsig\"\n\
         [acme.dns.\"b.example\"]\nexec = \"hook\"\n\
         [acme.dns.\"c.example\"]\nwebhook = \"https://hook.example\"\nuser = \"u\"\n\
         password = \"env:SEKISHO_TEST_UNSET\"\n"
    );
    let text = format!("listen.admin_token = \"env:ADMIN\"\n{text}");
    fs::write(&file, text).unwrap();
    let config = Config::load(Some(&file)).unwrap();
    (folder, config)
}

#[test]
fn secrets_are_read_when_an_issuer_is_built() {
    let key = "hmac-sha512:acme:c2VjcmV0\n";
    let refused = |files: &[(&str, &str, u32)]| {
        let (_folder, config) = with_secrets(files);
        config.issuance().unwrap_err().to_string()
    };
    for (files, expected) in [
        (&[][..], ":9: [acme] ca.letsencrypt.eab_key: "),
        (
            &[("eab", "a2V5", 0o644)],
            "eab: others may read it (mode 644); run chmod 600",
        ),
        (&[("eab", "\n", 0o600)], "eab: it is empty"),
        (&[("eab", "c2VjcmV0+", 0o600)], "eab: it is not base64url"),
        (
            &[("eab", "a2V5", 0o600), ("tsig", "c2VjcmV0", 0o600)],
            ":12: [acme] dns.\"a.example\".tsig: ",
        ),
        (
            &[("eab", "a2V5", 0o600), ("tsig", key, 0o600)],
            ":18: [acme] dns.\"c.example\".password: SEKISHO_TEST_UNSET: environment variable not",
        ),
    ] {
        let error = refused(files);
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}

#[test]
fn secrets_of_acme_are_kept_from_sites_and_programs() {
    let (folder, config) = with_secrets(&[]);
    let variables = ["ADMIN", "SEKISHO_TEST_UNSET"];
    assert_eq!(config.secret_variables(), variables);
    let own = format!("{:?}", config.own_files());
    for name in ["eab", "tsig"] {
        let file = folder.path().join(name).display().to_string();
        assert!(own.contains(&file), "{own}");
    }
    let text = format!(
        "listen.admin_token = \"env:ADMIN\"\n{MINIMAL}{SMALL}\
         [acme.dns.\"b.example\"]\nexec = \"hook\"\n"
    );
    let settings = parse(&text).unwrap().issuance().unwrap().unwrap();
    let Writer::Exec(exec) = &settings.dns[0].solver.writer else {
        panic!("{settings:?}")
    };
    assert_eq!(exec.program, Path::new("/etc/sekisho/hook"));
    assert_eq!(exec.hidden, ["ADMIN"]);
}
