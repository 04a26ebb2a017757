//! The JSON types of a tool search.

use mcpproxy_core as core;
use mcpproxy_gateway::SearchResults;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

#[derive(Serialize, ToSchema)]
pub(crate) struct FoundTools {
    tools: Vec<FoundTool>,
    /// Reason why no tool was found, and advice for the next step.
    note: Option<String>,
}

/// A tool as agents find it, with its `score` from 0 to 1.
#[derive(Serialize, ToSchema)]
struct FoundTool {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    tool: Value,
    /// Explanation of the score, if `explain` is true.
    why: Option<Why>,
}

#[derive(Serialize, ToSchema)]
struct Why {
    /// True if the query is the name of the tool. The score is then 1.
    named: bool,
    /// From 0 to 1: the share of the query, by word weight, that the words of the tool cover.
    lexical: f32,
    /// From 0 to 1: the semantic similarity of the tool and the query.
    semantic: f32,
    /// The source of the similarity: the encoder, or the table of word meanings.
    #[schema(schema_with = meaning_sources)]
    meaning_by: &'static str,
    /// The parts of the score.
    features: Vec<Feature>,
    /// The words of the query, in order.
    words: Vec<WordMatch>,
}

#[derive(Serialize, ToSchema)]
struct Feature {
    #[schema(schema_with = feature_names)]
    name: &'static str,
    /// From about 0 to about 1.
    value: f32,
    /// The contribution to the score.
    adds: f32,
}

#[derive(Serialize, ToSchema)]
struct WordMatch {
    word: String,
    /// From 0 to 1: the weight of this word in the query. Rare words weigh more.
    weight: f32,
    /// The places where the tool has this word. Empty if it does not.
    places: Vec<Place>,
}

#[derive(Serialize, ToSchema)]
struct Place {
    #[schema(schema_with = fields)]
    field: &'static str,
    /// The word of the tool, if it differs: another form or a synonym.
    instead: Option<String>,
}

impl From<SearchResults> for FoundTools {
    fn from(searched: SearchResults) -> Self {
        let tools = searched.tools.into_iter();
        Self {
            tools: tools.map(|(tool, why)| FoundTool { tool, why: why.map(Into::into) }).collect(),
            note: searched.note,
        }
    }
}

impl From<core::ScoreExplanation> for Why {
    fn from(why: core::ScoreExplanation) -> Self {
        let features = why.features.parts();
        let feature = |(name, value, adds)| Feature { name, value: rounded(value), adds: rounded(adds) };
        Self {
            named: why.is_named,
            lexical: rounded(why.lexical),
            semantic: rounded(why.semantic),
            meaning_by: why.meaning_by.as_str(),
            features: features.map(feature).collect(),
            words: why.words.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<core::WordMatch> for WordMatch {
    fn from(found: core::WordMatch) -> Self {
        let places = found.places.into_iter().map(|place| Place {
            field: place.field.as_str(),
            instead: place.instead.map(|word| word.for_json().to_owned()),
        });
        Self { word: found.word.for_json().to_owned(), weight: rounded(found.weight), places: places.collect() }
    }
}

/// Rounds to three digits.
fn rounded(number: f32) -> f32 {
    (number * 1000.0).round() / 1000.0
}

fn meaning_sources() -> Object {
    use core::MeaningSource::{Encoder, Table};
    super::words("The source of the similarity of meaning.", [Encoder, Table].map(core::MeaningSource::as_str))
}

fn feature_names() -> Object {
    super::words("A part of the score.", core::Features::NAMES)
}

fn fields() -> Object {
    use core::Field::{Contract, Description, Name, Parameter, ParameterDescription, Server, Title};
    let all = [Name, Title, Server, Description, Parameter, ParameterDescription, Contract];
    super::words("The field of the tool that contains the word.", all.map(core::Field::as_str))
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::{Field, Untrusted};
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_stand_beside_the_tool() {
        let place =
            |field: Field, instead: Option<&str>| core::FieldMatch { field, instead: instead.map(Untrusted::new) };
        let why = core::ScoreExplanation {
            is_named: true,
            lexical: 0.123_456,
            semantic: 0.5,
            meaning_by: core::MeaningSource::Table,
            features: core::Features { meaning: 0.5, name: 1.0, ..core::Features::default() },
            words: vec![
                core::WordMatch {
                    word: Untrusted::new("remove"),
                    weight: 0.75,
                    places: vec![place(Field::Name, Some("delete")), place(Field::ParameterDescription, None)],
                },
                core::WordMatch { word: Untrusted::new("it\u{1b}"), weight: 0.25, places: vec![] },
            ],
        };
        let adds = why.features.adds().map(|adds| rounded(adds).to_string().parse::<f64>().unwrap());
        let features = json!([
            {"name": "meaning", "value": 0.5, "adds": adds[0]},
            {"name": "sentence", "value": 0.0, "adds": 0.0},
            {"name": "request", "value": 0.0, "adds": 0.0},
            {"name": "parameters", "value": 0.0, "adds": 0.0},
            {"name": "words", "value": 0.0, "adds": 0.0},
            {"name": "name", "value": 1.0, "adds": adds[5]},
            {"name": "server", "value": 0.0, "adds": 0.0},
        ]);
        let searched = SearchResults { tools: vec![(json!({"name": "a:b", "score": 0.5}), Some(why))], note: None };
        let expected = json!({"tools": [{"name": "a:b", "score": 0.5, "why": {"named": true, "lexical": 0.123, "semantic": 0.5,
            "meaning_by": "table",
            "features": features, "words": [
            {"word": "remove", "weight": 0.75, "places": [
                {"field": "name", "instead": "delete"}, {"field": "parameter description", "instead": null}]},
            {"word": "it\u{1b}", "weight": 0.25, "places": []},
        ]}}], "note": null});
        let text = serde_json::to_string(&FoundTools::from(searched)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        let nothing =
            SearchResults { tools: vec![(json!({"name": "a:b"}), None)], note: Some("No tool fits.".to_owned()) };
        let expected = json!({"tools": [{"name": "a:b", "why": null}], "note": "No tool fits."});
        assert_eq!(serde_json::to_value(FoundTools::from(nothing)).unwrap(), expected);
    }
}
