//! Collects the texts of a tool by field, and limits how much each field counts.

use crate::catalog::Tool;
use crate::json::{Members, members, string_value};
use crate::search::Field;

/// The texts of a tool.
pub(super) struct Texts {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) server: String,
    pub(super) description: String,
    pub(super) parameters: Vec<String>,
    pub(super) parameter_descriptions: Vec<String>,
    /// Category, side effects and the operator's own description.
    pub(super) contract: Vec<String>,
}

/// The weight of a field, and how much of it is read.
pub(super) struct FieldShare {
    /// Weight of a word, compared with one in the description.
    pub(super) weight: f32,
    /// Typical number of words. This is a constant and not an average, so that other servers cannot change a score.
    pub(super) usual_words: f32,
    /// Factor from 0 to 1 by which a longer field reduces the weight of its words.
    pub(super) length_matters: f32,
    /// Maximum number of different words, so that a long description does not match every query.
    pub(super) max_words: usize,
}

/// Repetitions of a word beyond this number add nothing.
pub(super) const REPEATS_MAX: u32 = 3;

impl Field {
    pub(super) const ALL: [Self; 7] = [
        Self::Name,
        Self::Title,
        Self::Server,
        Self::Description,
        Self::Parameter,
        Self::ParameterDescription,
        Self::Contract,
    ];

    pub(super) const fn share(self) -> FieldShare {
        let (weight, usual_words, length_matters, max_words) = match self {
            Self::Name => (2.2, 3.0, 0.5, 16),
            Self::Title => (1.5, 3.0, 0.5, 16),
            Self::Server => (1.4, 2.0, 0.5, 8),
            Self::Description => (1.0, 24.0, 0.7, 100),
            Self::Parameter => (0.7, 6.0, 0.7, 60),
            Self::ParameterDescription => (0.45, 40.0, 0.6, 150),
            Self::Contract => (0.7, 12.0, 0.7, 60),
        };
        FieldShare { weight, usual_words, length_matters, max_words }
    }
}

impl Texts {
    pub(super) fn of(tool: &Tool) -> Self {
        let fields = members(&tool.offered.json).unwrap_or_default();
        let schema = find(&fields, "inputSchema").and_then(members).unwrap_or_default();
        let properties = find(&schema, "properties").and_then(members).unwrap_or_default();
        let annotations = find(&fields, "annotations").and_then(members).unwrap_or_default();
        let title = text(&fields, "title").or_else(|| text(&annotations, "title"));
        let described = properties.iter().filter_map(|(_, schema)| text(&members(schema)?, "description"));
        let contract = &tool.contract;
        let category = contract.category.iter().map(|category| category.value.clone());
        let effects = contract.side_effects.value.iter().map(|effect| effect.for_json().to_owned());
        let own_words = contract.description.iter().map(|description| description.value.for_json().to_owned());
        Self {
            name: tool.name.tool().to_owned(),
            title: title.unwrap_or_default(),
            server: tool.name.server().as_str().to_owned(),
            description: tool.offered.description.for_json().to_owned(),
            parameter_descriptions: described.collect(),
            parameters: properties.iter().map(|(name, _)| name.as_ref().to_owned()).collect(),
            contract: category.chain(effects).chain(own_words).collect(),
        }
    }

    pub(super) fn field(&self, field: Field) -> Vec<&str> {
        match field {
            Field::Name => vec![&self.name],
            Field::Title => vec![&self.title],
            Field::Server => vec![&self.server],
            Field::Description => vec![&self.description],
            Field::Parameter => self.parameters.iter().map(String::as_str).collect(),
            Field::ParameterDescription => self.parameter_descriptions.iter().map(String::as_str).collect(),
            Field::Contract => self.contract.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the first sentence of the description. It usually says what the tool does, and the rest says how.
    pub(super) fn first_sentence(&self) -> &str {
        first_sentence(&self.description)
    }
}

/// Maximum length of a first sentence. Longer ones are usually lists.
const SENTENCE_MAX_BYTES: usize = 600;

fn first_sentence(text: &str) -> &str {
    let text = text.trim_start();
    let mut end = text.len().min(SENTENCE_MAX_BYTES);
    let mut before = ' ';
    for (at, c) in text.char_indices().take_while(|(at, _)| *at < SENTENCE_MAX_BYTES) {
        let is_stop = matches!(before, '.' | '!' | '?') && c.is_whitespace();
        let is_break = before == '\n' && c == '\n';
        if is_stop || is_break || c == '。' || c == '！' || c == '？' {
            end = at;
            break;
        }
        // Spaces at the end of an empty line do not make it another paragraph.
        before = if before == '\n' && c.is_whitespace() { '\n' } else { c };
    }
    text.get(..text.floor_char_boundary(end)).unwrap_or_default().trim_end()
}

fn find<'a>(fields: &Members<'a>, wanted: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value)
}

fn text(fields: &Members<'_>, wanted: &str) -> Option<String> {
    find(fields, wanted).and_then(string_value).map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_sentence_ends_where_it_ends() {
        let check = |text: &str, expected: &str| assert_eq!(first_sentence(text), expected, "{text:?}");
        check("Sends mail. To many.", "Sends mail.");
        check("  Version 2.0 sends mail! Now", "Version 2.0 sends mail!");
        check("Sends\nmail\n  \n Args: to", "Sends\nmail");
        check("查询天气。返回文本", "查询天气");
        check("", "");
        check(&"é".repeat(1_000), &"é".repeat(300));
    }
}
