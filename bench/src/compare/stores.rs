//! Table of the rows with remote stores.

use super::rows::{Case, Goal, Loaded, Measure, Row, Scale, Setup, figure};
use super::scripts::HOOK_REDIS;
use super::sekisho::{Copies, Store};
use super::table::{BASE, FULL, NGINX, cold_from, nginx, sekisho};

pub(crate) const STORE_ROWS: &[Row] = &[
    Row {
        id: "cold-stores",
        title: "Full TLS 1.3 handshake and one request, never cached, by store",
        measure: FULL,
        cases: &[
            NGINX,
            cold_from(SQLITE, Store::Sqlite),
            cold_from(REDIS, Store::Redis(Copies::None)),
            cold_from(POSTGRES, Store::Postgres(Copies::None)),
            cold_from(
                "sekisho, Redis, each host copied to disk",
                Store::Redis(Copies::Kept),
            ),
            cold_from(
                "sekisho, PostgreSQL, each host copied to disk",
                Store::Postgres(Copies::Kept),
            ),
            Case {
                label: CLIENT,
                setup: Setup::RedisClient,
                ..NGINX
            },
        ],
        goals: &[
            ratio(SQLITE, 0.35, 0.30),
            ratio(REDIS, 0.38, 0.33),
            ratio(POSTGRES, 0.43, 0.37),
            Goal {
                scale: Scale::Over(&[(1.1, SQLITE), (1.0, CLIENT)]),
                must: 0.0,
                case: Some(REDIS),
                ..CPU
            },
            Goal {
                scale: Scale::Over(&[(1.0, SQLITE)]),
                must: 60.0,
                case: Some(POSTGRES),
                ..CPU
            },
        ],
        ..BASE
    },
    Row {
        id: "redis-cache",
        title: "The same from PostgreSQL, and from a Redis cache before it",
        measure: FULL,
        cases: &[
            cold_from(POSTGRES, Store::Postgres(Copies::None)),
            cold_from("sekisho, Redis cache before PostgreSQL", Store::RedisCache),
        ],
        ..BASE
    },
    HOOK_REDIS,
    STUCK_REDIS,
    STUCK_POSTGRES,
    Row {
        id: "herd",
        title: "Store calls when 1,000 connections want the same uncached host at once",
        measure: Measure::Herd { connections: 1_000 },
        cases: &[
            sekisho("sekisho, Redis", Store::Redis(Copies::Kept), "64MiB"),
            sekisho(
                "sekisho, PostgreSQL",
                Store::Postgres(Copies::Kept),
                "64MiB",
            ),
        ],
        goals: &[Goal {
            figure: figure::CALLS,
            must: 1.0,
            ..CPU
        }],
        ..BASE
    },
    Row {
        id: "propagation",
        title: "From the commit of a change to handshakes that show it, three servers",
        measure: Measure::Propagation { changes: 1_000 },
        cases: &[sekisho(
            "sekisho, PostgreSQL",
            Store::Postgres(Copies::Kept),
            "64MiB",
        )],
        goals: &[Goal {
            figure: figure::SEEN_P99,
            must: 100.0,
            ..CPU
        }],
        ..BASE
    },
];

pub(crate) const STUCK_REDIS: Row = Row {
    cases: &[
        sekisho("sekisho, Redis", Store::Redis(Copies::Kept), "64MiB"),
        Case {
            setup: Setup::NginxLua,
            ..nginx("nginx, Lua and Redis, blocking", Loaded::Hundred)
        },
    ],
    ..stuck(
        "stuck-redis",
        "Cached hosts while Redis stands still (SIGSTOP)",
    )
};

pub(crate) const STUCK_POSTGRES: Row = Row {
    cases: &[sekisho(
        "sekisho, PostgreSQL",
        Store::Postgres(Copies::Kept),
        "64MiB",
    )],
    ..stuck(
        "stuck-postgres",
        "Cached hosts while PostgreSQL stands still (SIGSTOP)",
    )
};

const fn stuck(id: &'static str, title: &'static str) -> Row {
    Row {
        id,
        title,
        measure: Measure::Stuck {
            seconds: 4,
            rate: 1_000,
        },
        goals: const {
            &[
                Goal {
                    figure: figure::STUCK_P99,
                    scale: Scale::Near(figure::WELL_P99, 1.5),
                    must: 5_000.0,
                    ..CPU
                },
                Goal {
                    figure: figure::LOST,
                    must: 1.0,
                    ..CPU
                },
            ]
        },
        ..BASE
    }
}

const fn ratio(case: &'static str, must: f64, aim: f64) -> Goal {
    Goal {
        scale: Scale::Ratio,
        must,
        aim: Some(aim),
        case: Some(case),
        ..CPU
    }
}

const CPU: Goal = Goal {
    figure: figure::CPU,
    scale: Scale::Absolute,
    must: 0.0,
    aim: None,
    case: None,
};

const SQLITE: &str = "sekisho, SQLite";
const REDIS: &str = "sekisho, Redis";
const POSTGRES: &str = "sekisho, PostgreSQL";
const CLIENT: &str = "the client of Redis alone";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::table::ROWS;

    #[test]
    fn rows_have_names_of_their_own_and_bounds_name_cases() {
        for (index, row) in STORE_ROWS.iter().enumerate() {
            let before = ROWS.iter().chain(&STORE_ROWS[..index]);
            assert!(before.clone().all(|other| other.id != row.id));
            assert!(row.needs_service());
            // One run fills its services once, for all of these rows.
            assert_eq!((row.key, row.hosts), (BASE.key, BASE.hosts));
            let labels: Vec<_> = row.cases.iter().map(|case| case.label).collect();
            for goal in row.goals {
                assert!(goal.case.is_none_or(|label| labels.contains(&label)));
                if let Scale::Over(parts) = goal.scale {
                    assert!(parts.iter().all(|(_, label)| labels.contains(label)));
                }
            }
        }
        assert!(ROWS.iter().all(|row| !row.needs_service()));
    }
}
