//! Bundles: records with the proof that they are part of a signed chain, in one file that can be checked anywhere.

mod check;
mod seal;
mod wire;

use std::io::{self, Write};

use crate::log::line::Hash;
use crate::log::positions::{Content, Line, Part, Position, Trail};
use crate::log::sql::{ChainRow, Nearest};
use crate::{Checkpoint, Damage, DamageKind, Filter, Progress, RecordId, SigningKey, Store, StoreError, Verifier};

use seal::Wax;

pub use check::{BundleError, BundleVerdict, KeyFrom, verify_bundle};

const STRETCH: i64 = 500;

/// What a bundle is to show. Everything else between is there too, but as digests only.
pub struct Selection<'k> {
    pub filter: Filter,
    /// One record, whatever the filter says.
    pub id: Option<RecordId>,
    /// The name of the chain: a bundle is about one. Needed if there are several and no record or key tells which.
    pub chain: Option<String>,
    /// Seals the bundle, and signs its end if no checkpoint does so yet. It must be the key of the chain.
    pub key: Option<&'k SigningKey>,
    /// The newest checkpoint that is kept outside the database: nothing is signed that does not agree with it.
    pub newest: Option<String>,
    pub now_ms: i64,
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub chain: String,
    /// The first and the last position of the bundle.
    pub first: i64,
    pub last: i64,
    /// How many records are shown.
    pub records: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("no record was selected")]
    Nothing,
    #[error("there is more than one chain; name one of {}", names.join(", "))]
    WhichChain { names: Vec<String> },
    #[error("there is no chain `{name}`")]
    NoSuchChain { name: String },
    #[error("position {seq} is not signed yet; the next checkpoint follows within a minute")]
    NotSignedYet { seq: i64 },
    #[error("the signing key is that of chain `{found}`, and the bundle is about chain `{chain}`")]
    OtherKey { chain: String, found: String },
    #[error("the log is damaged, and nothing can be proved with it")]
    Damaged { source: Damage },
    #[error("old records were removed meanwhile; try again")]
    Removed,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not write the bundle")]
    Write { source: io::Error },
}

impl Store {
    /// Writes a bundle, and checks every position on the way.
    pub async fn export_signed(
        &self,
        selection: &Selection<'_>,
        out: &mut (dyn Write + Send),
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Exported, ExportError> {
        let chain = self.chain_of(selection).await?;
        let range = self.range(&chain, selection).await?;
        let mut text = wire::header(&chain.name, &range.trail.verifier, selection);
        text.push_str(&wire::start(range.trail.seq, &range.trail.hash));
        if let Some(note) = &range.first_note {
            text.push_str(&wire::checkpoint(note));
        }
        let (first, last) = (range.trail.seq + 1, range.last);
        let total = (last - range.trail.seq).unsigned_abs();
        let mut bundle = Bundle {
            selection,
            trail: range.trail,
            newest: range.newest,
            text,
            wax: Wax::default(),
            records: 0,
            signed: None,
        };
        while bundle.trail.seq < last {
            let to = last.min(bundle.trail.seq + STRETCH);
            let stretch = self.database().stretch(chain.number, bundle.trail.seq + 1, to).await?;
            if let Err(source) = bundle.add(stretch.positions(&bundle.trail, to), to) {
                let now = self.database().removal(chain.number).await?;
                let is_same = now.is_some_and(|now| now.seq == range.removed_seq);
                return Err(if is_same { ExportError::Damaged { source } } else { ExportError::Removed });
            }
            bundle.write(out)?;
            let done = (bundle.trail.seq + 1 - first).unsigned_abs();
            progress(Progress { done, total });
        }
        if bundle.signed != Some(last) {
            let key = selection.key.ok_or(ExportError::NotSignedYet { seq: last })?;
            let note = Checkpoint::sign(key, last, &bundle.trail.hash, selection.now_ms);
            bundle.text.push_str(&wire::checkpoint(&note));
        }
        bundle.write(out)?;
        if let Some(key) = selection.key {
            let seal = std::mem::take(&mut bundle.wax).seal(key, selection.now_ms);
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

    /// From the checkpoint before the first selected line to the one after the last.
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
        let mut trail = Trail::begin(chain, removal, &verifier).map_err(|source| ExportError::Damaged { source })?;
        let removed_seq = trail.seq;
        if trail.seq >= first {
            return Err(ExportError::Removed);
        }
        let mut first_note = None;
        let before = database.checkpoint(chain.number, Nearest::UpTo(first - 1)).await?;
        if let Some((seq, note)) = before.filter(|(seq, _)| *seq >= trail.seq && *seq > 0) {
            let wrong = Damage { seq, id: None, what: DamageKind::WrongCheckpoint };
            let opened = Checkpoint::open(&note, &verifier).ok().filter(|checkpoint| checkpoint.seq == seq);
            let checkpoint = opened.ok_or(ExportError::Damaged { source: wrong })?;
            (trail.seq, trail.hash) = (seq, checkpoint.hash);
            first_note = Some(note);
        }
        let newest = selection.newest.as_ref().map(|note| Checkpoint::open(note, &verifier)).transpose()?;
        let after = database.checkpoint(chain.number, Nearest::From(last)).await?;
        let last = match after {
            Some((seq, _)) => seq,
            None if selection.key.is_some() => last.max(newest.as_ref().map_or(0, |newest| newest.seq)),
            None => return Err(ExportError::NotSignedYet { seq: last }),
        };
        Ok(Range { trail, first_note, newest, last, removed_seq })
    }
}

struct Range {
    /// At the position before the first.
    trail: Trail,
    first_note: Option<String>,
    newest: Option<Checkpoint>,
    last: i64,
    removed_seq: i64,
}

/// A bundle while it is written.
struct Bundle<'s> {
    selection: &'s Selection<'s>,
    trail: Trail,
    newest: Option<Checkpoint>,
    /// What is to be written next.
    text: String,
    wax: Wax,
    records: u64,
    signed: Option<i64>,
}

impl Bundle<'_> {
    fn write(&mut self, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        out.write_all(self.text.as_bytes()).map_err(|source| ExportError::Write { source })?;
        self.wax.take(self.text.as_bytes());
        self.text.clear();
        Ok(())
    }

    fn add(&mut self, positions: crate::log::positions::Positions, last: i64) -> Result<(), Damage> {
        for position in &positions.list {
            let digest = self.trail.step(position)?;
            self.add_position(position, &digest);
            if let Some(newest) = self.newest.as_ref().filter(|newest| newest.seq == position.seq) {
                self.trail.look_at_checkpoint(newest)?;
            }
            for note in positions.notes.get(&position.seq).into_iter().flatten() {
                self.trail.look_at_note(note)?;
                self.text.push_str(&wire::checkpoint(note));
                self.signed = Some(position.seq);
            }
        }
        if self.trail.seq < last {
            return Err(Damage { seq: self.trail.seq + 1, id: None, what: DamageKind::Missing });
        }
        Ok(())
    }

    fn add_position(&mut self, position: &Position, digest: &Hash) {
        let hash = self.trail.hash;
        let Some(line) = self.selected(position) else {
            self.text.push_str(&wire::digest(digest, &hash));
            return;
        };
        self.text.push_str(&wire::line(&line.text, &hash));
        self.records += u64::from(line.is_first);
        for (name, part) in [("args", &line.args), ("result", &line.result)] {
            if let Some(Part { text: Some(text), .. }) = part {
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
