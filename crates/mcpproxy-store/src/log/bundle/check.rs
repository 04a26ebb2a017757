//! Checking a bundle, with nothing but the file and a key.

use std::io::{self, BufRead, Read as _};

use sha2::{Digest as _, Sha256};

use super::seal::Wax;
use super::wire::{self, ChainLine, Facts, Form, Header, Row};
use crate::log::line::{Hash, digest, link, origin};
use crate::{Checkpoint, Progress, RecordId, Verifier};

/// The longest payload, escaped, fits twice.
const LINE_MAX_BYTES: u64 = 1024 * 1024;
const PROGRESS_LINES: u64 = 10_000;

/// What a bundle proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleVerdict {
    pub chain: String,
    /// `NAME+KEYID+KEY`
    pub verifier: String,
    pub key_from: KeyFrom,
    /// The first and the last position: nothing between is missing.
    pub first: i64,
    pub last: i64,
    /// How many lines are shown, and of how many there is the digest only.
    pub lines: u64,
    pub digests: u64,
    pub payloads: u64,
    /// Payloads of lines that are shown, which are not kept any more.
    pub erased: u64,
    pub checkpoints: u64,
    /// When the first and the last checkpoint were signed.
    pub first_signed: String,
    pub last_signed: String,
    /// As the bundle claims.
    pub exported: String,
    /// Whether the chain's key signed the bundle as a whole. Without that, what is shown is true, but some of what its
    /// maker showed may have been withheld since.
    pub is_sealed: bool,
    /// The records that are shown, oldest first.
    pub ids: Vec<RecordId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    /// It is the one that was handed in.
    Outside,
    /// It came with the bundle: whoever made the bundle could have made the key.
    Bundle,
}

#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("could not read the bundle")]
    Read { source: io::Error },
    #[error("line {line} of the bundle: {what}")]
    Form { line: u64, what: &'static str },
    #[error("line {line} of the bundle, position {seq}: {what}")]
    Position { line: u64, seq: i64, what: &'static str },
    #[error("line {line} of the bundle, position {seq} (record {id}): {what}")]
    Record { line: u64, seq: i64, id: RecordId, what: &'static str },
    #[error("the bundle is signed with the key of chain `{found}`, which is not the one that is trusted")]
    OtherKey { found: String },
}

/// Reads a bundle to its end. Without a trusted key, the one in the bundle is used, and the verdict says so.
pub fn verify_bundle(
    mut reader: impl BufRead,
    trusted: Option<&Verifier>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BundleVerdict, BundleError> {
    let mut number = 0;
    let first = next_line(&mut reader, 1)?.ok_or(BundleError::Form { line: 1, what: "it is empty" })?;
    let mut proof = Proof::begin(&first, trusted)?;
    loop {
        number += 1;
        let line_number = number + 1;
        let Some(text) = next_line(&mut reader, line_number)? else { break };
        proof.take(&text).map_err(|what| proof.error(line_number, what))?;
        proof.wax.take(text.as_bytes());
        proof.wax.take(b"\n");
        if number.is_multiple_of(PROGRESS_LINES) {
            progress(Progress { done: number, total: 0 });
        }
    }
    progress(Progress { done: number, total: number });
    proof.finish().map_err(|what| BundleError::Form { line: number, what })
}

/// Without its line break, which it must have.
fn next_line(reader: &mut impl BufRead, line: u64) -> Result<Option<String>, BundleError> {
    let mut bytes = Vec::new();
    let read = reader.take(LINE_MAX_BYTES).read_until(b'\n', &mut bytes);
    read.map_err(|source| BundleError::Read { source })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.pop() != Some(b'\n') {
        let is_long = bytes.len() as u64 + 1 == LINE_MAX_BYTES;
        let what = if is_long { "it is too long" } else { "it ends in the middle of a line" };
        return Err(BundleError::Form { line, what });
    }
    String::from_utf8(bytes).map(Some).map_err(|_| BundleError::Form { line, what: "it is not UTF-8" })
}

/// What is wrong with a line.
type What = &'static str;

/// The state between two lines of the file.
struct Proof {
    verifier: Verifier,
    key_from: KeyFrom,
    exported: String,
    /// `None` before the line that says where the chain is taken up.
    at: Option<At>,
    first: i64,
    counts: Counts,
    first_signed: Option<String>,
    last_signed: String,
    ids: Vec<RecordId>,
    wax: Wax,
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

/// A position, and what may still follow it.
struct At {
    seq: i64,
    hash: Hash,
    is_signed: bool,
    id: Option<RecordId>,
    /// The payloads that have not come yet, in their order.
    parts: Vec<(&'static str, Facts)>,
}

impl Proof {
    fn begin(text: &str, trusted: Option<&Verifier>) -> Result<Self, BundleError> {
        let bad = |what| BundleError::Form { line: 1, what };
        let header: Header = serde_json::from_str(text).map_err(|_| bad("it is not the first line of a bundle"))?;
        if header.bundle != wire::FORMAT || header.version != wire::VERSION {
            return Err(bad("it is not a bundle of a version that this mcpproxy knows"));
        }
        let verifier = Verifier::parse(&header.verifier).filter(|verifier| verifier.to_string() == header.verifier);
        let verifier = verifier.ok_or_else(|| bad("its key is not a key of a chain"))?;
        if verifier.chain() != header.chain {
            return Err(bad("its key is not the key of its chain"));
        }
        if trusted.is_some_and(|trusted| *trusted != verifier) {
            return Err(BundleError::OtherKey { found: header.chain });
        }
        if !is_time(&header.exported) {
            return Err(bad("its time is not a time"));
        }
        let mut wax = Wax::default();
        wax.take(text.as_bytes());
        wax.take(b"\n");
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
            wax,
            is_sealed: false,
        })
    }

    fn take(&mut self, text: &str) -> Result<(), What> {
        if self.is_sealed {
            return Err("there is more after the seal");
        }
        let row: Row = serde_json::from_str(text).map_err(|_| "it is not a line of a bundle")?;
        match row {
            Row::Start { start } => self.start(start.seq, &start.hash),
            Row::Line { line, hash } => self.line(&line, &hash),
            Row::Digest { digest, hash } => {
                let digest = wire::hash(&digest).ok_or("its digest is no digest")?;
                self.counts.digests += 1;
                self.advance(&digest, &hash).map(drop)
            }
            Row::Payload { payload } => self.payload(&payload),
            Row::Checkpoint { checkpoint } => self.checkpoint(&checkpoint),
            Row::Seal { seal } => self.seal(&seal),
        }
    }

    /// Everything before it is as it was when it was exported, and there is nothing after it.
    fn seal(&mut self, note: &str) -> Result<(), What> {
        let wax = std::mem::take(&mut self.wax);
        self.is_sealed = wax.fits(note, &self.verifier);
        if self.is_sealed { Ok(()) } else { Err("its seal does not fit: the bundle was changed after it was made") }
    }

    fn start(&mut self, seq: i64, hash: &str) -> Result<(), What> {
        let hash = wire::hash(hash).ok_or("its hash is no hash")?;
        if self.at.is_some() || !(0..i64::MAX).contains(&seq) {
            return Err("the chain cannot be taken up here");
        }
        if seq == 0 && hash != origin(self.verifier.chain()) {
            return Err("the chain does not begin like this");
        }
        self.first = seq + 1;
        // Before the first line there is nothing to sign.
        self.at = Some(At { seq, hash, is_signed: seq == 0, id: None, parts: Vec::new() });
        Ok(())
    }

    /// Goes on to the next position, and returns it.
    fn advance(&mut self, digest: &Hash, hash: &str) -> Result<i64, What> {
        let at = self.at.as_mut().ok_or("nothing says where the chain is taken up")?;
        let seq = at.seq.checked_add(1).ok_or("there is no such position")?;
        let linked = link(&at.hash, digest);
        *at = At { seq, hash: linked, is_signed: false, id: None, parts: Vec::new() };
        if wire::hash(hash) == Some(linked) { Ok(seq) } else { Err("its content does not match its hash") }
    }

    fn line(&mut self, text: &str, hash: &str) -> Result<(), What> {
        let seq = self.advance(&digest(text), hash)?;
        let line: ChainLine = serde_json::from_str(text).map_err(|_| "it is not a line of a chain")?;
        let id = RecordId::parse(&line.id).filter(|id| id.to_string() == line.id).ok_or("its id is no id")?;
        if line.seq != seq {
            return Err("it stands at another position than it says");
        }
        if line.line != Form::End {
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
        let at = self.at.as_mut().filter(|at| at.seq >= self.first).ok_or("a payload without a line")?;
        if at.id.is_none_or(|id| id.to_string() != payload.id) {
            return Err("a payload of another record");
        }
        let known = at.parts.iter().position(|(name, _)| *name == payload.part);
        let facts = known.and_then(|index| at.parts.drain(..=index).next_back());
        let (_, facts) = facts.ok_or("a payload that the record does not speak of")?;
        let expected = facts.kept_sha256.as_ref().unwrap_or(&facts.sha256);
        let found: Hash = Sha256::digest(payload.text.as_bytes()).into();
        if wire::hash(expected) != Some(found) {
            return Err("its payload does not match its digest");
        }
        self.counts.payloads += 1;
        Ok(())
    }

    fn checkpoint(&mut self, note: &str) -> Result<(), What> {
        let at = self.at.as_mut().ok_or("a checkpoint without a position")?;
        if at.is_signed {
            return Err("a checkpoint where none is expected");
        }
        let checkpoint = Checkpoint::open(note, &self.verifier)
            .map_err(|_| "its checkpoint was not signed with the key of the chain")?;
        if checkpoint.seq != at.seq || checkpoint.hash != at.hash {
            return Err("its checkpoint was signed for something else");
        }
        at.is_signed = true;
        // Payloads come before.
        at.id = None;
        self.counts.checkpoints += 1;
        self.first_signed.get_or_insert_with(|| checkpoint.time.clone());
        self.last_signed = checkpoint.time;
        Ok(())
    }

    fn error(&self, line: u64, what: What) -> BundleError {
        match &self.at {
            Some(At { seq, id: Some(id), .. }) => BundleError::Record { line, seq: *seq, id: *id, what },
            Some(At { seq, .. }) if *seq >= self.first => BundleError::Position { line, seq: *seq, what },
            _ => BundleError::Form { line, what },
        }
    }

    fn finish(self) -> Result<BundleVerdict, What> {
        let at = self.at.filter(|at| at.seq >= self.first).ok_or("there is nothing after it")?;
        if !at.is_signed {
            return Err("the last position is not signed: something may have been cut off");
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
