//! Line of a request whose connection leaves HTTP: written when that ends.

use std::sync::{Arc, Mutex};

use super::entry::Entry;

use sekisho_certs::lock;

/// Place of an entry between the answer, which brings it, and the tunnel, which ends
/// it. An entry that stays here is written when the last of both is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handover(Arc<Mutex<Option<Box<Entry>>>>);

impl Handover {
    /// Takes the entry of the request, whose answer has begun.
    pub(super) fn put(&self, mut entry: Box<Entry>) {
        entry.complete = false;
        *lock(&self.0) = Some(entry);
    }

    /// Writes the line: the tunnel has ended. `received` bytes came from the client,
    /// `sent` went to it.
    pub(crate) fn ended(&self, received: u64, sent: u64, in_order: bool) {
        let entry = lock(&self.0).take();
        if let Some(mut entry) = entry {
            entry.received = Some(received);
            entry.bytes = sent;
            entry.complete = in_order;
        }
    }
}
