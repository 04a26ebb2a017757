//! Reads the tools of one server for the search: words, weights and vectors.
//!
//! Reading is the expensive part of an index. A section depends on its own server alone, so every later index reuses it
//! until the server changes. That is also why words have numbers per section: the numbers of the whole index change.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use crate::catalog::{Offered, Tool};
use crate::contract::Effective;
use crate::search::Field;
use crate::search::encoded::ToolVector;
use crate::search::table::{self, DIMENSIONS, Vector};
use crate::search::texts::{REPEATS_MAX, Texts};
use crate::search::words::{StemmedWord, compounds, is_stop_word, spaced, words};

#[derive(Debug)]
pub(super) struct ServerSection {
    /// The tools and contracts it was made from.
    sources: Vec<(Arc<Offered>, Arc<Effective>)>,
    /// The different words of this server.
    pub(super) stems: Vec<Box<str>>,
    pub(super) entries: Vec<Entry>,
}

/// One tool as the search sees it. Words are indices into `ServerSection::stems`.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Hash of the name without its server.
    pub(super) name_hash: u32,
    /// The different words, sorted by number, with their weights.
    pub(super) words: Vec<(u32, f32)>,
    /// The head words: those of the name, then those of title, server and first sentence.
    pub(super) heads: Vec<u32>,
    pub(super) name_words: usize,
    pub(super) meaning: Option<Vector>,
    pub(super) parameters: Option<Vector>,
    /// The vector of the encoder, once it was supplied. Boxed, so that a tool without one takes no room for it.
    pub(super) encoded: OnceLock<Box<ToolVector>>,
}

impl ServerSection {
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Arc<Tool>>) -> Self {
        let mut vocabulary = Vocabulary::default();
        let (mut sources, mut entries) = (Vec::new(), Vec::new());
        for tool in tools {
            sources.push((Arc::clone(&tool.offered), Arc::clone(&tool.contract)));
            entries.push(entry(&Texts::of(tool), &mut vocabulary));
        }
        Self { sources, stems: vocabulary.stems, entries }
    }

    /// Returns `true` if these tools would give the same section.
    pub(super) fn is_of<'a>(&self, mut tools: impl ExactSizeIterator<Item = &'a Arc<Tool>>) -> bool {
        self.sources.len() == tools.len()
            && self.sources.iter().all(|(offered, contract)| {
                tools.next().is_some_and(|tool| {
                    Arc::ptr_eq(offered, &tool.offered)
                        && (Arc::ptr_eq(contract, &tool.contract) || reads_alike(contract, &tool.contract))
                })
            })
    }
}

/// Returns `true` if two contracts have the same texts for the search.
fn reads_alike(one: &Effective, other: &Effective) -> bool {
    one.category == other.category && one.side_effects == other.side_effects && one.description == other.description
}

#[derive(Default)]
struct Vocabulary {
    numbers: HashMap<Box<str>, u32>,
    stems: Vec<Box<str>>,
}

impl Vocabulary {
    fn known(&self, word: &StemmedWord<'_>) -> Option<u32> {
        self.numbers.get(word.stem.as_ref()).copied()
    }

    fn number(&mut self, word: &StemmedWord<'_>) -> u32 {
        if let Some(number) = self.known(word) {
            return number;
        }
        let number = u32::try_from(self.stems.len()).unwrap_or(u32::MAX);
        self.numbers.insert(word.stem.as_ref().into(), number);
        self.stems.push(word.stem.as_ref().into());
        number
    }
}

fn entry(texts: &Texts, vocabulary: &mut Vocabulary) -> Entry {
    let mut weights: HashMap<u32, f32> = HashMap::new();
    for field in Field::ALL {
        add(field, &texts.field(field), vocabulary, &mut weights);
    }
    let mut words: Vec<(u32, f32)> = weights.into_iter().collect();
    words.sort_unstable_by_key(|(word, _)| *word);

    let mut heads = Vec::new();
    push_heads(&texts.name, vocabulary, &mut heads);
    let name_words = heads.len();
    for text in [texts.title.as_str(), texts.server.as_str(), texts.first_sentence()] {
        push_heads(text, vocabulary, &mut heads);
    }
    let name_hash = name_hash(&texts.name);
    let (meaning, parameters) = (meaning(texts), parameters(texts));
    Entry { name_hash, words, heads, name_words, meaning, parameters, encoded: OnceLock::new() }
}

/// Hashes a name. Different names may share a hash, so compare the names, too.
pub(super) fn name_hash(name: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() as u32
}

/// Adds the weights of the words of a field.
fn add(field: Field, texts: &[&str], vocabulary: &mut Vocabulary, weights: &mut HashMap<u32, f32>) {
    let share = field.share();
    let mut counts: HashMap<u32, u32> = HashMap::new();
    let mut length = 0_u32;
    for text in texts {
        // `CoinGecko` counts as `coin`, `gecko` and `coingecko`, because queries write it either way.
        for word in words(text).iter().chain(&compounds(text)) {
            if is_stop_word(&word.stem) {
                continue;
            }
            length += 1;
            if counts.len() < share.max_words {
                *counts.entry(vocabulary.number(word)).or_default() += 1;
            } else if let Some(count) = vocabulary.known(word).and_then(|number| counts.get_mut(&number)) {
                // Words beyond the limit get no number, because each number costs memory in every index.
                *count += 1;
            }
        }
    }
    let relative = length as f32 / share.usual_words;
    let norm = share.weight / (1.0 - share.length_matters + share.length_matters * relative);
    for (number, count) in counts {
        *weights.entry(number).or_default() += norm * count.min(REPEATS_MAX) as f32;
    }
}

/// Maximum number of head words of a tool.
const HEADS_MAX: usize = 24;

fn push_heads(text: &str, vocabulary: &mut Vocabulary, heads: &mut Vec<u32>) {
    for word in words(text).iter().filter(|word| !is_stop_word(&word.stem)) {
        if heads.len() >= HEADS_MAX {
            break;
        }
        let number = vocabulary.number(word);
        if !heads.contains(&number) {
            heads.push(number);
        }
    }
}

/// Computes the mean of two vectors, one of the names and one of the first sentence. One vector of the whole text is
/// worse, because a long description drowns the verb.
fn meaning(texts: &Texts) -> Option<Vector> {
    let called = [&texts.server, &texts.name, &texts.title].map(|text| spaced(text)).join(" ");
    let parts = [table::embed(&called), table::embed(texts.first_sentence())];
    let mut sum = [0.0; DIMENSIONS];
    for part in parts.iter().flatten() {
        for (sum, value) in sum.iter_mut().zip(part) {
            *sum += value;
        }
    }
    table::unit(&sum).map(|vector| table::quantise(&vector))
}

fn parameters(texts: &Texts) -> Option<Vector> {
    let names: Vec<String> =
        texts.parameters.iter().take(Field::Parameter.share().max_words).map(|name| spaced(name)).collect();
    table::embed(&names.join(" ")).map(|vector| table::quantise(&vector))
}
