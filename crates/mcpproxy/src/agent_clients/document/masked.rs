//! Shows a client's file without its secrets.
//!
//! A client's file holds the keys and tokens of other servers, and one line may hold all of it. So every text value is
//! replaced by `***`, except the values that mcpproxy writes itself. Keys, comments, numbers and structure stay, which
//! is enough to recognize the place of a change. The general mask then removes what is left in comments.

use jsonc_parser::cst::CstNode;
use mcpproxy_core::mask;
use toml_edit::{Item, TableLike, Value as TomlValue};

use super::{BYTE_ORDER_MARK, KeyPath, json, toml, yaml};
use crate::agent_clients::FileFormat;

const STARS: &str = "***";
const SECRET_REFERENCE: &str = "${file:secrets/";

/// Values that are shown: everything below these paths, and these texts in lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) paths: Vec<KeyPath>,
    pub(crate) texts: Vec<String>,
}

/// Returns the text with all values masked that are not below one of the shown paths.
pub(crate) fn masked(text: &str, format: FileFormat, shown: &Shown) -> String {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).replace("\r\n", "\n");
    let text = match format {
        FileFormat::Json => masked_json(&text, shown),
        FileFormat::Toml => masked_toml(&text, shown),
        FileFormat::Yaml => Some(masked_yaml(&text, shown)),
    };
    // A text that cannot be parsed is not shown at all.
    let text = text.unwrap_or_else(|| STARS.to_owned());
    with_references(&text, mask(&text, &[]).into_owned())
}

/// Shows a line again if all that is masked in it is references to files in `secrets/`. The line holds no secret, and
/// tells the reader where the secret is.
fn with_references(text: &str, hidden: String) -> String {
    if text == hidden || text.lines().count() != hidden.lines().count() {
        return hidden;
    }
    let shown = text.lines().zip(hidden.lines());
    let shown = shown.map(|(line, hidden)| if hides_only_references(line, hidden) { line } else { hidden });
    let ending = if hidden.ends_with('\n') { "\n" } else { "" };
    shown.collect::<Vec<_>>().join("\n") + ending
}

/// Returns true if the line has references, and the masked line still contains everything around them. So showing the
/// line reveals nothing but the references.
fn hides_only_references(line: &str, hidden: &str) -> bool {
    let mut parts = line.split(SECRET_REFERENCE);
    let Some(mut rest) = parts.next().and_then(|first| hidden.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        // The text after the previous reference must follow somewhere.
        let Some((_, after)) = rest.split_once(last.unwrap_or_default()) else { return false };
        rest = after;
        let is_path = |path: &&str| !path.contains(['"', '\'', ' ']);
        let Some((_, text)) = part.split_once('}').filter(|(path, _)| is_path(path)) else { return false };
        last = Some(text);
    }
    last.is_some_and(|last| rest.ends_with(last))
}

fn is_shown(path: &[String], shown: &Shown) -> bool {
    shown.paths.iter().any(|above| path.starts_with(above))
}

fn masked_json(text: &str, shown: &Shown) -> Option<String> {
    let root = json::parse(text).ok()?;
    if let Some(value) = root.value() {
        mask_node(&value, &mut Vec::new(), shown);
    }
    Some(root.to_string())
}

fn mask_node(node: &CstNode, path: &mut KeyPath, shown: &Shown) {
    if is_shown(path, shown) {
        return;
    }
    if let Some(object) = node.as_object() {
        for property in object.properties() {
            let (Some(name), Some(value)) = (property.decoded_name(), property.value()) else { continue };
            path.push(name);
            mask_node(&value, path, shown);
            path.pop();
        }
    } else if let Some(list) = node.as_array() {
        list.elements().iter().for_each(|element| mask_node(element, path, shown));
    } else if let Some(text) = node.as_string_lit()
        && !text.decoded_value().is_ok_and(|text| shown.texts.contains(&text))
    {
        text.set_raw_value(format!("\"{STARS}\""));
    }
}

fn masked_toml(text: &str, shown: &Shown) -> Option<String> {
    let mut document = toml::parse(text).ok()?;
    mask_table(document.as_table_mut(), &mut Vec::new(), shown);
    Some(document.to_string())
}

fn mask_table(table: &mut dyn TableLike, path: &mut KeyPath, shown: &Shown) {
    for (key, item) in table.iter_mut() {
        path.push(key.get().to_owned());
        if !is_shown(path, shown) {
            match item {
                Item::None => {}
                Item::Value(value) => mask_value(value, path, shown),
                Item::Table(table) => mask_table(table, path, shown),
                Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| mask_table(table, path, shown)),
            }
        }
        path.pop();
    }
}

fn mask_value(value: &mut TomlValue, path: &mut KeyPath, shown: &Shown) {
    match value {
        TomlValue::String(_) => {
            let decor = value.decor().clone();
            *value = TomlValue::from(STARS);
            *value.decor_mut() = decor;
        }
        TomlValue::Array(values) => values.iter_mut().for_each(|value| mask_value(value, path, shown)),
        TomlValue::InlineTable(table) => mask_table(table, path, shown),
        TomlValue::Integer(_) | TomlValue::Float(_) | TomlValue::Boolean(_) | TomlValue::Datetime(_) => {}
    }
}

fn masked_yaml(text: &str, shown: &Shown) -> String {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let clear: Vec<_> = shown.paths.iter().filter_map(|path| yaml::lines_at(&lines, path)).collect();
    let masked = lines.iter().enumerate().map(|(at, line)| {
        let item = line.trim_start().strip_prefix("- ");
        let is_clear = clear.iter().any(|range| range.contains(&at))
            || !yaml::is_content(line)
            || item.is_some_and(|item| shown.texts.iter().any(|text| text == item));
        if is_clear { line.clone() } else { mask_line(line) }
    });
    masked.map(|line| line + "\n").collect()
}

/// Masks the value of one line. Lines of a long text have no key and are masked as a whole.
fn mask_line(line: &str) -> String {
    let rest = line.trim_start();
    let spaces = " ".repeat(line.len() - rest.len());
    let (dash, rest) = match rest.strip_prefix("- ") {
        Some(rest) => ("- ", rest),
        None => ("", rest),
    };
    match rest.split_once(':') {
        Some((key, "")) => format!("{spaces}{dash}{key}:"),
        Some((key, value)) if value.starts_with(' ') => match value.trim() {
            plain @ ("{}" | "[]" | "true" | "false" | "null" | "~") => format!("{spaces}{dash}{key}: {plain}"),
            _ => format!("{spaces}{dash}{key}: {STARS}"),
        },
        Some(_) | None => format!("{spaces}{dash}{STARS}"),
    }
}
