//! Tests values of a wrong type, form or size.

use super::*;

#[test]
fn a_wrong_value_names_line_key_and_remedy() {
    for (line, expected) in WRONG {
        let error = refusal(&format!("{MINIMAL}{line}\n"));
        let place = "/etc/sekisho/sekisho.toml:3: ";
        assert!(
            error.starts_with(place) && error.contains(expected),
            "{line}: {error}"
        );
    }
}

/// A line behind [`MINIMAL`], and what is said of it.
const WRONG: &[(&str, &str)] = &[
    (
        "cache.memory = \"64\"",
        "[cache] memory: \"64\" is no size; write a whole number with B",
    ),
    (
        "cache.memory = \"1KiB\"",
        "[cache] memory: 1KiB is out of range; write 1MiB to 1TiB",
    ),
    (
        "cache.memory = 64",
        "[cache] memory: invalid type: integer `64`, expected a text in quotes",
    ),
    ("cache.files = \"1B\"", "[cache] files: 1B is out of range"),
    (
        "cache.disk = \"disk-cache.db\"",
        "[cache] disk: the store is on this machine itself; leave the key out",
    ),
    (
        "cache.disk_size = \"1MiB\"",
        "[cache] disk_size: 1MiB is out of range; write 4MiB to 1TiB",
    ),
    (
        "sites.resolvers = [\"192.0.2.1\", \"dns.example\"]",
        "[sites] resolvers[1]: \"dns.example\" is no address; write \"192.0.2.53\"",
    ),
    (
        "sites.resolvers = [\"192.0.2.1:0\"]",
        "[sites] resolvers[0]: \"192.0.2.1:0\" is no address",
    ),
    (
        "cache.fresh = \"1\"",
        "[cache] fresh: \"1\" is no duration; write a whole number with ms",
    ),
    (
        "cache.fresh = \"0s\"",
        "[cache] fresh: 0s is out of range; write 1s to 1d",
    ),
    (
        "cache.absent = \"2h\"",
        "[cache] absent: 2h is out of range; write 100ms to 1h",
    ),
    (
        "server.workers = 0",
        "[server] workers: 0 is out of range; write 1 to 1024",
    ),
    (
        "server.workers = -3",
        "[server] workers: -3 is out of range",
    ),
    (
        "server.workers = \"two\"",
        "[server] workers: invalid type: string \"two\", expected a whole number",
    ),
    (
        "server.workers = 1.5",
        "[server] workers: invalid type: floating point `1.5`",
    ),
    (
        "server.connections = 0",
        "[server] connections: 0 is out of range",
    ),
    (
        "server.handshake_timeout = \"1h\"",
        "[server] handshake_timeout: 1h is out of range; write 100ms to 5m",
    ),
    (
        "server.header_timeout = \"0s\"",
        "[server] header_timeout: 0s is out of range",
    ),
    (
        "server.idle_timeout = \"1ms\"",
        "[server] idle_timeout: 1ms is out of range",
    ),
    (
        "server.body_timeout = \"1d\"",
        "[server] body_timeout: 1d is out of range",
    ),
    (
        "server.drain_timeout = \"2h\"",
        "[server] drain_timeout: 2h is out of range; write 0s to 1h",
    ),
    (
        "server.absent_per_prefix = 0",
        "[server] absent_per_prefix: 0 is out of range",
    ),
    ("server.loads = 0", "[server] loads: 0 is out of range"),
    (
        "server.loads_per_prefix = 257",
        "[server] loads_per_prefix: 257 is out of range; write 1 to 256",
    ),
    (
        "server.loads_waiting = -1",
        "[server] loads_waiting: -1 is out of range",
    ),
    (
        "listen.http = [\"127.0.0.1:1\", \"localhost:80\"]",
        "[listen] http[1]: \"localhost:80\" is no address with a port",
    ),
    (
        "listen.http = [\"127.0.0.1\"]",
        "[listen] http[0]: \"127.0.0.1\" is no address with a port",
    ),
    (
        "listen.http = \"127.0.0.1:80\"",
        "[listen] http: invalid type: string \"127.0.0.1:80\", expected a list in [ ]",
    ),
    (
        "listen.http = [\"127.0.0.1:8443\"]",
        "[listen] http: 127.0.0.1:8443 already stands in https",
    ),
    (
        "listen.plain = true",
        "[listen] plain: is of use with http alone; write http = [\"0.0.0.0:80\"]",
    ),
    (
        "listen.plain = \"yes\"",
        "[listen] plain: invalid type: string \"yes\", expected a boolean",
    ),
    (
        "listen.public_port = 0",
        "[listen] public_port: 0 is out of range; write 1 to 65535",
    ),
    (
        "listen.public_port = 65536",
        "[listen] public_port: 65536 is out of range",
    ),
    (
        "listen.admin = \"9443\"",
        "[listen] admin: \"9443\" is no address with a port",
    ),
    (
        "listen.admin = \"0.0.0.0:9443\"",
        "[listen] admin: 0.0.0.0:9443 can be reached from elsewhere; use 127.0.0.1, or write admin_token",
    ),
    (
        "listen.admin = \"[::ffff:192.0.2.1]:1\"",
        "can be reached from elsewhere",
    ),
    (
        "listen.admin_token = \"secret\"",
        "[listen] admin_token: this is no source of a secret; write \"file:PATH\" or \"env:NAME\"",
    ),
    (
        "listen.trusted = [\"10.0.0.0/8\", \"10.0.0.5/8\"]",
        "[listen] trusted[1]: \"10.0.0.5/8\" has bits set behind its length; write \"10.0.0.0/8\"",
    ),
    (
        "listen.proxy = [\"lb.example\"]",
        "[listen] proxy[0]: \"lb.example\" is no network; write \"10.0.0.0/8\"",
    ),
    (
        "listen.proxy = \"10.0.0.5\"",
        "[listen] proxy: invalid type: string \"10.0.0.5\", expected a list in [ ]",
    ),
    (
        "log.format = \"json\"",
        "[log] format: is of use with access alone; write access = \"access.log\"",
    ),
    (
        "log = { access = \"-\", format = \"common\" }",
        "[log] format: \"common\" is no format; write \"json\" or \"combined\"",
    ),
    (
        "log.access = \"\"",
        "[log] access: the path must not be empty",
    ),
    (
        "keys.master = \"c2VjcmV0\"",
        "[keys] master: this is no source of a key; write \"file:PATH\"",
    ),
    (
        "keys.master = \"env:\"",
        "[keys] master: this is no source of a key",
    ),
    (
        "keys.master = \"file:\"",
        "[keys] master: this is no source of a key",
    ),
    (
        "keys.master = \"command: \"",
        "[keys] master: this is no source",
    ),
    (
        "tickets.key = \"tickets.key\"",
        "[tickets] key: ticket keys are in a file, which is read again; write \"file:PATH\"",
    ),
    (
        "tickets.key = \"env:TICKETS\"",
        "[tickets] key: ticket keys",
    ),
    ("tickets.key = \"file:\"", "[tickets] key: ticket keys"),
    (
        "default.\"*\" = \"*.example.com\"",
        "[default] \"*\": \"*.example.com\" is no host name: '*' must not stand",
    ),
    (
        "default.\"*\" = \"127.0.0.1\"",
        "[default] \"*\": \"127.0.0.1\" is no host name: an IP address",
    ),
    (
        "default.\"127.0.0.1:1\" = \"a.example\"",
        "[default] \"127.0.0.1:1\": 127.0.0.1:1 does not stand in [listen] https",
    ),
    (
        "default.x = \"a.example\"",
        "[default] x: \"x\" is no address with a port",
    ),
    (
        "site.status = 200",
        "[site] status: 200 is not a status from 400 to 599",
    ),
    ("site.root = \"\"", "[site] root: a path must not be empty"),
    (
        "site.root = \"/{x}\"",
        "[site] root: \"/{x}\" has braces other than {host} and {tenant}",
    ),
    (
        "site.redirect = \"x\"",
        "[site] redirect: \"x\" is no absolute http or https URL",
    ),
    (
        "site.as = \"b.example\"",
        "[site] as: hosts without a site of their own can't all be one host; write `as` in host \
         records",
    ),
    ("site = {}", "[site]: a site has exactly one of"),
    (
        "site = { root = \"/a\", status = 404 }",
        "[site]: a site has exactly one of",
    ),
    (
        "sites.tenant_field = \"X-Forwarded-For\"",
        "[sites] tenant_field: x-forwarded-for says something else; choose another name",
    ),
    (
        "sites.certificate_field = \"x_a\"\nsites.tenant_field = \"X-A\"",
        "[sites] certificate_field: `tenant_field` has that name",
    ),
    (
        "sites.tenant_field = \"X-A\"\nsite.upstream = \"http://a\"\nsite.request.set.x-a = \"b\"",
        "[sites] tenant_field: `request` in [site] changes x-a; leave it out there",
    ),
    (
        "sites.allow = [\"/srv\", \"/\"]",
        "[sites] allow[1]: / would let host records serve the system's files",
    ),
    (
        "sites.allow = [\"../www\"]",
        "[sites] allow[0]: /etc/sekisho/../www holds `..`",
    ),
    (
        "sites.allow = [\"\"]",
        "[sites] allow[0]: the path must not be empty",
    ),
    ("site = 3", "[site]: invalid type: integer `3`"),
    ("x", "key with no value"),
    ("[listen", "unclosed table"),
    (
        "store.url = \"sqlite:b.db\"",
        "url stands twice; leave one of them out",
    ),
    (
        "server.workers = 127.0.0.1:443 # x",
        "127.0.0.1:443 is no value; a text stands in quotes: \"127.0.0.1:443\"",
    ),
    (
        "sites.allow = [\"/a\", /srv]",
        "/srv is no value; a text stands in quotes: \"/srv\"",
    ),
    (
        "acme.handshake_timeout = 20s",
        "20s is no value; a text stands in quotes",
    ),
    ("acme.agree = yes", "yes is no value; write true"),
    ("acme.agree = False", "False is no value; write false"),
    (
        "acme.handshake_timeout =",
        "the value is missing; write a text as",
    ),
    ("acme.handshake_timeout = \"20s", "invalid basic string"),
];
