//! `env_file`: variables in a file, one `NAME=VALUE` per line.

use crate::file::Fields;
use crate::settings::Secret;
use crate::settings::read::Reader;

/// Reads the variables of the `env_file` of a server.
pub(crate) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Vec<(String, Secret)> {
    let Some(field) = fields.find("env_file") else { return Vec::new() };
    let Some(path) = reader.path(&field.node, "env_file") else { return Vec::new() };
    let text = match reader.context.file(&path) {
        // References are left unresolved on purpose, so there is nothing to read.
        Ok(text) if reader.context.stand_in() == Some(text.as_str()) => return Vec::new(),
        Ok(text) => text,
        Err(reason) => {
            let (path, reason) = (crate::file::shown(&path), crate::file::shown(&reason));
            reader.report(field.node.position, format!("could not read file `{path}`: {reason}"));
            return Vec::new();
        }
    };
    match variables(&text) {
        Ok(variables) => variables.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(),
        Err(line) => {
            // The line may hold a secret, so the message does not show it.
            let path = crate::file::shown(&path);
            reader.report(field.node.position, format!("line {line} of `{path}` is not `NAME=VALUE`; correct it"));
            Vec::new()
        }
    }
}

/// Parses the variables, or returns the number of the first line that is none. A later line wins.
fn variables(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (index, line) in text.trim_start_matches('\u{FEFF}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(index + 1)?;
        let name = name.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let value = unquoted(value.trim());
        if name.is_empty() || !name.chars().all(is_name) || value.contains('\0') {
            return Err(index + 1);
        }
        found.retain(|(other, _)| other != name);
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

/// Removes quotes. Double quotes may contain `\n`, `\"` and `\\`. Without quotes, ` #` starts a comment.
fn unquoted(value: &str) -> String {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inner.to_owned();
    }
    if let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        let mut out = String::new();
        let mut letters = inner.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => match letters.next() {
                    Some('n') => out.push('\n'),
                    Some(other @ ('"' | '\\' | '$')) => out.push(other),
                    Some(other) => out.extend(['\\', other]),
                    None => out.push('\\'),
                },
                other => out.push(other),
            }
        }
        return out;
    }
    value.split_once(" #").map_or(value, |(value, _)| value.trim_end()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_file() {
        let text =
            "\u{FEFF}# ours\n\nA=1\nexport B = two words # why\nC='a # b'\nD=\"x\\n\\\"y\\\\\"\r\nE=\nA=3\nF=a=b#c\n";
        let found = variables(text).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [("B", "two words"), ("C", "a # b"), ("D", "x\n\"y\\"), ("E", ""), ("A", "3"), ("F", "a=b#c")]
        );
        assert_eq!(variables("A=1\nhidden"), Err(2));
        assert_eq!(variables("=hidden"), Err(1));
        assert_eq!(variables("A B=hidden"), Err(1));
        assert_eq!(variables("A=a\0b"), Err(1));
    }
}
