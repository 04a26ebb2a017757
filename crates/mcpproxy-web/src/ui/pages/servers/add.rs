//! The page that adds servers, and what the user typed into its forms.

use askama::Template;
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::suggest_server_name;
use serde_json::{Map, Value, json};

use crate::ui::form::Form;
use crate::ui::pages::Frame;

#[derive(Template)]
#[template(path = "servers_add.html")]
pub(crate) struct Add {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) typed: Typed,
    /// True if the change is published. Then the next page asks for a confirmation.
    pub(crate) is_published: bool,
    /// Servers that were just added, and notes about them.
    pub(crate) names: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// The values of the forms.
#[derive(Clone, Default)]
pub(crate) struct Typed {
    pub(crate) error: Option<String>,
    pub(crate) asks_password: bool,
    /// A text for the settings file, if the gateway cannot write it.
    pub(crate) to_paste: Option<String>,
    pub(crate) is_pasted: bool,
    pub(crate) json: String,
    /// The name beside the pasted text.
    pub(crate) json_name: String,
    pub(crate) name: String,
    /// A command line, or an address.
    pub(crate) start: String,
    pub(crate) env: String,
    pub(crate) headers: String,
}

impl Typed {
    pub(crate) fn of(form: &Form) -> Self {
        let field = |name: &str| form.or_empty(name).to_owned();
        Self {
            error: None,
            asks_password: false,
            to_paste: None,
            is_pasted: form.or_empty("how") == "paste",
            json: field("json"),
            json_name: field("json_name"),
            name: field("name"),
            start: field("start"),
            env: field("env"),
            headers: field("headers"),
        }
    }

    /// The name that the user gave, if any.
    pub(crate) fn server_name(&self) -> Option<&str> {
        let name = if self.is_pasted { &self.json_name } else { &self.name };
        Some(name.trim()).filter(|name| !name.is_empty())
    }

    /// The JSON to add: the pasted text, or one that is built from the fields of the form.
    pub(crate) fn json_text(&self) -> Result<String, String> {
        if self.is_pasted {
            return if self.json.trim().is_empty() {
                Err("Paste the JSON of a server.".to_owned())
            } else {
                Ok(self.json.clone())
            };
        }
        let name = self.server_name().ok_or("Give the server a name, such as time.")?;
        if ServerName::parse(name).is_err() {
            let suggested = suggest_server_name(name).map(|name| format!(", such as {name}")).unwrap_or_default();
            return Err(format!("A name has lower-case letters, digits, - and single _{suggested}."));
        }
        Ok(json!({"mcpServers": {name: self.definition()?}}).to_string())
    }

    fn definition(&self) -> Result<Value, String> {
        let start = self.start.trim();
        if start.is_empty() {
            return Err("Enter the command that starts the server, or its address.".to_owned());
        }
        let (env, headers) = (pairs(&self.env, &['='])?, pairs(&self.headers, &['=', ':'])?);
        let is_url = start.starts_with("http://") || start.starts_with("https://");
        let mut definition = match is_url {
            true => json!({"url": start}),
            false => {
                let mut words = words(start)?.into_iter();
                let command = words.next().unwrap_or_default();
                let args: Vec<String> = words.collect();
                if args.is_empty() { json!({"command": command}) } else { json!({"command": command, "args": args}) }
            }
        };
        match (is_url, env.is_empty(), headers.is_empty()) {
            (true, false, _) => return Err("A server with an address has no environment. Use headers.".to_owned()),
            (false, _, false) => return Err("A server with a command has no headers. Use the environment.".to_owned()),
            _ => {}
        }
        if let Value::Object(members) = &mut definition {
            let mut add = |key: &str, pairs: Map<String, Value>| {
                if !pairs.is_empty() {
                    members.insert(key.to_owned(), Value::Object(pairs));
                }
            };
            add("env", env);
            add("headers", headers);
        }
        Ok(definition)
    }
}

/// Reads one `NAME=VALUE` per line.
fn pairs(text: &str, separators: &[char]) -> Result<Map<String, Value>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let (name, value) = line.split_once(separators).filter(|(name, _)| !name.trim().is_empty())?;
        Some((name.trim().to_owned(), Value::from(value.trim())))
    };
    // The line may be a secret, so the message does not repeat it.
    lines.enumerate().map(|(at, line)| pair(line).ok_or(format!("Line {} is not NAME=VALUE.", at + 1))).collect()
}

/// Splits a command line as a shell does, with quotes and backslashes. Nothing else is special.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = chars.next().ok_or("The command ends with a backslash.")?;
                word.get_or_insert_default().push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("A quote in the command is not closed.".to_owned());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(name: &str, start: &str, env: &str, headers: &str) -> Typed {
        let own = str::to_owned;
        Typed { name: own(name), start: own(start), env: own(env), headers: own(headers), ..Typed::default() }
    }

    #[test]
    fn forms_become_definitions() {
        let check = |typed: Typed, expected: Value| {
            let found: Value = serde_json::from_str(&typed.json_text().unwrap()).unwrap();
            assert_eq!(found, json!({"mcpServers": {"fx": expected}}));
        };
        check(typed("fx", "uvx", "", ""), json!({"command": "uvx"}));
        check(
            typed(" fx ", "npx -y 'a b' \"c\\\"d\" e\\ f ''", "A=b=c\n\n B = d", ""),
            json!({"command": "npx", "args": ["-y", "a b", "c\"d", "e f", ""], "env": {"A": "b=c", "B": "d"}}),
        );
        check(
            typed("fx", "https://fx.example/mcp", "", "Authorization: Bearer x=y"),
            json!({"url": "https://fx.example/mcp", "headers": {"Authorization": "Bearer x=y"}}),
        );
    }

    #[test]
    fn mistakes_are_named() {
        let check = |typed: Typed, expected: &str| {
            let error = typed.json_text().unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(typed("", "uvx", "", ""), "Give the server a name");
        check(typed("My FX", "uvx", "", ""), "such as my-fx");
        check(typed("<script>", "uvx", "", ""), "lower-case letters");
        check(typed("fx", " ", "", ""), "Enter the command");
        check(typed("fx", "a 'b", "", ""), "not closed");
        check(typed("fx", "a \\", "", ""), "backslash");
        check(typed("fx", "a", "s3cret", ""), "Line 1 is not NAME=VALUE");
        check(typed("fx", "a", "", "A: b"), "has no headers");
        check(typed("fx", "http://a", "A=b", ""), "has no environment");
        check(Typed { is_pasted: true, ..Typed::default() }, "Paste the JSON");
    }
}
