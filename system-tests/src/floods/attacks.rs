//! Attacks, and what each host of a test answers.

use super::hostile::Hostile;
use super::pool::Pool;
use super::programs::{self, Program};
use crate::flood::attacker::Kind;

/// Answer of the attacked host to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// Answers with a small page
    Page,
    /// Answers with a file of 32 MB
    Download,
    /// Passes it on to an upstream that reads it
    Upstream,
    /// Passes it on to an upstream that never answers
    Silent,
    /// As `Upstream`; clients of the same host are measured
    Shared,
    /// Passes it on to an upstream that attacks
    Scripted(Hostile),
    /// Asks for a password, whose hash takes long
    Locked(Beside),
    /// Has a CGI program answer, which harms
    Program(Program, Beside),
    /// Redirects, over plain HTTP
    Plain,
    /// Serves names below a record without a certificate, over plain HTTP
    Bare,
    /// Fills many placeholders in its fields
    Filled,
    /// Answers as another host
    Alias,
    /// Is to answer as a host that is not here
    Lost,
    /// Compresses a page, for clients that list many codings
    Coded,
    /// Compresses a text, anew for each request; a download of the same host is compressed, too
    Texts,
    /// Answers few requests of a client network at once
    Bounded,
}

/// What is measured of the other tenant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Beside {
    /// A page
    Page,
    /// Pages with a password or a program of its own, as the attacked tenant's
    Like,
}

impl Beside {
    const BOTH: [(Self, &str); 2] = [(Self::Page, ""), (Self::Like, ", beside its like")];
}

pub(super) fn attacks() -> Vec<(String, Kind, Place)> {
    let place = |kind| match kind {
        Kind::SlowReading | Kind::ClosedWindows => Place::Download,
        Kind::TinyFrames | Kind::SlowBodies | Kind::SlowStreams => Place::Upstream,
        Kind::FullWindows => Place::Scripted(Hostile::Stuck),
        _ => Place::Page,
    };
    let mut attacks: Vec<_> = Kind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), kind, place(kind)))
        .collect();
    let proxied = [
        Kind::Reset,
        Kind::RapidReset,
        Kind::SlowReading,
        Kind::Requests,
    ];
    for kind in proxied {
        let name = format!("{}, proxied", kind.name());
        attacks.push((name, kind, Place::Upstream));
    }
    let name = format!("{}, same host", Kind::SlowStreams.name());
    attacks.push((name, Kind::SlowStreams, Place::Shared));
    for hostile in Hostile::FLOODS {
        let place = Place::Scripted(hostile);
        attacks.push((hostile.name().to_owned(), Kind::Visits, place));
    }
    attacks.push((
        Hostile::Spoilt.name().to_owned(),
        Kind::Spoils,
        Place::Scripted(Hostile::Spoilt),
    ));
    attacks.push((
        "closed windows, proxied".to_owned(),
        Kind::ClosedWindows,
        Place::Scripted(Hostile::Lavish),
    ));
    for (what, kind, pool) in [
        (Some("slow uploads"), Kind::SlowBodies, Pool::Sound),
        (Some("late ends"), Kind::LateEnds, Pool::Sound),
        (None, Kind::Requests, Pool::Hung),
        (None, Kind::Visits, Pool::Complaining),
    ] {
        let name = match what {
            Some(what) => format!("{what}, {}", pool.name()),
            None => pool.name().to_owned(),
        };
        attacks.push((name, kind, Place::Scripted(Hostile::Pool(pool))));
    }
    attacks.push((
        Hostile::Silent.name().to_owned(),
        Kind::Requests,
        Place::Silent,
    ));
    let name = Kind::PlainNames.name().to_owned();
    attacks.push((name, Kind::PlainNames, Place::Plain));
    for (name, kind, place) in NAMED {
        attacks.push((name.to_owned(), kind, place));
    }
    for (beside, suffix) in Beside::BOTH {
        let name = format!("{}{suffix}", Kind::Passwords.name());
        attacks.push((name, Kind::Passwords, Place::Locked(beside)));
        for (program, kind) in programs::ATTACKS {
            let name = format!("{}{suffix}", program.name());
            attacks.push((name, kind, Place::Program(program, beside)));
        }
    }
    attacks
}

/// Attacks whose kind and place do not give their names.
const NAMED: [(&str, Kind, Place); 14] = [
    ("lists of codings", Kind::Requests, Place::Coded),
    (
        "bombs of zeros",
        Kind::Visits,
        Place::Scripted(Hostile::Zeros),
    ),
    (
        "slow reading, compressed",
        Kind::SlowReading,
        Place::Scripted(Hostile::Zeros),
    ),
    (
        "letters in no order",
        Kind::Visits,
        Place::Scripted(Hostile::Letters),
    ),
    ("crowds, compressed", Kind::Crowds, Place::Texts),
    ("requests over their bound", Kind::Requests, Place::Bounded),
    ("a silent upstream, reset", Kind::RapidReset, Place::Silent),
    ("names without a certificate", Kind::PlainNames, Place::Bare),
    ("filled fields", Kind::Requests, Place::Filled),
    ("crowds, filled fields", Kind::Crowds, Place::Filled),
    ("downloads", Kind::Requests, Place::Download),
    (
        "slow reading, filled fields",
        Kind::SlowReading,
        Place::Filled,
    ),
    ("a host as another", Kind::Requests, Place::Alias),
    ("a host as one that is lost", Kind::Requests, Place::Lost),
];
