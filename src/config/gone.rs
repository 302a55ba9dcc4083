//! Keys of earlier versions.

/// Says what to write in place of the key at `path`, if an earlier version had it.
pub(super) fn instead(path: &[String]) -> Option<&'static str> {
    let is_it = |place: &str| {
        let mut keys = place.split('.');
        path.iter()
            .all(|found| keys.next().is_some_and(|key| key == "*" || key == found))
            && keys.next().is_none()
    };
    let (_, instead) = GONE.iter().find(|(place, _)| is_it(place))?;
    Some(instead)
}

/// Places of these keys, where `*` stands for any name, and what takes their place.
/// `acme.ca` is also a valid table: its text is shown only for a value of a wrong type.
pub(super) const GONE: &[(&str, &str)] = &[
    (
        "server.avoid_slow_adx",
        "it is gone; on Zen 3 set OPENSSL_ia32cap=~0x0:~0x80000 in the environment of the service",
    ),
    (
        "server.requests",
        "it is gone: leave it out. [server] connections bounds the load, and so do `connections` \
         and `waiting` of a site's upstream",
    ),
    (
        "acme.ca",
        "a list of CAs is called `cas`; tables [acme.ca.NAME] describe one",
    ),
    ("acme.ask_root", "it is called `ask_ca` now"),
    ("acme.wait", "it is called `handshake_timeout` now"),
    ("acme.ca.*.root", "it is called `ca` now"),
    ("acme.dns.*.root", "it is called `ca` now"),
    ("acme.dns.*.wait", "it is called `propagation_timeout` now"),
    (
        "tickets.key_file",
        "it is called `key` now; write key = \"file:PATH\"",
    ),
    ("hook.deadline", "it is called `timeout` now"),
    (
        "hook.waiting_per_prefix",
        "it is gone; a prefix has an eighth of `waiting`, or 128 if that is more; leave the key out",
    ),
    (
        "hook.cache",
        "it is gone; `cache:set` has 4 MiB; leave the key out",
    ),
    (
        "hook.keep",
        "it is gone; a choice without tls:cached is kept for 60 s; leave the key out, or give \
         tls:cached a time",
    ),
    (
        "hook.absent",
        "it is gone; an absence is remembered for 5 s; leave the key out",
    ),
    (
        "hook.failed",
        "it is gone; a failure is remembered for 1 s; leave the key out",
    ),
];
