//! The JSON of a search.

use mcpproxy_core as core;
use mcpproxy_gateway::Searched;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

#[derive(Serialize, ToSchema)]
pub(crate) struct FoundTools {
    tools: Vec<FoundTool>,
    /// Why there are none, and what to do.
    note: Option<String>,
}

/// A tool as agents are told of it in brief, with its `score` from 0 to 1.
#[derive(Serialize, ToSchema)]
struct FoundTool {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    tool: Value,
    /// Why it has its score, if that was asked for.
    why: Option<Why>,
}

#[derive(Serialize, ToSchema)]
struct Why {
    /// From 0 to 1: how much of the query, by the weight of its words, the tool's own words cover.
    lexical: f32,
    /// From -1 to 1: how near the meaning of the tool is to that of the query.
    semantic: f32,
    /// The words of the query, in their order.
    words: Vec<WordMatch>,
}

#[derive(Serialize, ToSchema)]
struct WordMatch {
    word: String,
    /// From 0 to 1: the share of this word in the query. A rare word has more than a common one.
    weight: f32,
    /// Where the tool has it; none if it has not.
    places: Vec<Place>,
}

#[derive(Serialize, ToSchema)]
struct Place {
    #[schema(schema_with = fields)]
    field: &'static str,
    /// The tool's own word, where it is not the query's: another form, or one that means the same.
    instead: Option<String>,
}

impl From<Searched> for FoundTools {
    fn from(searched: Searched) -> Self {
        let tools = searched.tools.into_iter();
        Self {
            tools: tools.map(|(tool, why)| FoundTool { tool, why: why.map(Into::into) }).collect(),
            note: searched.note,
        }
    }
}

impl From<core::Why> for Why {
    fn from(why: core::Why) -> Self {
        let (lexical, semantic) = (rounded(why.lexical), rounded(why.semantic));
        Self { lexical, semantic, words: why.words.into_iter().map(Into::into).collect() }
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

/// More digits say nothing more.
fn rounded(number: f32) -> f32 {
    (number * 1000.0).round() / 1000.0
}

fn fields() -> Object {
    use core::Field::{Contract, Description, Name, Parameter, ParameterDescription, Server, Title};
    let all = [Name, Title, Server, Description, Parameter, ParameterDescription, Contract];
    super::words("Where a word of the tool stands.", all.map(core::Field::as_str))
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::{Field, Untrusted};
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_stand_beside_the_tool() {
        let place = |field: Field, instead: Option<&str>| core::Place { field, instead: instead.map(Untrusted::new) };
        let why = core::Why {
            lexical: 0.123_456,
            semantic: -0.5,
            words: vec![
                core::WordMatch {
                    word: Untrusted::new("remove"),
                    weight: 0.75,
                    places: vec![place(Field::Name, Some("delete")), place(Field::ParameterDescription, None)],
                },
                core::WordMatch { word: Untrusted::new("it\u{1b}"), weight: 0.25, places: vec![] },
            ],
        };
        let searched = Searched { tools: vec![(json!({"name": "a:b", "score": 0.5}), Some(why))], note: None };
        let expected = json!({"tools": [{"name": "a:b", "score": 0.5, "why": {"lexical": 0.123, "semantic": -0.5, "words": [
            {"word": "remove", "weight": 0.75, "places": [
                {"field": "name", "instead": "delete"}, {"field": "parameter description", "instead": null}]},
            {"word": "it\u{1b}", "weight": 0.25, "places": []},
        ]}}], "note": null});
        let text = serde_json::to_string(&FoundTools::from(searched)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        let nothing = Searched { tools: vec![(json!({"name": "a:b"}), None)], note: Some("No tool fits.".to_owned()) };
        let expected = json!({"tools": [{"name": "a:b", "why": null}], "note": "No tool fits."});
        assert_eq!(serde_json::to_value(FoundTools::from(nothing)).unwrap(), expected);
    }
}
