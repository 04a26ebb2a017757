//! Resolves `${env:NAME}` and `${file:PATH}`, which keep secrets out of the settings file.

use crate::file::shown;

/// Access to environment variables and files, which this crate does not read itself.
pub trait Outside {
    /// Returns the value of an environment variable, if it is set.
    fn env(&self, name: &str) -> Option<String>;

    /// Returns the content of a file, or why it cannot be read. The implementation decides the base of relative paths.
    fn file(&self, path: &str) -> Result<String, String>;

    /// Returns the text that `env` and `file` return if references are left unresolved on purpose.
    fn stand_in(&self) -> Option<&str> {
        None
    }
}

/// Leaves every reference unresolved, for servers that are not started.
pub struct Unresolved;

impl Unresolved {
    /// Valid wherever a reference can be used: as a URL, a path, a header and a variable.
    const STAND_IN: &str = "http://reference.invalid/";
}

impl Outside for Unresolved {
    fn env(&self, _name: &str) -> Option<String> {
        Some(Self::STAND_IN.to_owned())
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Ok(Self::STAND_IN.to_owned())
    }

    fn stand_in(&self) -> Option<&str> {
        Some(Self::STAND_IN)
    }
}

/// Returns true if a text has a reference. `$${` is none.
pub(super) fn has_reference(text: &str) -> bool {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if !before.ends_with('$') {
            return true;
        }
        rest = after;
    }
    false
}

/// Returns the meaning of a text without references: `$${` stands for `${`.
pub(super) fn unescaped(text: &str) -> String {
    text.replace("$${", "${")
}

/// Escapes every `${` that is no reference for `is_reference`. It gets the text between `${` and `}`.
pub(super) fn escaped(text: &str, is_reference: &dyn Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let is_kept = after.split_once('}').is_some_and(|(reference, _)| is_reference(reference));
        out.push_str(if is_kept { "${" } else { "$${" });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A text with its references replaced.
pub(super) struct Expanded {
    pub(super) text: String,
    pub(super) has_reference: bool,
}

/// Resolves every reference, or returns an error with its byte offset for each that fails. The messages never contain a
/// value that was looked up.
pub(super) fn expand(text: &str, outside: &dyn Outside) -> Result<Expanded, Vec<(usize, String)>> {
    let mut out = String::with_capacity(text.len());
    let mut has_reference = false;
    let mut errors = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let at = text.len() - after.len() - "${".len();
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let Some((reference, tail)) = after.split_once('}') else {
            errors.push((at, "`${` without `}`; close it, or write `$${` for the characters themselves".to_owned()));
            rest = "";
            break;
        };
        has_reference = true;
        match look_up(reference, outside) {
            Ok(value) => out.push_str(&value),
            Err(message) => errors.push((at, message)),
        }
        rest = tail;
    }
    out.push_str(rest);
    if errors.is_empty() { Ok(Expanded { text: out, has_reference }) } else { Err(errors) }
}

fn look_up(reference: &str, outside: &dyn Outside) -> Result<String, String> {
    if let Some((name, default)) = reference.split_once(":-") {
        // `${NAME:-default}`, as in a shell and in Claude Code.
        let name = name.strip_prefix("env:").unwrap_or(name);
        if is_variable(name) {
            return Ok(outside.env(name).unwrap_or_else(|| default.to_owned()));
        }
    }
    match reference.split_once(':') {
        Some(("env" | "file", "")) => {
            Err(format!("`${{{reference}}}` has no name; write `${{env:NAME}}` or `${{file:PATH}}`"))
        }
        Some(("env", name)) => variable(name, outside),
        Some(("file", path)) => match outside.file(path) {
            Ok(content) => Ok(without_line_end(content)),
            Err(reason) => Err(format!("could not read file `{}`: {}", shown(path), shown(&reason))),
        },
        Some(("input", name)) => unknown_here(outside, || {
            format!(
                "`${{input:{}}}` asks for a value in VS Code, but the gateway cannot ask; write `${{env:NAME}}` or \
                 `${{file:PATH}}` instead",
                shown(name)
            )
        }),
        None if reference == "userHome" => variable("HOME", outside),
        None if reference == "pathSeparator" || reference == "/" => Ok("/".to_owned()),
        Some(_) | None if is_of_an_editor(reference) => unknown_here(outside, || {
            let reference = shown(reference);
            format!("`${{{reference}}}` has a meaning only in an editor; write the value itself, or `${{env:NAME}}`")
        }),
        // `${NAME}`, as in a shell and in Claude Code.
        None if is_variable(reference) => variable(reference, outside),
        Some(_) | None => {
            let reference = shown(reference);
            Err(format!(
                "unknown reference `${{{reference}}}`; write `${{env:NAME}}` for an environment variable, \
                 `${{file:PATH}}` for a file, or `$${{` for the characters themselves"
            ))
        }
    }
}

fn variable(name: &str, outside: &dyn Outside) -> Result<String, String> {
    outside.env(name).ok_or_else(|| {
        let name = shown(name);
        format!("environment variable `{name}` is not set; set it where mcpproxy starts, or remove the reference")
    })
}

/// Returns an error, unless references are left unresolved on purpose.
fn unknown_here(outside: &dyn Outside, message: impl FnOnce() -> String) -> Result<String, String> {
    outside.stand_in().map(str::to_owned).ok_or_else(message)
}

/// Returns true for a name that a shell accepts.
pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns true for a variable of VS Code or Cursor that depends on the open folder or file.
fn is_of_an_editor(reference: &str) -> bool {
    const NAMES: [&str; 8] = [
        "workspaceFolder",
        "workspaceFolderBasename",
        "workspaceRoot",
        "file",
        "fileDirname",
        "cwd",
        "config",
        "command",
    ];
    NAMES.contains(&reference.split_once(':').map_or(reference, |(name, _)| name))
}

/// Removes the line end that editors and `echo` add, which is not part of the secret.
fn without_line_end(mut content: String) -> String {
    if content.ends_with('\n') {
        content.pop();
        if content.ends_with('\r') {
            content.pop();
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_text_means_itself() {
        for text in ["", "a", "${file:x}", "$${x}", "$$${", "a${b${c}d}", "${", "$", "${}"] {
            let escaped = escaped(text, &|_| false);
            assert!(!has_reference(&escaped), "{escaped}");
            assert_eq!(unescaped(&escaped), text);
            assert_eq!(expand(&escaped, &Unresolved).ok().map(|expanded| expanded.text).as_deref(), Some(text));
        }
        let only_env = |reference: &str| reference.starts_with("env:");
        assert_eq!(escaped("${env:A} ${file:b} ${", &only_env), "${env:A} $${file:b} $${");
        assert!(has_reference("$${a} ${b}") && !has_reference("$a {b}"));
    }
}
