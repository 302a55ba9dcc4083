//! Authoritative answers for a zone that holds texts of challenges alone (RFC 1035): bytes
//! in, bytes out.
//!
//! - Each name below the zone is there, and has no data but texts: the answer is NOERROR with
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

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{NS, SOA, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use crate::exchange::MAX_DATAGRAM;

/// Zone that a server is an authority of. Its name server is `ns` in the zone itself.
#[derive(Debug)]
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

/// Kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer has records.
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

/// Texts by name, which is in lower case with its last dot.
type Texts = HashMap<String, Vec<String>>;

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
        // There are no secondary servers, for which the numbers are: those of RIPE-203.
        let soa = SOA::new(server.clone(), contact, 1, 3600, 600, 86_400, 0);
        Ok(Self {
            soa: Record::from_rdata(origin.clone(), 0, RData::SOA(soa)),
            origin,
            server,
            addresses,
        })
    }

    /// Returns the answer to a message; none if it is no question. Both are without the
    /// length that TCP puts before them. `reached` is the address of this server that the
    /// client has reached, if others can reach it. `texts` reads the texts of all names, or
    /// gives none if that fails: it is awaited if a question asks for them.
    pub async fn answer(
        &self,
        message: &[u8],
        via: Transport,
        reached: Option<IpAddr>,
        texts: impl Future<Output = Option<Arc<Texts>>>,
    ) -> Option<(Vec<u8>, Outcome)> {
        let header = Header::read(&mut BinDecoder::new(message)).ok()?;
        if header.message_type == MessageType::Response {
            return None;
        }
        let mut answer = Message::response(header.id, header.op_code);
        answer.metadata.recursion_desired = header.recursion_desired;
        // The decoder makes room for as many questions as the header names.
        let is_one = header.counts.queries == 1;
        let question = is_one.then(|| Message::from_vec(message).ok()).flatten();
        let (code, outcome) = match &question {
            _ if header.op_code != OpCode::Query => (ResponseCode::NotImp, Outcome::Refused),
            None => (ResponseCode::FormErr, Outcome::Malformed),
            Some(question) => {
                let records = self.fill(&mut answer, question, via, reached, texts);
                records.await
            }
        };
        answer.metadata.response_code = code;
        let taken = question.map_or(0, |question| question.max_payload());
        let limit = match via {
            Transport::Tcp => u16::MAX,
            Transport::Udp | Transport::Flood => taken.clamp(MIN_DATAGRAM, MAX_DATAGRAM),
        };
        let bytes = answer.to_vec().ok()?;
        // The encoder leaves out what passes 64 KiB, and sets TC.
        let is_whole = bytes.len() <= usize::from(limit) && bytes[2] & TC == 0;
        match is_whole && outcome != Outcome::Truncated {
            true => Some((bytes, outcome)),
            false => Some((answer.truncate().to_vec().ok()?, Outcome::Truncated)),
        }
    }

    /// Puts the question, its options (RFC 6891) and the records into an answer.
    async fn fill(
        &self,
        answer: &mut Message,
        question: &Message,
        via: Transport,
        reached: Option<IpAddr>,
        texts: impl Future<Output = Option<Arc<Texts>>>,
    ) -> (ResponseCode, Outcome) {
        let query = &question.queries[0];
        answer.add_query(query.clone());
        if let Some(theirs) = &question.edns {
            let mut edns = Edns::new();
            edns.set_max_payload(MAX_DATAGRAM);
            edns.set_dnssec_ok(theirs.flags().dnssec_ok);
            answer.set_edns(edns);
        }
        if question.version() != 0 {
            return (ResponseCode::BADVERS, Outcome::Malformed);
        }
        if via == Transport::Flood {
            return (ResponseCode::NoError, Outcome::Truncated);
        }
        let (name, kind) = (query.name(), query.query_type());
        let is_refused = matches!(kind, RecordType::ANY | RecordType::AXFR | RecordType::IXFR);
        if is_refused || query.query_class() != DNSClass::IN || !self.origin.zone_of(name) {
            return (ResponseCode::Refused, Outcome::Refused);
        }
        answer.metadata.authoritative = true;
        answer.answers = if kind == RecordType::TXT && *name != self.origin {
            let Some(texts) = texts.await else {
                return (ResponseCode::ServFail, Outcome::Failed);
            };
            let texts = texts.get(&name.to_lowercase().to_ascii());
            let texts = texts.map_or(&[][..], Vec::as_slice);
            if texts.len() > MOST_TEXTS && via != Transport::Tcp {
                return (ResponseCode::NoError, Outcome::Truncated);
            }
            let data = |text: &String| RData::TXT(TXT::new(vec![text.clone()]));
            let record = |text| Record::from_rdata(name.clone(), 0, data(text));
            texts.iter().map(record).collect()
        } else {
            self.records(name, kind, reached)
        };
        if !answer.answers.is_empty() {
            return (ResponseCode::NoError, Outcome::Answered);
        }
        answer.add_authority(self.soa.clone());
        (ResponseCode::NoError, Outcome::Empty)
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

/// Bytes of a datagram that each client takes.
const MIN_DATAGRAM: u16 = 512;
/// Texts of an answer over UDP: a forged question of 60 bytes gets no more than 512.
const MOST_TEXTS: usize = 8;
/// Seconds for which name servers and their addresses may be kept.
const TTL: u32 = 300;
/// Flag of a message that was cut off, in its third byte (RFC 1035, section 4.1.1).
const TC: u8 = 2;
