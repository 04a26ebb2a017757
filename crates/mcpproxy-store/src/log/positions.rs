//! Walks a chain position by position, and checks each line against the hash before it.
//!
//! `verify.rs` and `bundle.rs` both use it. The database returns rows; a row has one or two lines, and each line has a
//! position. [`Stretch::positions`] sorts a range of rows into positions. [`ChainWalk::step`] then takes exactly the
//! next position, rebuilds its hash, and compares it with the stored one. Payloads are compared with their digests.
//!
//! The check must assume that an attacker wrote the rows. So a row that cannot be read is damage, not an error. Numbers
//! must be stored exactly as this program writes them. Metadata must be one JSON object, because more text could
//! imitate the members that follow it in the line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use crate::log::line::{self, Hash};
use crate::log::removal::{Removal, Stub};
use crate::log::sql::{ChainRow, RemovalRow, StoredRow, Stretch};
use crate::record::id::Key;
use crate::{Checkpoint, Damage, DamageKind, PayloadFacts, Record, RecordId, Status, Verifier};

/// A position, and what was found there.
pub(crate) struct Position {
    pub(crate) seq: i64,
    pub(crate) id: Option<RecordId>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Line(Box<Line>),
    Stub(Hash),
    Damaged,
}

pub(crate) struct Line {
    pub(crate) record: Arc<Record>,
    /// `true` for the first or only line of its record.
    pub(crate) is_first: bool,
    pub(crate) text: String,
    /// The stored hash.
    pub(crate) hash: Hash,
    pub(crate) args: Option<LinePayload>,
    pub(crate) result: Option<LinePayload>,
}

/// A payload that belongs to a line.
pub(crate) struct LinePayload {
    /// `None` if there is a payload although the line has none.
    pub(crate) facts: Option<PayloadFacts>,
    /// `None` if it was erased.
    pub(crate) text: Option<String>,
}

/// The position reached in a chain, and counts of what was checked.
#[derive(Clone, Debug)]
pub(crate) struct ChainWalk {
    pub(crate) verifier: Verifier,
    pub(crate) chain: u16,
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
    pub(crate) last_key: Option<Key>,
    /// Lines of which retention left only the digest.
    pub(crate) stubs: Arc<[Stub]>,
    /// The newest stored checkpoint that matched, up to `anchor_max`.
    pub(crate) anchor: Option<Anchor>,
    /// The newest stored checkpoint that matched.
    pub(crate) newest: Option<Anchor>,
    pub(crate) anchor_max: i64,
    pub(crate) counts: WalkCounts,
}

/// A stored checkpoint that matched, and the record before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) seq: i64,
    pub(crate) note: String,
    pub(crate) last_key: Option<Key>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WalkCounts {
    pub(crate) records: u64,
    pub(crate) payloads: u64,
    pub(crate) erased: u64,
    pub(crate) checkpoints: u64,
    pub(crate) last_signed: Option<i64>,
}

/// The positions of a range in order. A position may appear twice or be missing.
pub(crate) struct Positions {
    pub(crate) list: Vec<Position>,
    pub(crate) notes: BTreeMap<i64, Vec<String>>,
    /// The approximate size of what was read.
    pub(crate) bytes: usize,
}

impl Stretch {
    /// Sorts the rows into the positions after the walk, up to `last`.
    pub(crate) fn positions(self, walk: &ChainWalk, last: i64) -> Positions {
        let first = walk.seq + 1;
        let mut list: Vec<Position> = Vec::with_capacity(self.rows.len() * 2);
        let mut bytes = 0;
        for row in self.rows {
            let row = StoredRow::of(&row);
            bytes += row.text_bytes();
            list.extend(row.positions(walk.chain));
        }
        let stub = |(seq, digest): &Stub| Position { seq: *seq, id: None, content: Content::Stub(*digest) };
        list.extend(walk.stubs.iter().map(stub));
        list.retain(|position| (first..=last).contains(&position.seq));
        list.sort_by_key(|position| position.seq);
        let mut notes = BTreeMap::<i64, Vec<String>>::new();
        for (seq, note) in self.notes {
            notes.entry(seq).or_default().push(note);
        }
        Positions { list, notes, bytes }
    }
}

impl StoredRow {
    /// The one or two lines of the row. A row that is not as this program writes it damages both.
    fn positions(self, chain: u16) -> Vec<Position> {
        let Self { seq, end_seq, id, record, numbers_fit, hash, end_hash, args, result } = self;
        let damaged = |seq| Position { seq, id, content: Content::Damaged };
        let record = match record {
            Some(record) if numbers_fit && i64::from(chain) == record.id.key().chain() => Arc::new(record),
            _ => return seq.into_iter().chain(end_seq).map(damaged).collect(),
        };
        let ((seq, text), end) = line::of_record(&record);
        let part = |facts, text: Option<String>| match (facts, &text) {
            (None, None) => None,
            _ => Some(LinePayload { facts, text }),
        };
        let args = part(record.args, args);
        let result = part(record.result, result);
        // The result belongs to the `end` line if there is one.
        let (own, later) = if end.is_some() { (None, result) } else { (result, None) };
        let content = |is_first, text, hash: Option<Hash>, args, result| match hash {
            Some(hash) => {
                Content::Line(Box::new(Line { record: Arc::clone(&record), is_first, text, hash, args, result }))
            }
            None => Content::Damaged,
        };
        let is_whole = end.is_some() == end_hash.is_some() && is_as_written(&record);
        let (hash, end_hash) = (hash.and_then(to_hash), end_hash.and_then(to_hash));
        let mut positions = Vec::with_capacity(2);
        let first = content(true, text, hash.filter(|_| is_whole), args, own);
        positions.push(Position { seq, id, content: first });
        if let Some((end_seq, text)) = end {
            let metadata_fits = record.end_metadata.as_ref().is_none_or(|metadata| is_object(metadata.for_json()));
            let end = content(false, text, end_hash.filter(|_| metadata_fits), None, later);
            positions.push(Position { seq: end_seq, id, content: end });
        }
        positions
    }
}

fn to_hash(bytes: Vec<u8>) -> Option<Hash> {
    bytes.try_into().ok()
}

/// Checks what the text of the lines does not show.
fn is_as_written(record: &Record) -> bool {
    let says_nothing_of_an_end = record.code.is_none()
        && record.message.is_none()
        && record.duration_us.is_none()
        && record.result.is_none()
        && record.end_metadata.is_none();
    let is_open = record.status == Status::Started && record.end_seq.is_none();
    // More text than one object could imitate the members that follow it in the line.
    let metadata_fits = is_object(record.metadata.for_json())
        && (record.end_seq.is_some()
            || record.end_metadata.as_ref().is_none_or(|metadata| is_object(metadata.for_json())));
    metadata_fits && (!is_open || says_nothing_of_an_end) && record.end_seq.is_none_or(|end_seq| end_seq > record.seq)
}

fn is_object(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl ChainWalk {
    /// Starts at the first line, or after the lines that retention removed.
    pub(crate) fn begin(chain: &ChainRow, removal: RemovalRow, verifier: &Verifier) -> Result<Self, Damage> {
        let damage = |what| Damage { seq: removal.seq.max(0), id: None, what };
        let RemovalRow { seq, hash, note, stubs } = &removal;
        let hash = hash.ok_or_else(|| damage(DamageKind::Changed))?;
        let stubs = stubs.as_deref().ok_or_else(|| damage(DamageKind::UnsignedRemoval))?;
        if *seq == 0 && stubs.is_empty() {
            if hash != line::origin(&chain.name) {
                return Err(damage(DamageKind::Changed));
            }
        } else {
            // Only the owner of the key may remove records.
            let signed = note.as_deref().and_then(|note| Removal::open(note, verifier).ok());
            if signed != Some(Removal::new(*seq, hash, stubs)) {
                return Err(damage(DamageKind::UnsignedRemoval));
            }
        }
        Ok(Self {
            verifier: verifier.clone(),
            chain: chain.number,
            seq: *seq,
            hash,
            last_key: None,
            stubs: stubs.into(),
            anchor: None,
            newest: None,
            anchor_max: i64::MAX,
            counts: WalkCounts::default(),
        })
    }

    /// Checks the next position. Returns the digest of its line.
    pub(crate) fn step(&mut self, position: &Position) -> Result<Hash, Damage> {
        let damage = |what| Damage { seq: position.seq, id: position.id, what };
        let next = self.seq + 1;
        if position.seq > next {
            return Err(Damage { seq: next, id: None, what: DamageKind::Missing });
        }
        if position.seq < next {
            return Err(damage(DamageKind::Doubled));
        }
        let digest = match &position.content {
            Content::Damaged => return Err(damage(DamageKind::Changed)),
            Content::Stub(digest) => *digest,
            Content::Line(line) => line::digest(&line.text),
        };
        let hash = line::link(&self.hash, &digest);
        if let Content::Line(line) = &position.content {
            if hash != line.hash {
                return Err(damage(DamageKind::Changed));
            }
            if line.is_first && self.last_key.is_some_and(|last| line.record.id.key() <= last) {
                return Err(damage(DamageKind::OutOfOrder));
            }
            self.check_payload(line.args.as_ref()).map_err(|Differs| damage(DamageKind::ArgsChanged))?;
            self.check_payload(line.result.as_ref()).map_err(|Differs| damage(DamageKind::ResultChanged))?;
            if line.is_first {
                self.last_key = Some(line.record.id.key());
                self.counts.records += 1;
            }
        }
        (self.seq, self.hash) = (next, hash);
        Ok(digest)
    }

    /// Compares a stored checkpoint with the current position.
    pub(crate) fn check_note(&mut self, note: &str) -> Result<Checkpoint, Damage> {
        let damage = |what| Damage { seq: self.seq, id: None, what };
        let checkpoint = Checkpoint::open(note, &self.verifier).map_err(|_| damage(DamageKind::WrongCheckpoint))?;
        if checkpoint.seq != self.seq {
            return Err(damage(DamageKind::WrongCheckpoint));
        }
        self.check_checkpoint(&checkpoint)?;
        let matched = Anchor { seq: self.seq, note: note.to_owned(), last_key: self.last_key };
        if self.seq <= self.anchor_max {
            self.anchor = Some(matched.clone());
        }
        self.newest = Some(matched);
        self.counts.checkpoints += 1;
        Ok(checkpoint)
    }

    pub(crate) fn check_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), Damage> {
        if checkpoint.hash != self.hash {
            let trusted = self.counts.last_signed.unwrap_or(0);
            return Err(Damage { seq: self.seq, id: None, what: DamageKind::Rewritten { trusted } });
        }
        self.counts.last_signed = self.counts.last_signed.max(Some(self.seq));
        Ok(())
    }

    fn check_payload(&mut self, part: Option<&LinePayload>) -> Result<(), Differs> {
        match part {
            None => {}
            Some(LinePayload { facts: None, .. }) => return Err(Differs),
            Some(LinePayload { text: None, .. }) => self.counts.erased += 1,
            Some(LinePayload { facts: Some(facts), text: Some(text) }) => {
                let digest: Hash = Sha256::digest(text.as_bytes()).into();
                if digest != *facts.digests.of_stored() {
                    return Err(Differs);
                }
                self.counts.payloads += 1;
            }
        }
        Ok(())
    }
}

/// A payload does not match the digest in its line.
struct Differs;
