use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};

use super::super::OwnAddress;
use super::super::template::Template;
use super::*;

fn upstream(is_bound: bool) -> Upstream {
    Upstream {
        servers: Box::default(),
        scheme: crate::site::Scheme::Unix,
        is_bound,
        options: None,
    }
}

#[test]
fn a_socket_is_judged_where_it_really_lies() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("apps")).unwrap();
    let _listeners = ["apps/a.sock", "apps/admin.sock", "b.sock"]
        .map(|name| UnixListener::bind(path(name)).unwrap());
    symlink(path("b.sock"), path("apps/b.sock")).unwrap();
    symlink(path("apps/a.sock"), path("apps/c.sock")).unwrap();
    symlink(path("apps/admin.sock"), path("apps/d.sock")).unwrap();
    let entry = format!("unix:{}", path("apps").display());
    let allowed = Allowed::parse(&[entry], Path::new("/")).unwrap();
    let own = OwnAddresses::new([OwnAddress::Socket(path("apps/admin.sock"))]);
    let guard = Guard::new(allowed, OwnFiles::default()).with_addresses(Arc::new(own));
    let tenant = Tenant::default();
    let whose = ("a.example", &tenant);
    let open = |name: &str, is_bound| {
        guard
            .open_socket(&upstream(is_bound), whose, &path(name))
            .unwrap()
    };
    for name in ["apps/a.sock", "apps/c.sock"] {
        let opened = open(name, true).expect(name);
        UnixStream::connect(opened.path()).expect(name);
    }
    for name in ["b.sock", "apps/b.sock", "apps/admin.sock", "apps/d.sock"] {
        assert!(open(name, true).is_none(), "{name}");
        assert!(open(name, false).is_some(), "{name}");
    }
    assert_eq!(guard.refused().upstreams.get(), 4);
    // A link that is swapped after it was opened leads nowhere else.
    let opened = open("apps/c.sock", true).expect("allowed");
    fs::remove_file(path("apps/c.sock")).unwrap();
    fs::remove_file(path("b.sock")).unwrap();
    symlink(path("b.sock"), path("apps/c.sock")).unwrap();
    UnixStream::connect(opened.path()).expect("the socket that was judged");
    assert!(
        guard
            .open_socket(&upstream(true), whose, &path("apps/e.sock"))
            .is_err()
    );
}

#[test]
fn a_link_leads_to_no_socket_of_another_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let _listeners = ["acme/a.sock", "other/b.sock"].map(|name| {
        fs::create_dir(path(name).parent().unwrap()).unwrap();
        UnixListener::bind(path(name)).unwrap()
    });
    symlink(path("other/b.sock"), path("acme/b.sock")).unwrap();
    symlink(path("other"), path("acme/other")).unwrap();
    symlink("a.sock", path("acme/c.sock")).unwrap();
    let entry = format!("unix:{}/{{tenant}}", folder.path().display());
    let allowed = Allowed::parse(&[entry], Path::new("/")).unwrap();
    let guard = Guard::new(allowed, OwnFiles::default());
    let tenant = Tenant::parse("acme").unwrap();
    let open = |name: &str| {
        let whose = ("a.example", &tenant);
        guard
            .open_socket(&upstream(true), whose, &path(name))
            .unwrap()
    };
    for (name, is_open) in [
        ("acme/a.sock", true),
        ("acme/c.sock", true),
        ("acme/b.sock", false),
        ("acme/other/b.sock", false),
        ("other/b.sock", false),
    ] {
        assert_eq!(open(name).is_some(), is_open, "{name}");
    }
}

#[test]
fn no_root_serves_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("www")).unwrap();
    fs::create_dir_all(path("cgi/git")).unwrap();
    fs::write(path("cgi/git/run"), "").unwrap();
    symlink(path("cgi"), path("www/cgi")).unwrap();
    let entries = [
        folder.path().display().to_string(),
        format!("cgi:{}", path("cgi").display()),
    ];
    let allowed = Allowed::parse(&entries, Path::new("/")).unwrap();
    let guard = Guard::new(allowed, OwnFiles::default());
    let root = |name: &str, part| Root {
        template: Template::parse(path(name).to_str().unwrap(), &[]).unwrap(),
        part,
    };
    for (name, refused) in [
        ("www", None),
        ("cgi", Some(Refusal::OwnFile)),
        ("cgi/git", Some(Refusal::OwnFile)),
        ("", Some(Refusal::OwnFile)),
        ("www/cgi", Some(Refusal::OwnFile)),
        ("www/cgi/git", Some(Refusal::OwnFile)),
    ] {
        let root = root(name, OperatorsPart::Allowed);
        assert_eq!(guard.inspect(&root, None), refused, "{name}");
    }
    let file = File::open(path("cgi/git/run")).unwrap();
    let metadata = file.metadata().unwrap();
    for part in [OperatorsPart::Allowed, OperatorsPart::Whole] {
        let checked = guard.check_file(&root("www", part), &file, &metadata);
        assert_eq!(checked.unwrap(), Err(Refusal::OwnFile));
    }
}

#[test]
fn an_address_is_judged_for_upstreams_of_records_alone() {
    let allowed = Allowed::parse(&["127.0.0.1:3000"], Path::new("/")).unwrap();
    let guard = Guard::new(allowed, OwnFiles::default());
    let tenant = Tenant::default();
    let whose = ("a.example", &tenant);
    let check = |address: &str, is_bound| {
        let address = address.parse().unwrap();
        guard.check_address(&upstream(is_bound), whose, address)
    };
    assert!(check("127.0.0.1:3000", true));
    assert!(!check("127.0.0.1:3001", true));
    assert!(check("127.0.0.1:3001", false));
    assert_eq!(guard.refused().upstreams.get(), 1);
}
