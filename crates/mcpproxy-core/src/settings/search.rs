//! The settings `search`: whether tools and queries are compared with the encoder.

use serde_json::{Value, json};

use super::keys;
use super::read::Reader;
use crate::file::Fields;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchSettings {
    pub encoder: EncoderUse,
}

/// The setting `encoder`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncoderUse {
    /// Encodes tools in the background, and each query when it arrives.
    #[default]
    Auto,
    /// Uses the table of word meanings only.
    Off,
}

impl EncoderUse {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<SearchSettings> {
    let fields = reader.fields(&fields.find("search")?.node, &keys::SEARCH)?;
    Some(SearchSettings { encoder: reader.choice_of(&fields, "encoder", keys::ENCODER).unwrap_or_default() })
}

/// Returns the part of the JSON Schema for this section.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "How tools are searched.",
        "additionalProperties": false,
        "properties": {
            "encoder": {
                "enum": keys::ENCODER.iter().map(|(word, _)| word).collect::<Vec<_>>(),
                "default": EncoderUse::default().as_str(),
                "description": "auto: compare the meaning of queries and tools with a small language model that is compiled in. Tools are encoded in the background. off: use only a table of word meanings, which is less precise and needs less memory and time."
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::bad::check;
    use crate::settings::{Unresolved, parse};

    #[test]
    fn values() {
        let encoder = |text: &str| parse(text, &Unresolved).unwrap().search.encoder;
        assert_eq!(encoder("{}"), EncoderUse::Auto);
        assert_eq!(encoder(r#"{"search": {}}"#), EncoderUse::Auto);
        assert_eq!(encoder(r#"{"search": {"encoder": "auto"}}"#), EncoderUse::Auto);
        assert_eq!(encoder(r#"{"search": {"encoder": "off"}}"#), EncoderUse::Off);
        check(
            r#"{"search": {"encoder": "on"}}"#,
            &["line 1, column 24: unknown value `on`; write one of `auto`, `off`"],
        );
    }
}
