//! Authoritative answers for zones that hold texts of challenges alone (RFC 1035): bytes
//! in, bytes out.
//!
//! - Each name below a zone is there, and has no data but texts: the answer is NOERROR with
//!   the SOA, never NXDOMAIN. Resolvers that minimise names (RFC 9156) go on, and nobody
//!   learns which names have challenges.
//! - Nothing may be kept: the TTL of texts and of their absence is 0.
//! - The question comes back byte for byte: resolvers tell forgeries by its letters' case.
//! - Other zones, transfers and ANY are refused, without a referral.
//! - Over UDP, an answer has at most 1,232 bytes, and 8 texts. A larger one is empty, with
//!   the flag TC: the client comes back over TCP.
//!
//! DNSSEC is not there: the parent zone must have no DS for such a zone.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{NS, SOA, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use crate::exchange::MAX_DATAGRAM;

/// Zone that a server is an authority of. Its name server is `ns` in the zone itself.
#[derive(Clone, Debug)]
pub struct Zone {
    origin: Name,
    soa: Record,
    server: Name,
    /// Addresses of the name server. If there are none, it is where it was reached.
    addresses: Vec<IpAddr>,
}

/// Way by which a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram, whose sender may be forged.
    Udp,
    /// A datagram of a network that sends too many: it is told to come over TCP.
    Flood,
    /// A connection.
    Tcp,
}

/// What becomes of a question.
#[derive(Debug)]
pub enum Reply {
    /// It is answered by this message, without the length that TCP puts before it.
    Send(Vec<u8>, Outcome),
    /// It asks for the texts of a name, which are to be read now.
    Texts(Box<Asked>),
    /// It is no question.
    Drop,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has records.
    Answered,
    /// The name has no such records.
    Empty,
    /// The question is for another zone, or of a kind that is not answered.
    Refused,
    /// The client is to come over TCP.
    Truncated,
    /// The question can't be understood.
    Malformed,
    /// The texts could not be read.
    Failed,
}

/// Question for the texts of a name.
#[derive(Debug)]
pub struct Asked {
    name: String,
    draft: Draft,
    soa: Record,
}

/// Answer that is being made.
#[derive(Debug)]
struct Draft {
    message: Message,
    transport: Transport,
    /// Bytes that the client takes.
    limit: usize,
}

impl Zone {
    /// Makes a zone whose name servers are at these addresses.
    ///
    /// # Errors
    /// Says why DNS can't carry the name.
    pub fn new(origin: &str, addresses: Vec<IpAddr>) -> Result<Self, String> {
        let name = |label: &str| {
            let name = Name::from_ascii(format!("{label}{origin}."));
            name.map_err(|error| format!("{origin}: {error}"))
        };
        let (origin, server, contact) = (name("")?, name("ns.")?, name("hostmaster.")?);
        let soa = SOA::new(server.clone(), contact, SERIAL, REFRESH, RETRY, EXPIRE, 0);
        Ok(Self {
            soa: Record::from_rdata(origin.clone(), 0, RData::SOA(soa)),
            origin,
            server,
            addresses,
        })
    }

    /// Returns the records of a name that are always there.
    fn records(&self, name: &Name, kind: RecordType, reached: Option<IpAddr>) -> Vec<Record> {
        let is_origin = *name == self.origin;
        let record = |data: RData| Record::from_rdata(name.clone(), TTL, data);
        match kind {
            RecordType::SOA if is_origin => vec![self.soa.clone()],
            RecordType::NS if is_origin => vec![record(RData::NS(NS(self.server.clone())))],
            RecordType::A | RecordType::AAAA if *name == self.server => {
                let reached = reached.filter(|_| self.addresses.is_empty());
                let addresses = self.addresses.iter().copied().chain(reached);
                let records = addresses.map(|ip| record(RData::from(ip)));
                records.filter(|one| one.record_type() == kind).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the answer to a message, or what must be read for it. `reached` is the address
/// of this server that the client has reached, if others can reach it.
#[must_use]
pub fn reply(
    zones: &[Zone],
    message: &[u8],
    transport: Transport,
    reached: Option<IpAddr>,
) -> Reply {
    let Ok(header) = Header::read(&mut BinDecoder::new(message)) else {
        return Reply::Drop;
    };
    if header.message_type == MessageType::Response {
        return Reply::Drop;
    }
    let mut draft = Draft::new(&header, transport);
    if header.op_code != OpCode::Query {
        return draft.fail(ResponseCode::NotImp, Outcome::Refused);
    }
    // The decoder makes room for as many questions as the header names.
    let is_one = header.counts.queries == 1;
    let Some(question) = is_one.then(|| Message::from_vec(message).ok()).flatten() else {
        return draft.fail(ResponseCode::FormErr, Outcome::Malformed);
    };
    if !draft.take(&question) {
        return draft.fail(ResponseCode::BADVERS, Outcome::Malformed);
    }
    if transport == Transport::Flood {
        return draft.truncate();
    }
    let query = &question.queries[0];
    let (name, kind) = (query.name(), query.query_type());
    let zones = zones.iter().filter(|zone| zone.origin.zone_of(name));
    let zone = zones.max_by_key(|zone| zone.origin.num_labels());
    let is_refused = matches!(kind, RecordType::ANY | RecordType::AXFR | RecordType::IXFR);
    let Some(zone) = zone.filter(|_| !is_refused && query.query_class() == DNSClass::IN) else {
        return draft.fail(ResponseCode::Refused, Outcome::Refused);
    };
    draft.message.metadata.authoritative = true;
    if kind == RecordType::TXT && *name != zone.origin {
        return Reply::Texts(Box::new(Asked {
            name: name.to_lowercase().to_ascii(),
            draft,
            soa: zone.soa.clone(),
        }));
    }
    draft.finish(zone.records(name, kind, reached), &zone.soa)
}

impl Asked {
    /// Returns the name, in lower case with its last dot.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers with the texts of the name.
    #[must_use]
    pub fn answer(self, texts: &[&str]) -> Reply {
        let name = self.draft.message.queries[0].name().clone();
        let record = |text: &&str| {
            // A character-string has 255 bytes at most; texts of challenges have 43.
            let text = text.as_bytes().chunks(255).collect();
            Record::from_rdata(name.clone(), 0, RData::TXT(TXT::from_bytes(text)))
        };
        if texts.len() > MOST_TEXTS && self.draft.transport != Transport::Tcp {
            return self.draft.truncate();
        }
        let records = texts.iter().map(record).collect();
        self.draft.finish(records, &self.soa)
    }

    /// Answers that the texts can't be read.
    #[must_use]
    pub fn failure(self) -> Reply {
        self.draft.fail(ResponseCode::ServFail, Outcome::Failed)
    }
}

impl Draft {
    fn new(header: &Header, transport: Transport) -> Self {
        let mut message = Message::response(header.id, header.op_code);
        message.metadata.recursion_desired = header.recursion_desired;
        Self {
            message,
            transport,
            limit: match transport {
                Transport::Tcp => usize::from(u16::MAX),
                Transport::Udp | Transport::Flood => 512,
            },
        }
    }

    /// Takes the question and its options over (RFC 6891); false for a later version of
    /// EDNS.
    fn take(&mut self, question: &Message) -> bool {
        self.message.add_query(question.queries[0].clone());
        let Some(asked) = &question.edns else {
            return true;
        };
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_DATAGRAM);
        edns.set_dnssec_ok(asked.flags().dnssec_ok);
        self.message.set_edns(edns);
        if self.transport != Transport::Tcp {
            self.limit = question.max_payload().min(MAX_DATAGRAM).into();
        }
        asked.version() == 0
    }

    /// Sends records, or the SOA if there are none.
    fn finish(mut self, records: Vec<Record>, soa: &Record) -> Reply {
        let outcome = match records.is_empty() {
            true => Outcome::Empty,
            false => Outcome::Answered,
        };
        if records.is_empty() {
            self.message.add_authority(soa.clone());
        }
        self.message.insert_answers(records);
        // The encoder leaves out what passes 64 KiB, and sets TC.
        let is_whole = |bytes: &Vec<u8>| bytes.len() <= self.limit && bytes[2] & TC == 0;
        match self.message.to_vec().ok().filter(is_whole) {
            Some(bytes) => Reply::Send(bytes, outcome),
            None => self.truncate(),
        }
    }

    fn truncate(self) -> Reply {
        send(&self.message.truncate(), Outcome::Truncated)
    }

    fn fail(mut self, code: ResponseCode, outcome: Outcome) -> Reply {
        self.message.metadata.response_code = code;
        send(&self.message, outcome)
    }
}

fn send(message: &Message, outcome: Outcome) -> Reply {
    match message.to_vec() {
        Ok(bytes) => Reply::Send(bytes, outcome),
        Err(_) => Reply::Drop,
    }
}

/// Texts of an answer over UDP: a forged question of 60 bytes gets no more than 512.
const MOST_TEXTS: usize = 8;
/// Seconds for which name servers and their addresses may be kept.
const TTL: u32 = 300;
/// Flag of a message that was cut off, in its third byte (RFC 1035, section 4.1.1).
const TC: u8 = 2;
/// There are no transfers, which alone would look at it.
const SERIAL: u32 = 1;
/// Seconds that secondary servers would use, as RIPE-203 recommends.
const REFRESH: i32 = 3600;
const RETRY: i32 = 600;
const EXPIRE: i32 = 86_400;
