//! Explains the score of a tool, for `mcpproxy tools search --explain`.

use std::collections::HashSet;

use crate::search::candidates::{Candidates, VisibleTools};
use crate::search::merged::MergedIndex;
use crate::search::query::{Query, QueryWord};
use crate::search::rank::{self, SAME_SENSE, WordProbe};
use crate::search::texts::Texts;
use crate::search::typos;
use crate::search::words::{StemmedWord, compounds, is_stop_word, words};
use crate::search::{Field, FieldMatch, Index, MeaningSource, ScoreExplanation, WordMatch};
use crate::{Scope, ServerName, ToolName, Untrusted};

impl Index {
    /// Explains the score of a tool in a search. Returns `None` if the search cannot see the tool.
    pub fn explain(
        &self,
        query: &str,
        scope: &Scope,
        server: Option<&ServerName>,
        name: &ToolName,
    ) -> Option<ScoreExplanation> {
        let index = &self.merged;
        let visible = VisibleTools::of(index, scope, server);
        let number = index.server(name.server()).filter(|server| visible.sees(*server))?;
        let tool = index.named(name.tool()).find(|tool| index.server_of(*tool) == number as usize)?;
        let is_named = self.named(query, &visible) == Some(tool);
        let mended = typos::mend(query, index, &visible);
        let query = Query::read(&mended, index, self.encoder.as_deref());
        if query.words.is_empty() {
            return Some(ScoreExplanation { is_named, ..ScoreExplanation::default() });
        }
        // Keep the weights and servers of the search, but rank only this tool, whether it was a candidate or not.
        let candidates = Candidates { tools: vec![tool], ..Candidates::find(index, &query, &visible) };
        let (_, features) = rank::features(index, &query, &candidates, &visible).into_iter().next()?;
        let total = candidates.weights.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        let texts = Texts::of(index.tools.get(tool as usize)?);
        let own = OwnWords::of(index, tool, &texts);
        let words = query.words.iter().zip(&candidates.weights).map(|(word, weight)| WordMatch {
            word: Untrusted::new(word.as_written),
            weight: weight / total,
            places: own.places(word),
        });
        Some(ScoreExplanation {
            is_named,
            features,
            lexical: features.words,
            semantic: features.encoded.unwrap_or_else(|| features.meaning.max(features.sentence).max(features.request)),
            meaning_by: if features.encoded.is_some() { MeaningSource::Encoder } else { MeaningSource::Table },
            words: words.collect(),
        })
    }
}

/// The words of one tool by field, as the index has them.
struct OwnWords<'a> {
    index: &'a MergedIndex,
    /// With repetitions, because one of them may be spelled as in the query.
    fields: Vec<(Field, Vec<OwnWord<'a>>)>,
}

struct OwnWord<'a> {
    number: u32,
    as_written: &'a str,
    /// Only head words can match a different word.
    is_head: bool,
}

impl<'a> OwnWords<'a> {
    fn of(index: &'a MergedIndex, tool: u32, texts: &'a Texts) -> Self {
        let heads = index.heads_of.list(tool);
        let fields = Field::ALL.map(|field| {
            let mut found = Vec::new();
            let mut known = HashSet::new();
            for text in texts.field(field) {
                for word in words(text).into_iter().chain(compounds(text)) {
                    let Some(number) = read(index, field, &word, &mut known) else { continue };
                    let is_head = heads.contains(&number) && is_headed(field, texts, &word);
                    found.push(OwnWord { number, as_written: word.as_written, is_head });
                }
            }
            (field, found)
        });
        Self { index, fields: fields.into() }
    }

    /// Returns the fields that have a word or, if none does, the most similar word.
    fn places(&self, word: &QueryWord<'_>) -> Vec<FieldMatch> {
        let is_word = |own: &&OwnWord<'_>| word.number == Some(own.number) || word.together.contains(&own.number);
        let places = self.fields.iter().filter_map(|(field, own)| {
            let first = own.iter().find(is_word)?;
            let is_same = |own: &OwnWord<'_>| own.as_written.to_lowercase() == word.as_written.to_lowercase();
            let instead = if own.iter().any(is_same) { None } else { Some(Untrusted::new(first.as_written)) };
            Some(FieldMatch { field: *field, instead })
        });
        let places: Vec<FieldMatch> = places.collect();
        if places.is_empty() { self.likest(word) } else { places }
    }

    /// Returns the fields with the most similar word, and those that count as much.
    fn likest(&self, word: &QueryWord<'_>) -> Vec<FieldMatch> {
        let sought = WordProbe::of(word);
        let grade = |own: &OwnWord<'_>| {
            let meaning = self.index.meanings.get(own.number as usize);
            meaning.map_or(0.0, |meaning| sought.grade(own.number, meaning))
        };
        let graded = self.fields.iter().filter_map(|(field, own)| {
            let heads = own.iter().filter(|own| own.is_head).map(|own| (grade(own), own.as_written));
            let (best, as_written) = heads.max_by(|one, other| one.0.total_cmp(&other.0))?;
            (best > 0.0).then_some((best, *field, as_written))
        });
        let graded: Vec<(f32, Field, &str)> = graded.collect();
        let enough = graded.iter().map(|(grade, ..)| *grade).fold(0.0, f32::max).min(SAME_SENSE);
        let counting = graded.into_iter().filter(|(grade, ..)| *grade >= enough);
        counting.map(|(_, field, own)| FieldMatch { field, instead: Some(Untrusted::new(own)) }).collect()
    }
}

/// Returns the number of a word, if the index reads it in this field.
fn read(index: &MergedIndex, field: Field, word: &StemmedWord<'_>, known: &mut HashSet<u32>) -> Option<u32> {
    let number = index.word(&word.stem).filter(|_| !is_stop_word(&word.stem))?;
    let is_read = known.contains(&number) || known.len() < field.share().max_words;
    is_read.then(|| known.insert(number)).map(|_| number)
}

/// Returns `true` if a word at this position is a head word.
fn is_headed(field: Field, texts: &Texts, word: &StemmedWord<'_>) -> bool {
    match field {
        Field::Name | Field::Title | Field::Server => true,
        Field::Description => {
            let sentence = texts.first_sentence().as_bytes().as_ptr_range();
            sentence.contains(&word.as_written.as_ptr())
        }
        Field::Parameter | Field::ParameterDescription | Field::Contract => false,
    }
}
