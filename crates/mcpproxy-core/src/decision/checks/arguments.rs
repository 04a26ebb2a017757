//! Validates arguments against the server's schema and the contract's.

use serde_json::Value;

use crate::catalog::Tool;
use crate::denial::Denial;
use crate::intent::Arguments;
use crate::json::ExactValue;
use crate::schema::Problem;

/// Returns the arguments as a value if both schemas accept them, apart from values that are `masked`.
pub(super) fn validate(tool: &Tool, arguments: &Arguments, masked: &[String]) -> Result<ExactValue, Denial> {
    // The strict reader passes nothing that this cannot read. If it ever does, nothing unchecked is sent.
    let value = ExactValue::read(arguments.as_str())
        .ok_or_else(|| Denial::InvalidArgs("arguments must be a JSON object".to_owned()))?;
    let refused = |mut problems: Vec<Problem>| {
        problems.retain(|problem| !masked.iter().any(|place| touches(place, &problem.pointer)));
        if problems.is_empty() {
            return Ok(());
        }
        tool.hide_sensitive(&mut problems);
        Err(Denial::InvalidArguments { tool: tool.name.clone(), problems })
    };
    if let Some(schema) = tool.input_schema() {
        let checked = schema.check(&value).or_else(|problems| match without_nulls(&value, &problems) {
            Some(fewer) => schema.check(&fewer),
            None => Err(problems),
        });
        checked.or_else(refused)?;
    }
    if let Some(schema) = &tool.contract.input_schema {
        schema.value.check(&value).or_else(refused)?;
    }
    Ok(value)
}

/// Returns true if one of two JSON pointers is the other, or leads to it.
fn touches(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Drops the `null` members that the server's schema refuses. Returns `None` if there are none.
///
/// Many agents write `null` for an argument they leave out, and servers accept that. So the schema is checked without
/// these members. The arguments that are sent keep them.
fn without_nulls(value: &ExactValue, problems: &[Problem]) -> Option<ExactValue> {
    let fields = value.value().as_object()?;
    let is_refused = |name: &str| problems.iter().any(|problem| problem.pointer.strip_prefix('/') == Some(name));
    let kept = fields.iter().filter(|(name, value)| !(value.is_null() && is_refused(name)));
    let kept: serde_json::Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    (kept.len() < fields.len()).then(|| value.with_numbers_of(value.value(), Value::Object(kept)))
}
