//! Table of the rows with sites in host records, above all upstreams.

use super::rows::{Asked, Case, Content, Goal, Hosts, Loaded, Measure, Row, Scale, Setup, figure};
use super::sekisho::Store;
use super::table::{BASE, NGINX, SEKISHO, nginx, ratio, sekisho};

pub(crate) const PROXY_10: Row = proxy("proxy-10", "Proxied request on one of 10 connections", 10);
pub(crate) const PROXY_100: Row = proxy(
    "proxy-100",
    "Proxied request on one of 100 connections",
    100,
);

/// The bound is nginx's proxied request, and a look-up: that of a file whose host is
/// not cached, less that of one whose host is.
pub(crate) const PROXY_COLD: Row = Row {
    id: "proxy-cold",
    title: "Proxied request for another of 100,000 sites each time, 10 upstreams",
    measure: Measure::AnyHost {
        connections: 100,
        each: 500,
    },
    cases: &[
        NGINX_PROXY,
        Case {
            content: Content::Roots,
            ..sekisho(CACHED_FILES, Store::Sqlite, "64MiB")
        },
        Case {
            content: Content::Roots,
            asked: Asked::All,
            ..sekisho(COLD_FILES, Store::Sqlite, "1MiB")
        },
        Case {
            content: Content::Upstreams(10),
            asked: Asked::All,
            ..sekisho(COLD_PROXY, Store::Sqlite, "1MiB")
        },
    ],
    goals: &[Goal {
        figure: figure::CPU,
        scale: Scale::Over(&[
            (1.0, NGINX_PROXY.label),
            (1.0, COLD_FILES),
            (-1.0, CACHED_FILES),
        ]),
        must: 0.0,
        aim: None,
        case: Some(COLD_PROXY),
    }],
    ..BASE
};

/// Each of the connections is kept for the host of another tenant. Each tenant has its own
/// state of the upstream, as each `upstream` block of nginx has.
pub(crate) const PROXIED_TENANTS: Row = Row {
    id: "proxied-tenants",
    title: "Proxied requests of 1,000 tenants in turn, a host each, to one upstream",
    hosts: Hosts::Exactly(1_000),
    measure: Measure::Requests {
        connections: 1_000,
        each: 50,
    },
    cases: &[
        Case {
            label: "nginx, an upstream block per tenant",
            setup: Setup::Nginx {
                loaded: Loaded::All,
                file_cache: false,
            },
            asked: Asked::All,
            content: Content::Tenants,
            ..NGINX
        },
        Case {
            asked: Asked::All,
            content: Content::Tenants,
            ..SEKISHO
        },
    ],
    goals: &[ratio(1.1, None)],
    ..BASE
};

pub(crate) const H2_100: Row = Row {
    id: "h2-100",
    title: "Request on one of 100 streams of an HTTP/2 connection",
    hosts: Hosts::Exactly(100),
    measure: Measure::Streams {
        streams: 100,
        count: 100_000,
    },
    cases: &[NGINX, NGINX_PROXY, SEKISHO, SEKISHO_PROXY],
    goals: &[
        Goal {
            case: Some(SEKISHO.label),
            ..ratio(1.0, Some(0.7))
        },
        of_nginx_proxy(&[(1.0, NGINX_PROXY.label)]),
    ],
    ..BASE
};

pub(crate) const DOWNLOAD: Row = Row {
    id: "download",
    title: "File of 100 MB, from the disk cache and through the proxy",
    hosts: Hosts::Exactly(100),
    measure: Measure::Downloads { count: 10 },
    cases: &[NGINX, NGINX_PROXY, SEKISHO, SEKISHO_PROXY],
    goals: &[
        Goal {
            case: Some(SEKISHO.label),
            ..ratio(1.1, Some(0.9))
        },
        of_nginx_proxy(&[(1.1, NGINX_PROXY.label)]),
    ],
    ..BASE
};

/// The CPU of php-fpm does not count.
pub(crate) const PHP: Row = Row {
    id: "php",
    title: "Page of a PHP script on one of 10 connections, over FastCGI",
    hosts: Hosts::Exactly(100),
    measure: Measure::Requests {
        connections: 10,
        each: 2_000,
    },
    cases: &[
        NGINX_PHP,
        Case {
            label: "nginx, PHP, kept connections",
            content: Content::Scripts { keep: true },
            ..NGINX
        },
        Case {
            label: SEKISHO_PHP,
            content: Content::Scripts { keep: false },
            ..SEKISHO
        },
        Case {
            label: SEKISHO_KEPT,
            content: Content::Scripts { keep: true },
            ..SEKISHO
        },
    ],
    goals: &[
        Goal {
            figure: figure::CPU,
            scale: Scale::Over(&[(1.0, NGINX_PHP.label)]),
            must: 0.0,
            aim: None,
            case: Some(SEKISHO_PHP),
        },
        Goal {
            figure: figure::CPU,
            scale: Scale::Over(&[(1.0, "nginx, PHP, kept connections")]),
            must: 0.0,
            aim: None,
            case: Some(SEKISHO_KEPT),
        },
    ],
    ..BASE
};

/// The first case does the work of `keepalive-100`. nginx computes its hash in each request.
pub(crate) const AUTH: Row = Row {
    id: "auth",
    title: "Request on one of 100 open connections, behind a password that is remembered",
    hosts: Hosts::Exactly(100),
    measure: Measure::Requests {
        connections: 100,
        each: 1_000,
    },
    cases: &[
        SEKISHO,
        Case {
            content: Content::Password,
            ..sekisho(SEKISHO_AUTH, Store::Sqlite, "64MiB")
        },
        Case {
            content: Content::Password,
            ..nginx("nginx, password hashed with SHA-1", Loaded::Hundred)
        },
    ],
    goals: &[Goal {
        case: Some(SEKISHO_AUTH),
        ..ratio(1.1, None)
    }],
    ..BASE
};

/// A copy of the page table would grow with the hosts that are in memory. Apache's children
/// have all hosts in memory; sekisho has as many as the cache holds.
pub(crate) const FORK: Row = Row {
    id: "fork",
    title: "From a request to the first byte of a CGI program's answer",
    hosts: Hosts::Exactly(100),
    measure: Measure::FirstByte { count: 200 },
    cases: &[
        programs(FORK_1K, Hosts::Exactly(1_000)),
        programs(FORK_1M, Hosts::Exactly(1_000_000)),
        Case {
            setup: Setup::Apache,
            ..programs(APACHE_100, Hosts::Exactly(100))
        },
        Case {
            setup: Setup::Apache,
            ..programs("Apache, 10,000 hosts", Hosts::Exactly(10_000))
        },
    ],
    goals: &[
        Goal {
            figure: figure::P50,
            case: Some(FORK_1M),
            ..ratio(1.1, None)
        },
        of_apache(FORK_1K),
        of_apache(FORK_1M),
    ],
    heavy: true,
    ..BASE
};

pub(crate) const WEBSOCKET: Row = Row {
    id: "websocket",
    title: "Message of 64 bytes and its echo on one of 1,000 WebSockets",
    hosts: Hosts::Exactly(100),
    measure: Measure::Echoes {
        connections: 1_000,
        each: 100,
    },
    cases: &[NGINX_PROXY, SEKISHO_PROXY],
    goals: &[ratio(1.1, None)],
    ..BASE
};

const NGINX_PHP: Case = Case {
    label: "nginx, PHP",
    content: Content::Scripts { keep: false },
    ..NGINX
};

const NGINX_PROXY: Case = Case {
    label: "nginx, proxy",
    content: Content::Upstreams(100),
    ..NGINX
};

const SEKISHO_PROXY: Case = Case {
    label: "sekisho, proxy",
    content: Content::Upstreams(100),
    ..SEKISHO
};

/// Case with a cache that holds all hosts, as far as 1 GiB suffices.
const fn programs(label: &'static str, hosts: Hosts) -> Case {
    Case {
        asked: Asked::All,
        content: Content::Programs(hosts),
        ..sekisho(label, Store::Sqlite, "1GiB")
    }
}

/// Bounds a case's time by that of Apache with few hosts.
const fn of_apache(label: &'static str) -> Goal {
    Goal {
        figure: figure::P50,
        scale: Scale::Over(&[(1.0, APACHE_100)]),
        must: 0.0,
        aim: None,
        case: Some(label),
    }
}

const fn proxy(id: &'static str, title: &'static str, connections: usize) -> Row {
    Row {
        id,
        title,
        hosts: Hosts::Exactly(100),
        measure: Measure::Requests {
            connections,
            each: 50_000 / connections as u64,
        },
        cases: &[NGINX_PROXY, SEKISHO_PROXY],
        goals: const { &[ratio(1.0, Some(0.7))] },
        ..BASE
    }
}

/// Bounds the proxied case by nginx's in the same row.
const fn of_nginx_proxy(bound: &'static [(f64, &'static str)]) -> Goal {
    Goal {
        figure: figure::CPU,
        scale: Scale::Over(bound),
        must: 0.0,
        aim: None,
        case: Some(SEKISHO_PROXY.label),
    }
}

const SEKISHO_AUTH: &str = "sekisho, password remembered";
const FORK_1K: &str = "sekisho, 1,000 hosts";
const FORK_1M: &str = "sekisho, 1,000,000 hosts, memory = \"1GiB\"";
const APACHE_100: &str = "Apache, 100 hosts";
const SEKISHO_PHP: &str = "sekisho, PHP";
const SEKISHO_KEPT: &str = "sekisho, PHP, kept connections";
const CACHED_FILES: &str = "sekisho, files, cached";
const COLD_FILES: &str = "sekisho, files, memory = \"1MiB\"";
const COLD_PROXY: &str = "sekisho, proxy, memory = \"1MiB\"";
