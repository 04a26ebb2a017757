//! Reads a lock file strictly: unknown members, duplicates and parts that disagree are mistakes.

use std::collections::HashSet;

use super::write::text_of;
use super::{FILE_MAX_BYTES, Lock, LockedServer, VERSION};
use crate::file::shown;
use crate::json::{Members, members, read_server, string_value};
use crate::settings::{ServerIdentity, WrittenTransport};
use crate::trust::{Definition, DefinitionKey, DefinitionKind, FORMULA, Pin};
use crate::{Mistake, ServerName};

/// The end of most messages. Whoever wants to change a lock lets mcpproxy write it.
const WRITE_AGAIN: &str = "run `mcpproxy lock` to write the file again";

const TOP: &[&str] = &["version", "servers"];
const SERVER: &[&str] = &["name", "transport", "command", "args", "cwd", "url", "identity", "definitions"];
const DEFINITION: &[&str] = &["kind", "name", "formula", "pin", "text", "definition"];
const TRANSPORTS: [&str; 5] = ["stdio", "http", "sse", "demo", "unknown"];

pub(super) fn read(text: &str) -> Result<Lock, Mistake> {
    if text.len() > FILE_MAX_BYTES {
        let message = format!("the lock file is larger than {} MiB; {WRITE_AGAIN}", FILE_MAX_BYTES >> 20);
        return Err(Mistake { line: 1, column: 1, message });
    }
    if let Some(at) = text.lines().position(|line| line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>")) {
        let message = format!("unresolved merge conflict; resolve it, or {WRITE_AGAIN}");
        return Err(Mistake { line: at + 1, column: 1, message });
    }
    let syntax = |error: crate::json::ReadError| Mistake {
        line: error.line,
        column: error.column,
        message: format!("{}; {WRITE_AGAIN}", error.kind),
    };
    read_server(text.as_bytes()).map_err(syntax)?;
    Reading { text }.file()
}

/// A file on its way to a lock. All slices are parts of `text`, so each has a position.
struct Reading<'t> {
    text: &'t str,
}

impl<'t> Reading<'t> {
    fn file(&self) -> Result<Lock, Mistake> {
        let file = self.fields(self.text.trim(), TOP)?;
        let version = self.required(&file, self.text.trim(), "version")?;
        if version != VERSION.to_string() {
            let message = format!(
                "version {} of the lock file is not known, only {VERSION}; use the version of mcpproxy that wrote it, or \
                 {WRITE_AGAIN}",
                shown(version)
            );
            return Err(self.mistake(version, message));
        }
        let mut names = HashSet::new();
        let mut servers = Vec::new();
        for json in self.elements(self.required(&file, self.text.trim(), "servers")?)? {
            let server = self.server(json)?;
            if !names.insert(server.name.clone()) {
                return Err(self.mistake(json, format!("server `{}` is there twice; {WRITE_AGAIN}", server.name)));
            }
            servers.push(server);
        }
        Ok(Lock::new(servers))
    }

    fn server(&self, json: &'t str) -> Result<LockedServer, Mistake> {
        let fields = self.fields(json, SERVER)?;
        let name_at = self.required(&fields, json, "name")?;
        let name = ServerName::parse(&self.string(name_at)?)
            .map_err(|error| self.mistake(name_at, format!("{error}; {WRITE_AGAIN}")))?;
        let transport = self.transport(json, &fields)?;
        let identity_at = self.required(&fields, json, "identity")?;
        let identity = self.string(identity_at)?;
        let is_masked = |text: &String| text.contains(ServerIdentity::MASK);
        let is_whole = !transport.args.iter().chain(&transport.url).any(is_masked);
        if is_whole && ServerIdentity::new(name.clone(), transport.clone()).key() != identity {
            let message = format!(
                "the identity of server `{name}` does not belong to its command or address; undo the edit, or {WRITE_AGAIN}"
            );
            return Err(self.mistake(identity_at, message));
        }
        let mut keys = HashSet::new();
        let mut definitions = Vec::new();
        for json in self.elements(self.required(&fields, json, "definitions")?)? {
            let definition = self.definition(json)?;
            if !keys.insert(definition.key.clone()) {
                let message = format!("{} is there twice; {WRITE_AGAIN}", named(&definition.key));
                return Err(self.mistake(json, message));
            }
            definitions.push(definition);
        }
        Ok(LockedServer::new(name, transport, identity, definitions))
    }

    fn transport(&self, json: &'t str, fields: &Members<'t>) -> Result<WrittenTransport, Mistake> {
        let kind_at = self.required(fields, json, "transport")?;
        let word = self.string(kind_at)?;
        let kind = TRANSPORTS.into_iter().find(|kind| *kind == word);
        let kind =
            kind.ok_or_else(|| self.mistake(kind_at, format!("unknown transport `{}`; {WRITE_AGAIN}", shown(&word))))?;
        let text = |key: &str| find(fields, key).map(|value| self.string(value)).transpose();
        Ok(WrittenTransport {
            kind,
            command: text("command")?,
            args: find(fields, "args").map(|args| self.strings(args)).transpose()?.unwrap_or_default(),
            cwd: text("cwd")?,
            url: text("url")?,
        })
    }

    fn definition(&self, json: &'t str) -> Result<Definition, Mistake> {
        let fields = self.fields(json, DEFINITION)?;
        let kind_at = self.required(&fields, json, "kind")?;
        let word = self.string(kind_at)?;
        let kind = DefinitionKind::parse(&word)
            .ok_or_else(|| self.mistake(kind_at, format!("unknown kind `{}`; {WRITE_AGAIN}", shown(&word))))?;
        let name = match kind {
            DefinitionKind::Instructions => String::new(),
            DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => {
                self.string(self.required(&fields, json, "name")?)?
            }
        };
        let definition = Definition::new(kind, &name, self.required(&fields, json, "definition")?);
        self.check_name(&definition, json, &fields)?;
        self.check_pin(&definition, json, &fields)?;
        let text = find(&fields, "text").map(|text| self.strings(text)).transpose()?.map(|lines| lines.join("\n"));
        if text != text_of(&definition) {
            let place = find(&fields, "text").unwrap_or(json);
            let message =
                format!("`text` is not the description of {}; undo the edit, or {WRITE_AGAIN}", named(&definition.key));
            return Err(self.mistake(place, message));
        }
        Ok(definition)
    }

    /// Checks that the definition has the name under which it is listed.
    fn check_name(&self, definition: &Definition, json: &'t str, fields: &Members<'t>) -> Result<(), Mistake> {
        let own = match definition.key.kind {
            DefinitionKind::Instructions => return Ok(()),
            DefinitionKind::Tool | DefinitionKind::Prompt => crate::json::member(&definition.json, "name"),
            DefinitionKind::Template => crate::json::member(&definition.json, "uriTemplate"),
        };
        if own.and_then(string_value).as_deref() == Some(&*definition.key.name) {
            return Ok(());
        }
        let message = format!("the definition of {} has another name; {WRITE_AGAIN}", named(&definition.key));
        Err(self.mistake(find(fields, "name").unwrap_or(json), message))
    }

    fn check_pin(&self, definition: &Definition, json: &'t str, fields: &Members<'t>) -> Result<(), Mistake> {
        let formula_at = self.required(fields, json, "formula")?;
        let pin_at = self.required(fields, json, "pin")?;
        if formula_at.parse::<u16>().ok() != Some(FORMULA) {
            let message = format!(
                "formula {} is not known, only {FORMULA}; use the version of mcpproxy that wrote it, or {WRITE_AGAIN}",
                shown(formula_at)
            );
            return Err(self.mistake(formula_at, message));
        }
        if Pin::parse(&self.string(pin_at)?) == Some(definition.pin()) {
            return Ok(());
        }
        let message = format!(
            "the pin of {} does not belong to its definition; undo the edit, or {WRITE_AGAIN}",
            named(&definition.key)
        );
        Err(self.mistake(pin_at, message))
    }

    /// Returns the members of an object. Unknown ones are mistakes: a misspelled one would count as missing.
    fn fields(&self, json: &'t str, known: &[&str]) -> Result<Members<'t>, Mistake> {
        let fields = members(json).ok_or_else(|| self.mistake(json, format!("expected an object; {WRITE_AGAIN}")))?;
        match fields.iter().find(|(key, _)| !known.contains(&key.as_ref())) {
            Some((key, value)) => Err(self.mistake(value, format!("unknown member `{}`; {WRITE_AGAIN}", shown(key)))),
            None => Ok(fields),
        }
    }

    fn required(&self, fields: &Members<'t>, object: &'t str, key: &str) -> Result<&'t str, Mistake> {
        find(fields, key).ok_or_else(|| self.mistake(object, format!("`{key}` is missing; {WRITE_AGAIN}")))
    }

    fn string(&self, json: &'t str) -> Result<String, Mistake> {
        let text = json.starts_with('"').then(|| string_value(json)).flatten();
        let text = text.ok_or_else(|| self.mistake(json, format!("expected a string; {WRITE_AGAIN}")))?;
        Ok(text.into_owned())
    }

    fn strings(&self, json: &'t str) -> Result<Vec<String>, Mistake> {
        self.elements(json)?.into_iter().map(|one| self.string(one)).collect()
    }

    fn elements(&self, json: &'t str) -> Result<Vec<&'t str>, Mistake> {
        let elements: Result<Vec<&serde_json::value::RawValue>, _> = serde_json::from_str(json);
        let elements = elements.map_err(|_| self.mistake(json, format!("expected a list; {WRITE_AGAIN}")))?;
        Ok(elements.into_iter().map(serde_json::value::RawValue::get).collect())
    }

    /// Makes a mistake at the place of a slice of the file.
    fn mistake(&self, place: &str, message: impl Into<String>) -> Mistake {
        let at = place.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let before = self.text.get(..at).unwrap_or_default();
        let (lines, last) = match before.rsplit_once('\n') {
            Some((lines, last)) => (lines.matches('\n').count() + 2, last),
            None => (1, before),
        };
        Mistake { line: lines, column: last.chars().count() + 1, message: message.into() }
    }
}

fn find<'t>(fields: &Members<'t>, key: &str) -> Option<&'t str> {
    fields.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
}

/// Names a definition in a message. Its name comes from a server.
pub(super) fn named(key: &DefinitionKey) -> String {
    match key.kind {
        DefinitionKind::Instructions => "`instructions`".to_owned(),
        DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => {
            format!("{} `{}`", key.kind.as_str(), shown(&key.name))
        }
    }
}
