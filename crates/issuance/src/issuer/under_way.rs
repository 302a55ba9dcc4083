//! State of an order, kept until its certificate is stored.

use sekisho_certs::{HostPattern, Secret};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::acme::ChallengeType;
use crate::quota::Kind;
use crate::solver::dns01::Presented;

/// Order of a lineage, as its row keeps it, sealed. Any server goes on from there.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UnderWay {
    /// True if hosts without a record get one with the certificate.
    pub(super) makes_hosts: bool,
    /// True if the certificate in use was revoked: the next one is due now and gets
    /// another key, since others may have this one.
    pub(super) revoked: bool,
    /// True if a command has asked for the next certificate and got none: it is due at
    /// the next attempt, too.
    pub(super) wanted: bool,
    /// True if the lineage is only there for its records: once they are removed, it is.
    pub(super) ends: bool,
    /// The order, once the CA has accepted it.
    pub(super) order: Option<Saved>,
    /// TXT records that may be there and are to be removed.
    pub(super) records: Vec<Record>,
    /// URL of the directory of the CA that has counted a renewal as a new order: it
    /// waits for the limit of new orders there.
    pub(super) counted_first: Option<String>,
    /// Attempts in a row that failed for the names, without a certificate in use.
    pub(super) refusals: u32,
    /// Names that the last failures blamed by name.
    pub(super) blamed: Vec<String>,
    /// Unix second until which the CNAMEs of all names are awaited, before a CA is asked. An
    /// older server that saves this state loses it, and orders at once.
    pub(super) awaits_cname_until: Option<i64>,
}

/// TXT record with the name that it proves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) presented: Presented,
}

/// Order that a CA has accepted.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Saved {
    /// URL of the CA's directory.
    pub(super) directory: String,
    /// URL of the order.
    pub(super) url: String,
    /// Names of the order.
    names: Vec<String>,
    /// Challenge that proves the names.
    solver: String,
    /// Kind for the CA's limits: what was taken for the certificate. None of an order
    /// that an older version has begun.
    #[serde(default)]
    kind: Option<String>,
    /// Key of the certificate, PKCS#8, before the order is finalized.
    #[serde(
        default,
        serialize_with = "write_key",
        deserialize_with = "read_key",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) key: Option<Secret>,
}

impl UnderWay {
    /// Reads what a lineage keeps. An unreadable text, of a later version, counts as
    /// nothing: a new order then replaces the one that is lost, TXT records stay, and
    /// hosts without a record get none.
    pub(super) fn read(kept: Option<&Secret>) -> Self {
        let read = kept.and_then(|kept| serde_json::from_slice(kept.expose()).ok());
        read.unwrap_or_default()
    }

    /// Notes records that are to be removed, each once: an order that is gone on with
    /// presents the same ones again.
    pub(super) fn note_records(&mut self, records: &[Record]) {
        for record in records {
            if !self.records.contains(record) {
                self.records.push(record.clone());
            }
        }
    }

    /// Returns what is left once the order is over: records that could not be removed.
    pub(super) fn left(&self) -> Self {
        Self {
            records: self.records.clone(),
            ..Self::default()
        }
    }

    /// Returns the text for the lineage; none if there is nothing to keep.
    pub(super) fn to_secret(&self) -> Option<Secret> {
        if *self == Self::default() {
            return None;
        }
        // Growing would leave copies of the key behind.
        let mut text = Vec::with_capacity(LARGEST);
        serde_json::to_writer(&mut text, self).ok()?;
        Some(Secret::new(text))
    }
}

/// Returns what a lineage keeps of its order when another certificate takes the place
/// of the ordered one: TXT records that are still to be removed.
#[must_use]
pub fn left_of(order: Option<&Secret>) -> Option<Secret> {
    UnderWay::read(order).left().to_secret()
}

/// Returns what a lineage keeps of its order when hosts no longer need it: TXT records
/// with the mark that it ends with them; none if there are none.
#[must_use]
pub fn end_of(order: Option<&Secret>) -> Option<Secret> {
    let left = UnderWay::read(order).left();
    match left.records.is_empty() {
        true => None,
        false => UnderWay { ends: true, ..left }.to_secret(),
    }
}

/// Returns what a lineage keeps of its order when its next certificate waits for CNAMEs
/// until a Unix second. Earlier failures are forgotten: they would choose the challenge.
#[must_use]
pub fn wait_for_cname(order: Option<&Secret>, until: i64) -> Option<Secret> {
    let waiting = UnderWay {
        wanted: true,
        ends: false,
        refusals: 0,
        blamed: Vec::new(),
        awaits_cname_until: Some(until),
        ..UnderWay::read(order)
    };
    waiting.to_secret()
}

impl Saved {
    pub(super) fn new(
        directory: &str,
        url: &str,
        names: &[HostPattern],
        solver: ChallengeType,
        kind: Kind,
    ) -> Self {
        Self {
            directory: directory.to_owned(),
            url: url.to_owned(),
            names: names.iter().map(|name| name.as_str().to_owned()).collect(),
            solver: solver.as_str().to_owned(),
            kind: Some(kind.as_str().to_owned()),
            key: None,
        }
    }

    /// Tells whether the order is for exactly these names.
    pub(super) fn is_for(&self, names: &[HostPattern]) -> bool {
        let own = self.names.iter().map(String::as_str);
        own.eq(names.iter().map(HostPattern::as_str))
    }

    /// Returns the names of the order.
    pub(super) fn names(&self) -> Vec<HostPattern> {
        let names = self.names.iter().map(|name| HostPattern::parse(name));
        names.filter_map(Result::ok).collect()
    }

    /// Returns the kind of the order; none if it is not known.
    pub(super) fn kind(&self) -> Option<Kind> {
        let kind = self.kind.as_deref()?;
        Kind::ALL.into_iter().find(|one| one.as_str() == kind)
    }

    /// Returns the challenge that proves the names; none for one that this version
    /// does not know.
    pub(super) fn solver(&self) -> Option<ChallengeType> {
        ChallengeType::ALL
            .into_iter()
            .find(|kind| kind.as_str() == self.solver)
    }
}

fn write_key<S: Serializer>(key: &Option<Secret>, to: S) -> Result<S::Ok, S::Error> {
    let text = key
        .as_ref()
        .map(|key| data_encoding::BASE64.encode(key.expose()));
    to.serialize_str(&Zeroizing::new(text.unwrap_or_default()))
}

fn read_key<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    let text = Zeroizing::new(String::deserialize(from)?);
    let key = data_encoding::BASE64.decode(text.as_bytes());
    key.map(|key| Some(Secret::new(key)))
        .map_err(serde::de::Error::custom)
}

/// Bytes of an order with a hundred names, an RSA key of 4096 bits and a TXT record
/// for each name.
const LARGEST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let names = [HostPattern::parse("a.example").unwrap()];
        let solver = ChallengeType::TlsAlpn01;
        let url = "https://ca/order/1";
        let mut saved = Saved::new("https://ca/dir", url, &names, solver, Kind::Renewal);
        saved.key = Some(Secret::new(b"\x00key".to_vec()));
        let kept = UnderWay {
            makes_hosts: true,
            wanted: true,
            ends: false,
            order: Some(saved),
            ..UnderWay::default()
        };
        let read = UnderWay::read(kept.to_secret().as_ref());
        let order = read.order.unwrap();
        assert!(read.makes_hosts && read.wanted && order.is_for(&names) && !order.is_for(&[]));
        assert_eq!((order.url.as_str(), order.solver()), (url, Some(solver)));
        assert_eq!(
            (order.names(), order.kind()),
            (names.to_vec(), Some(Kind::Renewal))
        );
        assert_eq!(order.key.unwrap().expose(), b"\x00key");
    }

    #[test]
    fn a_record_that_is_presented_again_is_noted_once() {
        let record = |value: &str| Record {
            name: "a.example".into(),
            presented: Presented {
                zone: "example".into(),
                fqdn: "_acme-challenge.a.example".into(),
                value: value.into(),
            },
        };
        let mut kept = UnderWay::default();
        for _ in 0..3 {
            kept.note_records(&[record("one"), record("two")]);
        }
        assert_eq!(kept.records, [record("one"), record("two")]);
    }

    #[test]
    fn a_lineage_stays_for_its_records() {
        let order = |records| UnderWay {
            makes_hosts: true,
            records,
            ..UnderWay::default()
        };
        assert!(end_of(order(Vec::new()).to_secret().as_ref()).is_none());
        let record = Record {
            name: "a.example".into(),
            presented: Presented {
                fqdn: "_acme-challenge.a.example.".into(),
                zone: "example.".into(),
                value: "x".into(),
            },
        };
        let kept = end_of(order(vec![record]).to_secret().as_ref());
        let kept = UnderWay::read(kept.as_ref());
        assert!(kept.ends && !kept.makes_hosts && kept.records.len() == 1);
    }

    #[test]
    fn a_wait_keeps_the_order() {
        let kept = UnderWay {
            makes_hosts: true,
            ends: true,
            refusals: 2,
            blamed: vec!["a.example".to_owned()],
            ..UnderWay::default()
        };
        let kept = wait_for_cname(kept.to_secret().as_ref(), 9);
        let kept = UnderWay::read(kept.as_ref());
        assert_eq!(kept.awaits_cname_until, Some(9));
        assert!(kept.makes_hosts && kept.wanted && !kept.ends);
        assert_eq!((kept.refusals, kept.blamed.len()), (0, 0));
        assert_eq!(kept.left(), UnderWay::default());
    }

    #[test]
    fn nothing_is_kept_of_nothing_and_read_from_what_is_unknown() {
        assert!(UnderWay::default().to_secret().is_none());
        for text in ["", "{", "[1]", "{\"order\": 1}"] {
            let read = UnderWay::read(Some(&Secret::new(text.into())));
            assert!(read.order.is_none() && !read.makes_hosts, "{text}");
        }
    }
}
