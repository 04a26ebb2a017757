//! Verifies a bundle with the file and a key alone.

use std::io::{self, BufRead, Read as _};

use sha2::{Digest as _, Sha256};

use super::seal::SealHasher;
use super::wire::{self, BundleLine, ChainLine, Header, LineForm, PayloadDigest};
use crate::log::line::{Hash, digest, link, origin};
use crate::log::succession;
use crate::{Checkpoint, Progress, RecordId, Verifier};

/// Twice the size of the longest payload when escaped.
const LINE_MAX_BYTES: u64 = 1024 * 1024;
const PROGRESS_LINES: u64 = 10_000;

/// The result of verifying a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleVerdict {
    pub chain: String,
    /// `NAME+KEYID+KEY`
    pub verifier: String,
    pub key_from: KeyFrom,
    /// The first and the last position. Nothing between them is missing.
    pub first: i64,
    pub last: i64,
    /// The number of lines that are shown, and of those that appear as digests.
    pub lines: u64,
    pub digests: u64,
    pub payloads: u64,
    /// Payloads of shown lines that were erased before the export.
    pub erased: u64,
    pub checkpoints: u64,
    /// The time of the first checkpoint. `last_signed` is that of the last.
    pub first_signed: String,
    pub last_signed: String,
    /// The claimed time of the export.
    pub exported: String,
    /// `true` if the key of the chain signed the whole file. Without a seal, everything shown is genuine, but records
    /// may have been removed from the file after the export.
    pub is_sealed: bool,
    /// The shown records, oldest first.
    pub ids: Vec<RecordId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    /// The caller passed it in.
    Outside,
    /// It came with the bundle. An attacker who forges a bundle can also forge its key.
    Bundle,
}

#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("could not read the bundle")]
    Read { source: io::Error },
    #[error("bundle line {line}: {what}")]
    Form { line: u64, what: &'static str },
    #[error("bundle line {line}, position {seq}: {what}")]
    Position { line: u64, seq: i64, what: &'static str },
    #[error("bundle line {line}, position {seq} (record {id}): {what}")]
    Record { line: u64, seq: i64, id: RecordId, what: &'static str },
    #[error("the bundle is signed with the key of chain `{found}`, which is not the trusted key")]
    OtherKey { found: String },
}

/// Verifies a bundle. Without a trusted key, it uses the key in the bundle, and the verdict says so.
pub fn verify_bundle(
    mut reader: impl BufRead,
    trusted: Option<&Verifier>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BundleVerdict, BundleError> {
    let mut number = 0;
    let first = next_line(&mut reader, 1)?.ok_or(BundleError::Form { line: 1, what: "the file is empty" })?;
    let mut proof = Proof::begin(&first, trusted)?;
    loop {
        number += 1;
        let line_number = number + 1;
        let Some(text) = next_line(&mut reader, line_number)? else { break };
        proof.take(&text).map_err(|what| proof.error(line_number, what))?;
        proof.hasher.update(text.as_bytes());
        proof.hasher.update(b"\n");
        if number.is_multiple_of(PROGRESS_LINES) {
            progress(Progress { done: number, total: 0 });
        }
    }
    progress(Progress { done: number, total: number });
    proof.finish().map_err(|what| BundleError::Form { line: number, what })
}

/// Tells if the trusted key is the key of the bundle, or signed it through a succession of keys.
fn leads_to(trusted: &Verifier, notes: &[String], key: &Verifier) -> bool {
    let mut current = trusted.clone();
    for note in notes {
        if let Ok(new) = succession::open(note, &current) {
            current = new;
        }
    }
    *trusted == *key || current == *key
}

/// Reads a line and removes its line break, which it must have.
fn next_line(reader: &mut impl BufRead, line: u64) -> Result<Option<String>, BundleError> {
    let mut bytes = Vec::new();
    let read = reader.take(LINE_MAX_BYTES).read_until(b'\n', &mut bytes);
    read.map_err(|source| BundleError::Read { source })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.pop() != Some(b'\n') {
        let is_long = bytes.len() as u64 + 1 == LINE_MAX_BYTES;
        let what = if is_long { "the line is too long" } else { "the file ends in the middle of a line" };
        return Err(BundleError::Form { line, what });
    }
    String::from_utf8(bytes).map(Some).map_err(|_| BundleError::Form { line, what: "the line is not UTF-8" })
}

/// The problem with a line.
type What = &'static str;

/// The state of verifying a bundle, between two lines.
struct Proof {
    verifier: Verifier,
    key_from: KeyFrom,
    exported: String,
    /// `None` before the `start` line.
    at: Option<BundlePosition>,
    first: i64,
    counts: Counts,
    first_signed: Option<String>,
    last_signed: String,
    ids: Vec<RecordId>,
    hasher: SealHasher,
    is_sealed: bool,
}

#[derive(Default)]
struct Counts {
    lines: u64,
    digests: u64,
    payloads: u64,
    expected: u64,
    checkpoints: u64,
}

/// The current position, and the payloads that may follow it.
struct BundlePosition {
    seq: i64,
    hash: Hash,
    is_signed: bool,
    id: Option<RecordId>,
    /// Payloads that have not appeared yet, in order.
    parts: Vec<(&'static str, PayloadDigest)>,
}

impl Proof {
    fn begin(text: &str, trusted: Option<&Verifier>) -> Result<Self, BundleError> {
        let bad = |what| BundleError::Form { line: 1, what };
        let header: Header = serde_json::from_str(text).map_err(|_| bad("not the header of a bundle"))?;
        if header.bundle != wire::FORMAT || header.version != wire::VERSION {
            return Err(bad("not a bundle version that this mcpproxy supports; use a newer mcpproxy"));
        }
        let verifier = Verifier::parse(&header.verifier).filter(|verifier| verifier.to_string() == header.verifier);
        let verifier = verifier.ok_or_else(|| bad("the key is malformed"))?;
        if verifier.chain() != header.chain {
            return Err(bad("the key does not belong to the chain"));
        }
        if trusted.is_some_and(|trusted| !leads_to(trusted, &header.succession, &verifier)) {
            return Err(BundleError::OtherKey { found: header.chain });
        }
        if !is_time(&header.exported) {
            return Err(bad("the export time is malformed"));
        }
        let mut hasher = SealHasher::default();
        hasher.update(text.as_bytes());
        hasher.update(b"\n");
        Ok(Self {
            verifier,
            key_from: if trusted.is_some() { KeyFrom::Outside } else { KeyFrom::Bundle },
            exported: header.exported,
            at: None,
            first: 0,
            counts: Counts::default(),
            first_signed: None,
            last_signed: String::new(),
            ids: Vec::new(),
            hasher,
            is_sealed: false,
        })
    }

    fn take(&mut self, text: &str) -> Result<(), What> {
        if self.is_sealed {
            return Err("there is a line after the seal");
        }
        let row: BundleLine = serde_json::from_str(text).map_err(|_| "not a line of a bundle")?;
        match row {
            BundleLine::Start { start } => self.start(start.seq, &start.hash),
            BundleLine::Line { line, hash } => self.line(&line, &hash),
            BundleLine::Digest { digest, hash } => {
                let digest = wire::hash(&digest).ok_or("the digest is malformed")?;
                self.counts.digests += 1;
                self.advance(&digest, &hash).map(drop)
            }
            BundleLine::Payload { payload } => self.payload(&payload),
            BundleLine::Checkpoint { checkpoint } => self.checkpoint(&checkpoint),
            BundleLine::Seal { seal } => self.seal(&seal),
        }
    }

    fn seal(&mut self, note: &str) -> Result<(), What> {
        let hasher = std::mem::take(&mut self.hasher);
        self.is_sealed = hasher.verifies(note, &self.verifier);
        if self.is_sealed { Ok(()) } else { Err("the seal does not match; the bundle was changed after the export") }
    }

    fn start(&mut self, seq: i64, hash: &str) -> Result<(), What> {
        let hash = wire::hash(hash).ok_or("the hash is malformed")?;
        if self.at.is_some() || !(0..i64::MAX).contains(&seq) {
            return Err("a `start` line is not allowed here");
        }
        if seq == 0 && hash != origin(self.verifier.chain()) {
            return Err("the chain does not start with this hash");
        }
        self.first = seq + 1;
        // Position 0 needs no checkpoint: its hash follows from the name of the chain.
        self.at = Some(BundlePosition { seq, hash, is_signed: seq == 0, id: None, parts: Vec::new() });
        Ok(())
    }

    /// Moves to the next position and returns it.
    fn advance(&mut self, digest: &Hash, hash: &str) -> Result<i64, What> {
        let at = self.at.as_mut().ok_or("the `start` line is missing")?;
        let seq = at.seq.checked_add(1).ok_or("the position is too large")?;
        let linked = link(&at.hash, digest);
        *at = BundlePosition { seq, hash: linked, is_signed: false, id: None, parts: Vec::new() };
        if wire::hash(hash) == Some(linked) {
            Ok(seq)
        } else {
            Err("the record does not match its hash; it was changed")
        }
    }

    fn line(&mut self, text: &str, hash: &str) -> Result<(), What> {
        let seq = self.advance(&digest(text), hash)?;
        let line: ChainLine = serde_json::from_str(text).map_err(|_| "not a line of a chain")?;
        let id =
            RecordId::parse(&line.id).filter(|id| id.to_string() == line.id).ok_or("the record id is malformed")?;
        if line.seq != seq {
            return Err("the position in the line is wrong");
        }
        if line.line != LineForm::End {
            self.ids.push(id);
        }
        self.counts.lines += 1;
        let parts: Vec<_> = [("args", line.args), ("result", line.result)]
            .into_iter()
            .filter_map(|(name, facts)| Some((name, facts?)))
            .collect();
        self.counts.expected += parts.len() as u64;
        if let Some(at) = &mut self.at {
            (at.id, at.parts) = (Some(id), parts);
        }
        Ok(())
    }

    fn payload(&mut self, payload: &wire::Payload) -> Result<(), What> {
        let at = self.at.as_mut().filter(|at| at.seq >= self.first).ok_or("a payload without a record")?;
        if at.id.is_none_or(|id| id.to_string() != payload.id) {
            return Err("the payload belongs to another record");
        }
        let known = at.parts.iter().position(|(name, _)| *name == payload.part);
        let facts = known.and_then(|index| at.parts.drain(..=index).next_back());
        let (_, facts) = facts.ok_or("the record has no such payload")?;
        let expected = facts.kept_sha256.as_ref().unwrap_or(&facts.sha256);
        let found: Hash = Sha256::digest(payload.text.as_bytes()).into();
        if wire::hash(expected) != Some(found) {
            return Err("the payload does not match its digest; it was changed");
        }
        self.counts.payloads += 1;
        Ok(())
    }

    fn checkpoint(&mut self, note: &str) -> Result<(), What> {
        let at = self.at.as_mut().ok_or("a checkpoint before the `start` line")?;
        if at.is_signed {
            return Err("a second checkpoint for this position");
        }
        let checkpoint = Checkpoint::open(note, &self.verifier)
            .map_err(|_| "the checkpoint was not signed with the key of this chain")?;
        if checkpoint.seq != at.seq || checkpoint.hash != at.hash {
            return Err("the checkpoint was signed for another position or hash");
        }
        at.is_signed = true;
        // Payloads are not allowed after a checkpoint.
        at.id = None;
        self.counts.checkpoints += 1;
        self.first_signed.get_or_insert_with(|| checkpoint.time.clone());
        self.last_signed = checkpoint.time;
        Ok(())
    }

    fn error(&self, line: u64, what: What) -> BundleError {
        match &self.at {
            Some(BundlePosition { seq, id: Some(id), .. }) => BundleError::Record { line, seq: *seq, id: *id, what },
            Some(BundlePosition { seq, .. }) if *seq >= self.first => BundleError::Position { line, seq: *seq, what },
            _ => BundleError::Form { line, what },
        }
    }

    fn finish(self) -> Result<BundleVerdict, What> {
        let at = self.at.filter(|at| at.seq >= self.first).ok_or("the bundle has no records")?;
        if !at.is_signed {
            return Err("the last position is not signed; lines may be missing at the end");
        }
        Ok(BundleVerdict {
            chain: self.verifier.chain().to_owned(),
            verifier: self.verifier.to_string(),
            key_from: self.key_from,
            first: self.first,
            last: at.seq,
            lines: self.counts.lines,
            digests: self.counts.digests,
            payloads: self.counts.payloads,
            erased: self.counts.expected - self.counts.payloads,
            checkpoints: self.counts.checkpoints,
            first_signed: self.first_signed.unwrap_or_else(|| self.last_signed.clone()),
            last_signed: self.last_signed,
            exported: self.exported,
            is_sealed: self.is_sealed,
            ids: self.ids,
        })
    }
}

/// `2000-01-01T00:00:00.000Z`
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000Z";
    let fits = |(form, found): (char, char)| if form == '0' { found.is_ascii_digit() } else { form == found };
    text.len() == form.len() && form.chars().zip(text.chars()).all(fits)
}
