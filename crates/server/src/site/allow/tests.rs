use super::*;

fn allowed(entries: &[&str]) -> Result<Allowed, (usize, String)> {
    Allowed::parse(entries, Path::new("/etc/sekisho"))
}

#[test]
fn a_root_lies_in_a_folder_of_the_list() {
    let list = allowed(&["/srv", "/home/sites/.", "www", "10.0.0.0/8"]).unwrap();
    for root in [
        "/srv",
        "/srv/",
        "/srv/www/{host}",
        "//srv/./a",
        "/home/sites/a",
        "/etc/sekisho/www/a",
    ] {
        assert!(list.folder(Path::new(root), None), "{root}");
    }
    for root in [
        "/",
        "/etc/sekisho",
        "/srvx",
        "/srv/../etc",
        "/srv/a/../b",
        "/home/sitesx",
        "/{host}/a",
        "srv/a",
    ] {
        assert!(!list.folder(Path::new(root), None), "{root}");
    }
    assert!(!allowed(&[]).unwrap().folder(Path::new("/srv"), None));
}

#[test]
fn an_entry_with_a_tenant_is_that_tenants_folder() {
    let list = allowed(&["/srv/www/{tenant}/sites", "/data/c-{tenant}.d"]).unwrap();
    for (root, tenant, expected) in [
        ("/srv/www/acme/sites", Some("acme"), true),
        ("/srv/www/acme/sites/{host}", Some("acme"), true),
        ("/srv/www/acme/sites/a", None, true),
        ("/srv/www/acme/sites/a", Some("other"), false),
        ("/srv/www/acme/sites/a", Some(""), false),
        ("/srv/www/acme/private", Some("acme"), false),
        ("/srv/www/acme", Some("acme"), false),
        ("/srv/www/{host}/sites", None, false),
        ("/srv/www//sites", Some(""), false),
        ("/srv/www/acme/sites/../a", Some("acme"), false),
        ("/data/c-acme.d/a", Some("acme"), true),
        ("/data/c-acme.d/a", Some("cme"), false),
        ("/data/c-.d/a", Some(""), false),
        ("/data/c.d/a", None, false),
    ] {
        let tenant = tenant.map(|name| Tenant::parse(name).unwrap());
        let holds = list.folder(Path::new(root), tenant.as_ref());
        assert_eq!(holds, expected, "{root} {tenant:?}");
    }
}

#[test]
fn the_longest_entry_that_holds_a_root_is_the_operators_part() {
    let list = allowed(&[
        "/srv",
        "/srv/www/{tenant}",
        "/srv/www",
        "/srv/www/{tenant}/sites/live",
        "/home/c-{tenant}.d/public_html",
    ]);
    let list = list.unwrap();
    for (root, part, apart) in [
        ("/srv/www/acme/app", Some("/srv/www/acme"), true),
        // The tenant owns what lies below its folder.
        ("/srv/www/acme/sites/live/a", Some("/srv/www/acme"), true),
        ("/srv/www/acme/sites/live", Some("/srv/www/acme"), true),
        ("/home/c-acme.d/public_html/a", Some("/home/c-acme.d"), true),
        ("/home/c-acme.d/private", None, false),
        ("/srv/www/acme", Some("/srv/www/acme"), true),
        ("/srv/www", Some("/srv/www"), false),
        ("/srv/other/app", Some("/srv"), false),
        ("/srv/www/../etc", None, false),
        ("/etc", None, false),
    ] {
        let root = Path::new(root);
        assert_eq!(
            list.part_of(root).as_deref(),
            part.map(Path::new),
            "{root:?}"
        );
        assert_eq!(list.keeps_apart(root), apart, "{root:?}");
    }
}

#[test]
fn a_socket_lies_in_a_folder_of_sockets() {
    let list = allowed(&["unix:/run/apps", "/srv"]).unwrap();
    assert!(list.socket(Path::new("/run/apps/a/b.sock"), None));
    for socket in [
        "/run/docker.sock",
        "/run/apps/../docker.sock",
        "/srv/a.sock",
    ] {
        assert!(!list.socket(Path::new(socket), None), "{socket}");
    }
    assert!(!list.folder(Path::new("/run/apps"), None));
}

#[test]
fn a_socket_of_a_tenant_s_entry_is_the_tenants() {
    let list = allowed(&["unix:/run/php/{tenant}.sock", "unix:/run/apps/{tenant}"]).unwrap();
    let [acme, other] = ["acme", "other"].map(|name| Tenant::parse(name).unwrap());
    for (socket, part) in [
        ("/run/php/acme.sock", Some("/run/php/acme.sock")),
        ("/run/apps/acme/a.sock", Some("/run/apps/acme")),
        ("/run/php/other.sock", None),
        ("/run/php/acme", None),
        ("/run/apps/other/a.sock", None),
    ] {
        let found = list.part_of_socket(Path::new(socket), &acme);
        assert_eq!(found.as_deref(), part.map(Path::new), "{socket}");
        assert_eq!(list.socket(Path::new(socket), Some(&acme)), part.is_some());
    }
    assert!(list.socket(Path::new("/run/php/other.sock"), Some(&other)));
    assert!(list.socket(Path::new("/run/php/other.sock"), None));
}

#[test]
fn a_program_lies_in_a_folder_of_programs() {
    let list = allowed(&["cgi:/srv/cgi", "cgi:/srv/cgi/git/.", "cgi:own", "/srv/www"]).unwrap();
    let held = |path: &str| list.programs_with(Path::new(path)).and_then(Path::to_str);
    assert_eq!(held("/srv/cgi"), Some("/srv/cgi"));
    assert_eq!(held("/srv/cgi//a/b"), Some("/srv/cgi"));
    assert_eq!(held("/srv/cgi/git/b"), Some("/srv/cgi/git/."));
    assert_eq!(held("/etc/sekisho/own/a"), Some("/etc/sekisho/own"));
    for path in [
        "/srv",
        "/srv/cgix",
        "/srv/cgi/../www",
        "/srv/www/a",
        "srv/cgi",
    ] {
        assert_eq!(held(path), None, "{path}");
    }
    // Programs are no files to serve, nor are files programs.
    assert!(!list.folder(Path::new("/srv/cgi"), None));
    assert_eq!(list.programs().len(), 3);
    assert!(allowed(&["/srv"]).unwrap().programs().is_empty());
}

#[test]
fn an_entry_that_bounds_nothing_or_names_nothing_is_refused() {
    for (entry, wanted) in [
        ("/", "such as \"/srv\""),
        ("/proc/self", "such as \"/srv\""),
        ("/dev", "such as \"/srv\""),
        ("/srv/..", "`..`"),
        ("unix:/", "such as \"/srv\""),
        ("unix:", "must not be empty"),
        ("", "must not be empty"),
        ("/{tenant}", "in front of {tenant}"),
        ("/a-{tenant}/www", "in front of {tenant}"),
        ("/proc/{tenant}", "such as \"/srv\""),
        ("/srv/{host}", "braces other than one {tenant}"),
        ("/srv/{tenant}/{tenant}", "braces other than one {tenant}"),
        ("unix:/{tenant}", "in front of {tenant}"),
        ("unix:/run/{host}", "braces other than one {tenant}"),
        ("cgi:", "must not be empty"),
        ("cgi:/", "such as \"/srv\""),
        ("cgi:/sys/cgi", "such as \"/srv\""),
        ("cgi:/srv/../cgi", "`..`"),
        ("cgi:/srv/{tenant}/cgi", "run as the server's user"),
        ("10.0.0.0/33", "is no network"),
        ("10.0.0.1/8", "bits set"),
        ("300.0.0.1", "is no network"),
        ("10.0.0.0/8:", "write \"/srv\""),
        ("10.0.0.1:0", "write \"/srv\""),
        ("10.0.0.1:80-", "write \"/srv\""),
        ("10.0.0.1:90-80", "write \"/srv\""),
        ("10.0.0.1:65536", "write \"/srv\""),
        ("10.0.0.1:+80", "write \"/srv\""),
        ("[::1]80", "write \"/srv\""),
        ("[::1", "write \"/srv\""),
        ("app.example:80", "is no network"),
        ("http://10.0.0.1", "is no network"),
        ("[64:ff9b::a00:0]:80", "write the IPv4 network"),
    ] {
        let (index, problem) = allowed(&["/srv", entry]).unwrap_err();
        assert_eq!(index, 1);
        assert!(problem.contains(wanted), "{entry}: {problem}");
    }
}

fn judge(entries: &[&str], own: &OwnAddresses, address: &str) -> bool {
    let list = allowed(entries).unwrap();
    list.address(address.parse().unwrap(), own)
}

#[test]
fn an_address_lies_in_a_network_with_its_port() {
    let none = OwnAddresses::default();
    for (entry, address, expected) in [
        ("127.0.0.0/8", "127.0.0.1:3000", true),
        ("127.0.0.0/8", "128.0.0.1:3000", false),
        ("127.0.0.1", "127.0.0.1:1", true),
        ("127.0.0.1:3000-3999", "127.0.0.1:3000", true),
        ("127.0.0.1:3000-3999", "127.0.0.1:3999", true),
        ("127.0.0.1:3000-3999", "127.0.0.1:4000", false),
        ("10.0.0.0/8:80", "10.1.2.3:80", true),
        ("10.0.0.0/8:80", "10.1.2.3:81", false),
        ("[::1]:8080", "[::1]:8080", true),
        ("[::1]:8080", "[::1]:8081", false),
        ("[fd00::/8]:80-90", "[fd00::1]:85", true),
        ("fd00::/8", "[fd00::1]:1", true),
        ("::1", "[::1]:1", true),
        // The IPv4 address counts.
        ("10.0.0.0/8", "[::ffff:10.0.0.1]:80", true),
        ("10.0.0.0/8", "[64:ff9b::a00:1]:80", true),
        ("::/0", "[::ffff:10.0.0.1]:80", false),
        ("::/0", "[64:ff9b::a00:1]:80", false),
        ("::ffff:10.0.0.0/104", "10.0.0.1:80", true),
        ("/srv", "10.0.0.1:80", false),
    ] {
        assert_eq!(
            judge(&[entry], &none, address),
            expected,
            "{entry} {address}"
        );
    }
}

#[test]
fn special_addresses_must_be_named_with_their_port() {
    let none = OwnAddresses::default();
    let all = ["0.0.0.0/0", "::/0"];
    for address in [
        "169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "169.254.0.1:1",
        "[fe80::1]:80",
        "[fd00:ec2::23]:80",
        "[fd00:ec2::254]:80",
        "[fd20:ce::254]:80",
        "100.100.100.200:80",
        "192.0.0.192:80",
        "168.63.129.16:80",
        "0.0.0.0:80",
        "0.1.2.3:80",
        "[::]:80",
        "255.255.255.255:80",
        "224.0.0.1:80",
        "[ff02::1]:80",
    ] {
        assert!(!judge(&all, &none, address), "{address}");
    }
    let metadata = "169.254.169.254:80";
    assert!(judge(&[metadata], &none, metadata));
    assert!(judge(&[metadata], &none, "[::ffff:169.254.169.254]:80"));
    assert!(judge(&[metadata, "0.0.0.0/0"], &none, metadata));
    for entry in [
        "169.254.169.254",
        "169.254.169.254:80-81",
        "169.254.169.254/31:80",
    ] {
        assert!(!judge(&[entry], &none, metadata), "{entry}");
    }
}

#[test]
fn own_addresses_must_be_named_with_their_port() {
    let listener = |text: &str| OwnAddress::Listener(text.parse().unwrap());
    let own = OwnAddresses::new([
        listener("0.0.0.0:443"),
        listener("127.0.0.1:9443"),
        listener("[::]:9090"),
        listener("[::ffff:0.0.0.0]:9091"),
        OwnAddress::Server("10.0.0.9".into(), 8443),
        OwnAddress::Server("::1".into(), 53),
        OwnAddress::Server("db.invalid".into(), 8444),
        OwnAddress::Port(5432),
        OwnAddress::Socket("/run/apps/admin.sock".into()),
    ]);
    own.bind(["127.0.0.1:40000".parse().unwrap()]);
    let all = ["0.0.0.0/0", "::/0"];
    for (address, expected) in [
        ("127.0.0.1:443", false),
        ("127.9.9.9:443", false),
        ("[::ffff:127.0.0.1]:443", false),
        // The listener is bound for IPv4 alone.
        ("[::1]:443", true),
        ("192.0.2.1:443", true),
        ("127.0.0.1:9443", false),
        ("127.0.0.2:9443", true),
        // A listener on all addresses of IPv6 may accept IPv4.
        ("[::1]:9090", false),
        ("127.0.0.1:9090", false),
        ("[::ffff:127.0.0.1]:9090", false),
        ("192.0.2.1:9090", true),
        ("127.0.0.1:9091", false),
        ("127.0.0.1:40000", false),
        ("10.0.0.9:8443", false),
        ("10.0.0.9:8444", false),
        ("10.0.0.8:8443", true),
        // A server on this machine has all of the machine's addresses.
        ("127.0.0.1:53", false),
        // The name was never resolved.
        ("10.0.0.8:8444", false),
        // Stores may be at any address.
        ("192.0.2.1:5432", false),
    ] {
        assert_eq!(judge(&all, &own, address), expected, "{address}");
    }
    for named in ["127.0.0.1:9443", "192.0.2.1:5432"] {
        assert!(judge(&[named], &own, named));
    }
    assert!(own.is_socket(Path::new("/run/apps/admin.sock")));
}

#[test]
fn servers_that_are_no_names_are_judged_by_text() {
    let list = allowed(&["127.0.0.1:3000", "10.0.0.0/8", "unix:/run/apps"]).unwrap();
    let own = OwnAddresses::new([
        OwnAddress::Socket("/run/apps/admin.sock".into()),
        OwnAddress::Server("db.invalid".into(), 5433),
        OwnAddress::Port(5432),
    ]);
    let refused = |url: &str, is_bound: bool| {
        let raw: crate::site::RawSite =
            serde_json::from_value(serde_json::json!({ "upstream": url })).unwrap();
        let site = raw.check(None).unwrap();
        let mut upstream = site.upstreams().next().unwrap().clone();
        upstream.is_bound = is_bound;
        let refused = list.refused(&upstream, None, &own);
        refused.map(ToString::to_string)
    };
    for url in [
        "http://127.0.0.1:3000",
        "http://app.example",
        "unix:/run/apps/a.sock",
        // The server's name has no answer so far: each connect is judged, no host.
        "http://10.0.0.8:5433",
    ] {
        assert_eq!(refused(url, true), None, "{url}");
    }
    for url in [
        "http://127.0.0.1:3001",
        "http://10.0.0.9:5432",
        "unix:/run/b.sock",
        "unix:/run/apps/admin.sock",
    ] {
        assert!(refused(url, true).is_some(), "{url}");
        assert_eq!(refused(url, false), None, "{url}");
    }
}
