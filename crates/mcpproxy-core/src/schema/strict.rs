//! Finds mistakes in a contract's schema that the walker would ignore.

use serde_json::Value;

use super::SchemaError;
use super::draft::Draft;
use crate::{Untrusted, nearest};

const KEYWORDS: &str = "$anchor $comment $defs $dynamicAnchor $dynamicRef $id $recursiveAnchor $recursiveRef $ref $schema \
    $vocabulary additionalItems additionalProperties allOf anyOf const contains contentEncoding contentMediaType \
    contentSchema default definitions dependencies dependentRequired dependentSchemas deprecated description else enum \
    example examples exclusiveMaximum exclusiveMinimum format id if items maxContains maxItems maxLength maxProperties \
    maximum minContains minItems minLength minProperties minimum multipleOf not oneOf optional pattern \
    patternProperties prefixItems properties propertyNames readOnly required then title type unevaluatedItems \
    unevaluatedProperties uniqueItems writeOnly";

/// Returns the keyword that a misspelled word was meant to be. JSON Schema would ignore it silently.
pub(super) fn meant(word: &str) -> Option<&'static str> {
    let mut known = KEYWORDS.split_ascii_whitespace();
    if word.starts_with("x-") || known.clone().any(|known| known == word) {
        return None;
    }
    nearest(word, known.by_ref())
}

/// Checks a schema against the meta-schema of its draft.
pub(super) fn check(text: &str) -> Result<(), SchemaError> {
    let schema: Value = serde_json::from_str(text).map_err(|_| SchemaError::NotASchema)?;
    let kept = match Draft::of(&schema) {
        Draft::Four => jsonschema::draft4::meta::validate(&schema),
        Draft::Six => jsonschema::draft6::meta::validate(&schema),
        Draft::Seven => jsonschema::draft7::meta::validate(&schema),
        Draft::Year2019 => jsonschema::draft201909::meta::validate(&schema),
        Draft::Year2020 => jsonschema::draft202012::meta::validate(&schema),
    };
    kept.map_err(|error| {
        let words = format!("{} at `{}`", error.masked(), error.instance_path());
        SchemaError::Invalid(Untrusted::shortened(&words, 200).for_terminal().into_owned())
    })
}
