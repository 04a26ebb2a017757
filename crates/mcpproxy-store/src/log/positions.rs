//! Going through a chain position by position, and checking each against the one before.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use crate::log::line::{self, Hash};
use crate::log::removal::{Removal, Stub};
use crate::log::sql::{ChainRow, RemovalRow, StoredRow};
use crate::record::id::Key;
use crate::sql::Row;
use crate::{Checkpoint, Damage, DamageKind, PayloadFacts, Record, RecordId, Status, Verifier};

/// A range of positions as the database has it.
pub(crate) struct Stretch {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<(i64, String)>,
}

/// What stands at a position.
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
    /// Whether it is the first line of its record, or the only one.
    pub(crate) is_first: bool,
    pub(crate) text: String,
    /// The hash after it, as it is stored.
    pub(crate) hash: Hash,
    pub(crate) args: Option<Part>,
    pub(crate) result: Option<Part>,
}

/// A payload that a line is about.
pub(crate) struct Part {
    /// `None` when the line says that there was no payload, and yet there is one.
    pub(crate) facts: Option<PayloadFacts>,
    /// `None` when it was erased.
    pub(crate) text: Option<String>,
}

/// How far a chain was followed, and what was seen on the way.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub(crate) verifier: Verifier,
    pub(crate) chain: u16,
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
    pub(crate) last_key: Option<Key>,
    /// Lines of which only the digest is left, because their rows were removed when their time was over.
    pub(crate) stubs: Arc<[Stub]>,
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) records: u64,
    pub(crate) payloads: u64,
    pub(crate) erased: u64,
    pub(crate) checkpoints: u64,
    pub(crate) last_signed: Option<i64>,
}

/// The positions of a stretch in their order. One can be there twice, or not at all.
pub(crate) struct Positions {
    pub(crate) list: Vec<Position>,
    pub(crate) notes: BTreeMap<i64, Vec<String>>,
    /// About what it took to read them.
    pub(crate) bytes: usize,
}

impl Stretch {
    /// From the position after the trail to the last.
    pub(crate) fn positions(self, trail: &Trail, last: i64) -> Positions {
        let first = trail.seq + 1;
        let mut list: Vec<Position> = Vec::with_capacity(self.rows.len() * 2);
        let mut bytes = 0;
        for row in self.rows {
            let row = StoredRow::of(&row);
            bytes += row.text_bytes();
            list.extend(row.positions(trail.chain));
        }
        let stub = |(seq, digest): &Stub| Position { seq: *seq, id: None, content: Content::Stub(*digest) };
        list.extend(trail.stubs.iter().map(stub));
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
    /// Its one or two lines. What cannot be read, or is not as we write it, is damage to both.
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
            _ => Some(Part { facts, text }),
        };
        let args = part(record.args, args);
        let result = part(record.result, result);
        // Without an end of its own, the only line says it all; the beginning of an open call has no result.
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

/// What the text of the lines does not show.
fn is_as_written(record: &Record) -> bool {
    let says_nothing_of_an_end = record.code.is_none()
        && record.message.is_none()
        && record.duration_us.is_none()
        && record.result.is_none()
        && record.end_metadata.is_none();
    let is_open = record.status == Status::Started && record.end_seq.is_none();
    // A text that is more than one object could take the place of what follows it in the line.
    let metadata_fits = is_object(record.metadata.for_json())
        && (record.end_seq.is_some()
            || record.end_metadata.as_ref().is_none_or(|metadata| is_object(metadata.for_json())));
    metadata_fits && (!is_open || says_nothing_of_an_end) && record.end_seq.is_none_or(|end_seq| end_seq > record.seq)
}

fn is_object(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl Trail {
    /// Where a chain is taken up: at its first line, or after those that were removed when their time was over.
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
            // Only who has the key may take something out.
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
            seen: Seen::default(),
        })
    }

    /// Goes on to the next position, which this must be, and returns the digest of its line.
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
            self.look_at_payload(line.args.as_ref()).map_err(|Differs| damage(DamageKind::ArgsChanged))?;
            self.look_at_payload(line.result.as_ref()).map_err(|Differs| damage(DamageKind::ResultChanged))?;
            if line.is_first {
                self.last_key = Some(line.record.id.key());
                self.seen.records += 1;
            }
        }
        (self.seq, self.hash) = (next, hash);
        Ok(digest)
    }

    /// Holds a note against where the trail is now.
    pub(crate) fn look_at_note(&mut self, note: &str) -> Result<Checkpoint, Damage> {
        let damage = |what| Damage { seq: self.seq, id: None, what };
        let checkpoint = Checkpoint::open(note, &self.verifier).map_err(|_| damage(DamageKind::WrongCheckpoint))?;
        if checkpoint.seq != self.seq {
            return Err(damage(DamageKind::WrongCheckpoint));
        }
        self.look_at_checkpoint(&checkpoint)?;
        self.seen.checkpoints += 1;
        Ok(checkpoint)
    }

    pub(crate) fn look_at_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), Damage> {
        if checkpoint.hash != self.hash {
            let trusted = self.seen.last_signed.unwrap_or(0);
            return Err(Damage { seq: self.seq, id: None, what: DamageKind::Rewritten { trusted } });
        }
        self.seen.last_signed = self.seen.last_signed.max(Some(self.seq));
        Ok(())
    }

    fn look_at_payload(&mut self, part: Option<&Part>) -> Result<(), Differs> {
        match part {
            None => {}
            Some(Part { facts: None, .. }) => return Err(Differs),
            Some(Part { text: None, .. }) => self.seen.erased += 1,
            Some(Part { facts: Some(facts), text: Some(text) }) => {
                let digest: Hash = Sha256::digest(text.as_bytes()).into();
                if digest != *facts.digests.of_stored() {
                    return Err(Differs);
                }
                self.seen.payloads += 1;
            }
        }
        Ok(())
    }
}

/// A payload is not the one that the record is about.
struct Differs;
