//! YAML, as lines.
//!
//! No YAML library for Rust keeps comments, so this editor inserts, replaces and removes whole lines. It understands
//! block style only: one key per line, and children on deeper lines. That is what clients write. An empty value
//! (`key:`, `key: {}`, `key: []`) and a list on one line become blocks. Anything else makes the comparison in
//! [`super::apply`] fail, and then the file stays as it is.

use std::ops::Range;

use serde_json::Value;

use super::{DocumentError, Edit, change};

pub(super) fn read(text: &str) -> Result<Value, DocumentError> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str::<Value>(text).map_err(|error| {
        let place = error.location();
        let (line, column) = place.map_or((1, 1), |place| (place.line(), place.column()));
        let whole = error.to_string();
        let message = whole.lines().next().unwrap_or_default().to_owned();
        DocumentError::Syntax {
            line: usize::try_from(line).unwrap_or(1),
            column: usize::try_from(column).unwrap_or(1),
            message,
        }
    })
}

pub(super) fn apply(text: &str, edits: &[Edit]) -> Result<String, DocumentError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut value = read(text)?;
    if value.is_null() {
        value = Value::Object(serde_json::Map::new());
    }
    for edit in edits {
        let before = value.clone();
        change::apply(&mut value, edit)?;
        if value != before {
            write(&mut lines, edit, &before, &value)?;
        }
    }
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

/// Writes the value that an edit changed, between the whole documents `before` and `value`.
fn write(lines: &mut Vec<String>, edit: &Edit, before: &Value, value: &Value) -> Result<(), DocumentError> {
    let path = edit.path();
    // Find the deepest key of the path that exists.
    let mut place = Range { start: 0, end: content_end(lines, 0..lines.len()) };
    let mut indent = first_indent(lines, &place).unwrap_or(0);
    let mut found: Option<Range<usize>> = None;
    let mut depth = 0;
    for key in path {
        let Some(block) = find(lines, &place, indent, key) else { break };
        depth += 1;
        place = block.start + 1..block.end;
        found = Some(block.clone());
        match first_indent(lines, &place) {
            Some(inner) if inner > indent => indent = inner,
            // The value is on the line of its key, or a list at the same depth.
            Some(_) | None => break,
        }
    }
    let replaced = if depth == path.len() {
        path
    } else if found.is_none() {
        let end = lines.len();
        return insert(lines, path, depth, indent, end, value);
    } else if found.as_ref().is_some_and(|block| block.len() > 1) {
        return insert(lines, path, depth, indent, place.end, value);
    } else {
        // The deepest key has no block, such as `extensions: {}`. Write it anew.
        path.get(..depth).unwrap_or_default()
    };
    let block = found.ok_or(DocumentError::TooUnusual)?;
    if depth == path.len() && block.len() > 1 && edit_items(lines, &block, edit, before, value) {
        return Ok(());
    }
    let first = lines.get(block.start).ok_or(DocumentError::TooUnusual)?;
    let key = replaced.last().ok_or(DocumentError::TooUnusual)?;
    // A value such as `{a: 1}` on the line of its key may have a comment, or be part of a longer one.
    if block.len() == 1 && !has_empty_value(first) && (depth < path.len() || first.contains('#')) {
        return Err(DocumentError::TooUnusual);
    }
    let mut new = match super::get(value, replaced) {
        Some(new) => render(key, new, depth_of(first)),
        None => Vec::new(),
    };
    if let (Some(new), Some(comment)) = (new.first_mut(), comment_after_empty(first)) {
        new.push_str(&format!(" {comment}"));
    }
    lines.splice(block, new);
    empty_parent(lines, replaced, value)
}

/// Adds or removes the lines of single items, so that comments in the list stay. Returns false if the whole list must
/// be written.
fn edit_items(lines: &mut Vec<String>, block: &Range<usize>, edit: &Edit, before: &Value, value: &Value) -> bool {
    let list = |value| super::get(value, edit.path()).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (old, new): (&[Value], &[Value]) = (list(before), list(value));
    match edit {
        Edit::AddToList { .. } => {
            let indent = first_indent(lines, &(block.start + 1..block.end)).unwrap_or(0);
            let items = new.iter().skip(old.len()).map(|item| format!("{}- {}", " ".repeat(indent), scalar(item)));
            lines.splice(block.end..block.end, items.collect::<Vec<_>>());
            true
        }
        Edit::RemoveFromList { values, .. } if !new.is_empty() => {
            let is_removed = |line: &String| {
                let item = line.trim_start().strip_prefix("- ").map(|item| item.trim().trim_matches(['"', '\'']));
                item.is_some_and(|item| values.iter().any(|value| value == item))
            };
            let kept: Vec<String> =
                lines.get(block.clone()).into_iter().flatten().filter(|line| !is_removed(line)).cloned().collect();
            lines.splice(block.clone(), kept);
            true
        }
        Edit::Set { .. } | Edit::Remove { .. } | Edit::RemoveFromList { .. } => false,
    }
}

/// Returns the comment behind an empty value, such as `extensions: {} # none yet`.
fn comment_after_empty(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let rest = rest.trim_start();
    let rest = ["{}", "[]", "~", "null"].iter().find_map(|empty| rest.strip_prefix(empty)).unwrap_or(rest);
    Some(rest.trim()).filter(|rest| rest.starts_with('#'))
}

fn has_empty_value(line: &str) -> bool {
    let value = line.split_once(':').map_or("", |(_, value)| value).trim();
    matches!(value, "" | "{}" | "[]" | "~" | "null") || comment_after_empty(line).is_some()
}

/// Inserts the first key of the path that does not exist, at the end of the block of its parent.
fn insert(
    lines: &mut Vec<String>,
    path: &[String],
    depth: usize,
    indent: usize,
    at: usize,
    value: &Value,
) -> Result<(), DocumentError> {
    let key = path.get(depth).ok_or(DocumentError::TooUnusual)?;
    let new = super::get(value, path.get(..=depth).unwrap_or_default()).ok_or(DocumentError::TooUnusual)?;
    lines.splice(at..at, render(key, new, indent));
    Ok(())
}

/// Writes `{}` behind a key whose last child was removed. Otherwise, its value would become null.
fn empty_parent(lines: &mut [String], removed: &[String], value: &Value) -> Result<(), DocumentError> {
    let Some((_, above)) = removed.split_last() else { return Ok(()) };
    let Some(key) = above.last() else { return Ok(()) };
    if super::get(value, above).and_then(Value::as_object).is_none_or(|table| !table.is_empty()) {
        return Ok(());
    }
    let mut place = 0..lines.len();
    let mut indent = 0;
    let mut found = None;
    for key in above {
        let block = find(lines, &place, indent, key).ok_or(DocumentError::TooUnusual)?;
        found = Some(block.start);
        place = block.start + 1..block.end;
        indent = first_indent(lines, &place).unwrap_or(indent);
    }
    let line = found.and_then(|at| lines.get_mut(at)).ok_or(DocumentError::TooUnusual)?;
    let comment = comment_after_empty(line).map(|comment| format!(" {comment}")).unwrap_or_default();
    *line = format!("{}{}: {{}}{comment}", " ".repeat(depth_of(line)), name(key));
    Ok(())
}

/// Returns the lines of the value at a path, if it is a block.
pub(super) fn lines_at(lines: &[String], path: &[String]) -> Option<Range<usize>> {
    let mut place = 0..lines.len();
    let mut found = None;
    for key in path {
        let block = find(lines, &place, first_indent(lines, &place)?, key)?;
        place = block.start + 1..block.end;
        found = Some(block);
    }
    found
}

/// Finds a key at this depth. Returns its line and the lines of its value.
fn find(lines: &[String], place: &Range<usize>, indent: usize, key: &str) -> Option<Range<usize>> {
    let forms = [format!("{key}:"), format!("\"{key}\":"), format!("'{key}':")];
    let start = place.clone().find(|at| {
        let Some(line) = lines.get(*at) else { return false };
        let rest = line.trim_start();
        let is_key = |form: &String| {
            rest.strip_prefix(form.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        };
        line.len() - rest.len() == indent && forms.iter().any(is_key)
    })?;
    let end = (start + 1..place.end).find(|at| {
        lines.get(*at).is_some_and(|line| is_content(line) && depth_of(line) <= indent && !is_item_at(line, indent))
    });
    let range = start + 1..end.unwrap_or(place.end);
    Some(start..content_end(lines, range))
}

/// Returns the end of a range without the blank lines and comments at its end. They belong to what follows.
fn content_end(lines: &[String], range: Range<usize>) -> usize {
    let last = range.clone().rev().find(|at| lines.get(*at).is_some_and(|line| is_content(line)));
    last.map_or(range.start, |at| at + 1)
}

fn first_indent(lines: &[String], place: &Range<usize>) -> Option<usize> {
    let mut content = place.clone().filter_map(|at| lines.get(at)).filter(|line| is_content(line));
    content.find(|line| !line.starts_with("---") && !line.starts_with('%')).map(|line| depth_of(line))
}

pub(super) fn is_content(line: &str) -> bool {
    let rest = line.trim_start();
    !rest.is_empty() && !rest.starts_with('#')
}

/// A list may start at the depth of its key.
fn is_item_at(line: &str, indent: usize) -> bool {
    depth_of(line) == indent && (line.trim_start().starts_with("- ") || line.trim() == "-")
}

fn depth_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Writes a key with its value as lines.
fn render(key: &str, value: &Value, indent: usize) -> Vec<String> {
    let spaces = " ".repeat(indent);
    let key = name(key);
    match value {
        Value::Object(members) if !members.is_empty() => {
            let inner = members.iter().flat_map(|(key, value)| render(key, value, indent + 2));
            std::iter::once(format!("{spaces}{key}:")).chain(inner).collect()
        }
        Value::Array(values) if !values.is_empty() => {
            let items = values.iter().map(|value| format!("{spaces}  - {}", scalar(value)));
            std::iter::once(format!("{spaces}{key}:")).chain(items).collect()
        }
        other => vec![format!("{spaces}{key}: {}", scalar(other))],
    }
}

fn name(key: &str) -> String {
    scalar(&Value::from(key))
}

/// Writes a scalar. JSON is valid YAML, so quoted text and nested values are written as JSON.
fn scalar(value: &Value) -> String {
    const SPECIAL: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let Value::String(text) = value else { return value.to_string() };
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_word && !SPECIAL.contains(&text.to_ascii_lowercase().as_str()) { text.clone() } else { value.to_string() }
}
