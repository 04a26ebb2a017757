//! Bundles: records with the proof that they belong to a signed chain, in one file that can be verified anywhere.
//!
//! A bundle is a JSON Lines file. It starts at the checkpoint before the first selected record and ends at the
//! checkpoint after the last one:
//!
//! ```text
//! {"bundle":"mcpproxy activity","version":1,"chain":…,"verifier":…,"exported":…,"filter":{…}}
//!                                        after a rotation, "succession": notes with which each key signs the next
//! {"start":{"seq":4,"hash":…}}           the position before the first
//! {"checkpoint":"…"}                     signed for that position
//! {"digest":…,"hash":…}                  position 5: not selected, so only its digest
//! {"line":"{\"seq\":6,…}","hash":…}      position 6: selected
//! {"payload":{"id":…,"part":"args","text":…}}
//! {"checkpoint":"…"}                     signed for the last position
//! {"seal":"…"}                           signature over the whole file
//! ```
//!
//! A reader recomputes every hash. Digests stand in for records that were not selected: they prove that nothing between
//! two records is missing, and reveal nothing. The seal proves that nothing was left out after the export.
//!
//! The export verifies every position on the way, so a bundle of a damaged log cannot be made. `bundle/check.rs`
//! verifies a bundle without the database.

mod check;
mod seal;
mod wire;

use std::io::{self, Write};

use crate::log::line::Hash;
use crate::log::positions::{ChainWalk, Content, Line, LinePayload, Position};
use crate::log::sql::{ChainRow, Nearest};
use crate::{Checkpoint, Damage, DamageKind, Filter, Progress, RecordId, SigningKey, Store, StoreError, Verifier};

use seal::SealHasher;

pub use check::{BundleError, BundleVerdict, KeyFrom, verify_bundle};

const STRETCH: i64 = 500;

/// Selects the records of a bundle. All other records between them appear as digests only.
pub struct Selection<'k> {
    pub filter: Filter,
    /// Selects one record instead of the filter.
    pub id: Option<RecordId>,
    /// The name of the chain. Needed if there are several chains, and neither `id` nor `key` determines one.
    pub chain: Option<String>,
    /// The key of the chain. Seals the bundle, and signs the last position if no checkpoint does yet.
    pub key: Option<&'k SigningKey>,
    /// The newest checkpoint outside the database. The export fails if the log does not match it.
    pub newest: Option<String>,
    pub now_ms: i64,
}

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub chain: String,
    /// The first and the last position of the bundle.
    pub first: i64,
    pub last: i64,
    /// The number of records that are shown.
    pub records: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("no record matches the selection")]
    Nothing,
    #[error("the database has several chains; choose one of {}", names.join(", "))]
    WhichChain { names: Vec<String> },
    #[error("no chain named `{name}` exists")]
    NoSuchChain { name: String },
    #[error("position {seq} is not signed yet; try again in a minute, after the next checkpoint")]
    NotSignedYet { seq: i64 },
    #[error("the signing key belongs to chain `{found}`, but the bundle is for chain `{chain}`")]
    OtherKey { chain: String, found: String },
    #[error("the log is damaged, so it proves nothing")]
    Damaged { source: Damage },
    #[error("retention removed old records during the export; try again")]
    Removed,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not write the bundle")]
    Write { source: io::Error },
}

impl Store {
    /// Writes a bundle, and verifies every position on the way.
    pub async fn export_signed(
        &self,
        selection: &Selection<'_>,
        out: &mut (dyn Write + Send),
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Exported, ExportError> {
        let chain = self.chain_of(selection).await?;
        let range = self.range(&chain, selection).await?;
        let succession = self.path_to(&range.walk.verifier).await?;
        let mut text = wire::header(&chain.name, &range.walk.verifier, &succession, selection);
        text.push_str(&wire::start(range.walk.seq, &range.walk.hash));
        if let Some(note) = &range.first_note {
            text.push_str(&wire::checkpoint(note));
        }
        let (first, last) = (range.walk.seq + 1, range.last);
        let total = (last - range.walk.seq).unsigned_abs();
        let mut bundle = Bundle {
            selection,
            walk: range.walk,
            newest: range.newest,
            text,
            hasher: SealHasher::default(),
            records: 0,
            signed: None,
        };
        while bundle.walk.seq < last {
            let to = last.min(bundle.walk.seq + STRETCH);
            let stretch = self.database().stretch(chain.number, bundle.walk.seq + 1, to).await?;
            if let Err(source) = bundle.add(stretch.positions(&bundle.walk, to), to) {
                let now = self.database().removal(chain.number).await?;
                let is_same = now.is_some_and(|now| now.seq == range.removed_seq);
                return Err(if is_same { ExportError::Damaged { source } } else { ExportError::Removed });
            }
            bundle.write(out)?;
            let done = (bundle.walk.seq + 1 - first).unsigned_abs();
            progress(Progress { done, total });
        }
        if bundle.signed != Some(last) {
            let key = selection.key.ok_or(ExportError::NotSignedYet { seq: last })?;
            let note = Checkpoint::sign(key, last, &bundle.walk.hash, selection.now_ms);
            bundle.text.push_str(&wire::checkpoint(&note));
        }
        bundle.write(out)?;
        if let Some(key) = selection.key {
            let seal = std::mem::take(&mut bundle.hasher).seal(key, selection.now_ms);
            bundle.text.push_str(&wire::seal(&seal));
            bundle.write(out)?;
        }
        out.flush().map_err(|source| ExportError::Write { source })?;
        Ok(Exported { chain: chain.name, first, last, records: bundle.records })
    }

    async fn chain_of(&self, selection: &Selection<'_>) -> Result<ChainRow, ExportError> {
        let mut chains = self.database().chain_rows().await?;
        let named = match (&selection.id, &selection.chain) {
            (Some(id), _) => {
                chains.retain(|chain| i64::from(chain.number) == id.key().chain());
                return chains.pop().ok_or(ExportError::Nothing);
            }
            (None, Some(name)) => Some(name.as_str()),
            (None, None) if chains.len() > 1 => selection.key.map(|key| key.verifier().chain()),
            (None, None) => None,
        };
        if let Some(name) = named {
            let found = chains.into_iter().find(|chain| chain.name == name);
            return found.ok_or_else(|| ExportError::NoSuchChain { name: name.to_owned() });
        }
        match chains.len() {
            0 | 1 => chains.pop().ok_or(ExportError::Nothing),
            _ => Err(ExportError::WhichChain { names: chains.into_iter().map(|chain| chain.name).collect() }),
        }
    }

    /// Finds the range from the checkpoint before the first selected line to the checkpoint after the last.
    async fn range(&self, chain: &ChainRow, selection: &Selection<'_>) -> Result<Range, ExportError> {
        let database = self.database();
        let whole_chain = |what| ExportError::Damaged { source: Damage { seq: 0, id: None, what } };
        let verifier = Verifier::parse(&chain.verifier).filter(|verifier| verifier.chain() == chain.name);
        let verifier = verifier.ok_or_else(|| whole_chain(DamageKind::WrongKey))?;
        if let Some(key) = selection.key.filter(|key| *key.verifier() != verifier) {
            let found = key.verifier().chain().to_owned();
            return Err(ExportError::OtherKey { chain: chain.name.clone(), found });
        }
        let filter = match selection.id {
            Some(id) => Filter { text: Some(id.to_string()), ..Filter::default() },
            None => selection.filter.clone(),
        };
        let extent = database.extent(&filter, chain.number).await?;
        let (first, last) = extent.ok_or(ExportError::Nothing)?;
        let removal = database.removal(chain.number).await?.ok_or(ExportError::Removed)?;
        let mut walk = ChainWalk::begin(chain, removal, &verifier).map_err(|source| ExportError::Damaged { source })?;
        let removed_seq = walk.seq;
        if walk.seq >= first {
            return Err(ExportError::Removed);
        }
        let mut first_note = None;
        let before = database.checkpoint(chain.number, Nearest::UpTo(first - 1)).await?;
        if let Some((seq, note)) = before.filter(|(seq, _)| *seq >= walk.seq && *seq > 0) {
            let wrong = Damage { seq, id: None, what: DamageKind::WrongCheckpoint };
            let opened = Checkpoint::open(&note, &verifier).ok().filter(|checkpoint| checkpoint.seq == seq);
            let checkpoint = opened.ok_or(ExportError::Damaged { source: wrong })?;
            (walk.seq, walk.hash) = (seq, checkpoint.hash);
            first_note = Some(note);
        }
        let newest = selection.newest.as_ref().map(|note| Checkpoint::open(note, &verifier)).transpose()?;
        let after = database.checkpoint(chain.number, Nearest::From(last)).await?;
        let last = match after {
            Some((seq, _)) => seq,
            None if selection.key.is_some() => last.max(newest.as_ref().map_or(0, |newest| newest.seq)),
            None => return Err(ExportError::NotSignedYet { seq: last }),
        };
        Ok(Range { walk, first_note, newest, last, removed_seq })
    }
}

struct Range {
    /// Stands at the position before the first.
    walk: ChainWalk,
    first_note: Option<String>,
    newest: Option<Checkpoint>,
    last: i64,
    removed_seq: i64,
}

/// The state of writing a bundle.
struct Bundle<'s> {
    selection: &'s Selection<'s>,
    walk: ChainWalk,
    newest: Option<Checkpoint>,
    /// Text to write next.
    text: String,
    hasher: SealHasher,
    records: u64,
    signed: Option<i64>,
}

impl Bundle<'_> {
    fn write(&mut self, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        out.write_all(self.text.as_bytes()).map_err(|source| ExportError::Write { source })?;
        self.hasher.update(self.text.as_bytes());
        self.text.clear();
        Ok(())
    }

    fn add(&mut self, positions: crate::log::positions::Positions, last: i64) -> Result<(), Damage> {
        for position in &positions.list {
            let digest = self.walk.step(position)?;
            self.add_position(position, &digest);
            if let Some(newest) = self.newest.as_ref().filter(|newest| newest.seq == position.seq) {
                self.walk.check_checkpoint(newest)?;
            }
            for note in positions.notes.get(&position.seq).into_iter().flatten() {
                self.walk.check_note(note)?;
                self.text.push_str(&wire::checkpoint(note));
                self.signed = Some(position.seq);
            }
        }
        if self.walk.seq < last {
            return Err(Damage { seq: self.walk.seq + 1, id: None, what: DamageKind::Missing });
        }
        Ok(())
    }

    fn add_position(&mut self, position: &Position, digest: &Hash) {
        let hash = self.walk.hash;
        let Some(line) = self.selected(position) else {
            self.text.push_str(&wire::digest(digest, &hash));
            return;
        };
        self.text.push_str(&wire::line(&line.text, &hash));
        self.records += u64::from(line.is_first);
        for (name, part) in [("args", &line.args), ("result", &line.result)] {
            if let Some(LinePayload { text: Some(text), .. }) = part {
                self.text.push_str(&wire::payload(line.record.id, name, text));
            }
        }
    }

    fn selected<'p>(&self, position: &'p Position) -> Option<&'p Line> {
        let Content::Line(line) = &position.content else { return None };
        let is_selected = match self.selection.id {
            Some(id) => line.record.id == id,
            None => self.selection.filter.fits(&line.record),
        };
        is_selected.then_some(line)
    }
}
