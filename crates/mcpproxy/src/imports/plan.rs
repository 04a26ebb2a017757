//! Decides what to import, under which names, and where secrets go. Writes nothing.

use std::path::Path;

use mcpproxy_core::ServerName;
use mcpproxy_core::settings::{
    self, RelocatedSecret, Settings, TranslatedServer, Warning, free_name, relocate_secrets, server_keys, translate,
};
use mcpproxy_core::trust::Welcome;
use serde_json::{Map, Value};
use url::Url;

use super::own::{OwnAddresses, is_own};
use super::source::{Entry, Source};
use crate::agent_clients::FileFormat;
use crate::agent_clients::document::{self, KeyPath};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::read_secret;
use crate::operator_files::edit::{self, Change};
use crate::operator_files::settings_file;

/// Members that do not change what a server is.
const COSMETIC: [&str; 5] = ["title", "description", "enabled", "disabled", FIRST_SIGHT];
/// The member of a server that says what happens with its first definitions.
const FIRST_SIGHT: &str = "first_sight";
/// Names to try before a stale secret gives up its own.
const SECRET_NAMES_MAX: usize = 1000;

pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) servers: Vec<NewServer>,
    /// Servers that the settings have already.
    pub(crate) present: Vec<Present>,
    pub(crate) skipped: Vec<Skipped>,
    /// True if the client has an entry for this gateway.
    pub(crate) is_connected: bool,
    pub(crate) warnings: Vec<Warning>,
    /// True if the tools of the new servers wait for a review. False if the settings accept everything at first sight.
    pub(crate) is_reviewed: bool,
    /// The text of the settings before and after. `None` if there is no file.
    pub(crate) before: Option<String>,
    pub(crate) after: String,
}

/// A server to add to the settings.
pub(crate) struct NewServer {
    pub(crate) name: ServerName,
    pub(crate) original: String,
    pub(crate) path: KeyPath,
    pub(crate) definition: Value,
    pub(crate) secrets: Vec<RelocatedSecret>,
    /// The name that another server has already.
    pub(crate) wanted: Option<ServerName>,
}

pub(crate) struct Present {
    pub(crate) name: ServerName,
    pub(crate) original: String,
    pub(crate) path: KeyPath,
}

pub(crate) struct Skipped {
    pub(crate) original: String,
    pub(crate) reason: &'static str,
}

impl Plan {
    pub(crate) fn make(home: &Home, source: Source, before: Option<String>) -> Result<Self, Failure> {
        let settings = match &before {
            Some(text) => settings_file::check_shape(&home.settings(), text)?,
            None => settings::demo(),
        };
        let own = own_addresses(home, &settings);
        let is_reviewed = settings.trust.first_sight == Welcome::Review;
        let (mut skipped, mut wanted) = (Vec::new(), Vec::new());
        let mut is_connected = false;
        for entry in &source.entries {
            let is_us = is_own(entry.name(), &entry.definition, &own);
            is_connected |= is_us;
            let reason = entry.refused.or_else(|| is_us.then_some("it is mcpproxy itself"));
            match reason {
                Some(reason) => skipped.push(Skipped { original: entry.name().to_owned(), reason }),
                None => wanted.push(entry.clone()),
            }
        }
        let (translated, mut warnings) = translate_all(&wanted);
        let mut names = Names::of_settings(home, before.as_deref());
        let (mut servers, mut present) = (Vec::new(), Vec::new());
        for (entry, translated) in wanted.iter().zip(translated) {
            let Some(translated) = translated else {
                skipped.push(Skipped { original: entry.name().to_owned(), reason: "it has no name" });
                continue;
            };
            match names.place(entry, translated) {
                Placed::New(server) => {
                    warnings.extend(entry.is_escaped.then(|| plain_text(&server.name, &source)));
                    servers.push(server);
                }
                Placed::Present(server) => present.push(server),
            }
        }
        warnings.extend(servers.iter().filter_map(unresolvable));
        for server in servers.iter_mut().filter(|_| is_reviewed) {
            review_first(&mut server.definition);
        }
        let after = edited(home, before.as_deref(), &servers)?;
        Ok(Self { source, servers, present, skipped, is_connected, warnings, is_reviewed, before, after })
    }

    /// The paths of all servers that the gateway has after the import, in the client's file.
    pub(crate) fn direct_paths(&self) -> Vec<KeyPath> {
        let new = self.servers.iter().map(|server| server.path.clone());
        new.chain(self.present.iter().map(|server| server.path.clone())).collect()
    }

    /// The paths to remove from the client's file. An empty table cannot be told from none in TOML, so a table that
    /// loses all its servers is removed as a whole.
    pub(crate) fn removed_paths(&self) -> Vec<KeyPath> {
        let direct = self.direct_paths();
        let loses_all = |section: &[String]| {
            let mut inside = self.source.entries.iter().filter(|entry| section_of(entry) == Some(section));
            self.source.format == FileFormat::Toml && inside.all(|entry| direct.contains(&entry.path))
        };
        let mut paths: Vec<KeyPath> = Vec::new();
        for path in &direct {
            let section = path.split_last().map(|(_, section)| section).filter(|section| loses_all(section));
            let path = section.map_or_else(|| path.clone(), <[String]>::to_vec);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

/// Translates entries. Two sections of a file may use the same name, so each section is translated on its own.
fn translate_all(entries: &[Entry]) -> (Vec<Option<TranslatedServer>>, Vec<Warning>) {
    let mut all = Vec::new();
    let mut warnings: Vec<Warning> = Vec::new();
    for section in entries.chunk_by(|a, b| section_of(a) == section_of(b)) {
        let members: Map<String, Value> =
            section.iter().map(|entry| (entry.name().to_owned(), entry.definition.clone())).collect();
        let (translated, found) = translate(&members);
        let find = |entry: &Entry| translated.iter().find(|server| server.original == entry.name()).cloned();
        all.extend(section.iter().map(find));
        for warning in found {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    (all, warnings)
}

fn section_of(entry: &Entry) -> Option<&[String]> {
    entry.path.split_last().map(|(_, section)| section)
}

/// Warns that something looks like a reference. The text is not shown, because it may be part of a secret.
fn plain_text(name: &ServerName, source: &Source) -> Warning {
    let who = source.client.map_or("a client", |client| client.title);
    Warning::about_file(format!(
        "`{name}` contains a `${{…}}` that {who} does not resolve; it stays plain text, which the settings write as \
         `$${{…}}`"
    ))
}

/// Warns of a server that will be misconfigured, because only an editor can resolve its references.
fn unresolvable(server: &NewServer) -> Option<Warning> {
    // `$${input:x}` is plain text, not a reference.
    let text = server.definition.to_string().replace("$${", "");
    let reference = ["${input:", "${workspaceFolder", "${command:", "${config:"].into_iter().find_map(|start| {
        let (_, rest) = text.split_once(start)?;
        let (inside, _) = rest.split_once('}')?;
        Some(format!("{start}{inside}}}"))
    })?;
    let name = &server.name;
    Some(Warning::about_file(format!(
        "`{name}` needs `{reference}`, which only an editor can resolve; write `${{env:NAME}}`, `${{file:PATH}}` or \
         the value into the settings, or `{name}` stays misconfigured"
    )))
}

/// The servers that the settings have, and the names that are taken.
struct Names<'h> {
    home: &'h Home,
    /// Names with their definitions, as they are written and in our own form.
    taken: Vec<(ServerName, Value)>,
}

enum Placed {
    New(NewServer),
    Present(Present),
}

impl<'h> Names<'h> {
    fn of_settings(home: &'h Home, text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        let value = document::read(text, FileFormat::Json).unwrap_or_default();
        let taken = server_keys(text).into_iter().map(|key| {
            let definition = value.get(&key.section).and_then(|section| section.get(&key.key)).cloned();
            let one = Map::from_iter([(key.name.to_string(), definition.unwrap_or_default())]);
            let (translated, _) = translate(&one);
            let definition = translated.into_iter().next().map(|server| server.definition).unwrap_or_default();
            (key.name, definition)
        });
        Self { home, taken: taken.collect() }
    }

    /// Finds a server of the settings that is the same, or a free name.
    fn place(&mut self, entry: &Entry, server: TranslatedServer) -> Placed {
        let mut refused: Vec<ServerName> = Vec::new();
        loop {
            let name = free_name(&server.name, |name| refused.contains(name));
            let (definition, secrets) = self.relocate(&name, &server.definition);
            match self.taken.iter().find(|(other, _)| *other == name) {
                Some((_, other)) if self.is_same(other, &server.definition, &definition, &secrets) => {
                    return Placed::Present(Present { name, original: server.original, path: entry.path.clone() });
                }
                Some(_) => refused.push(name),
                None => {
                    self.taken.push((name.clone(), definition.clone()));
                    let wanted = (name != server.name).then_some(server.name);
                    let (original, path) = (server.original, entry.path.clone());
                    return Placed::New(NewServer { name, original, path, definition, secrets, wanted });
                }
            }
        }
    }

    /// Moves secrets out of a definition. A file that holds another secret already is left alone.
    fn relocate(&self, name: &ServerName, definition: &Value) -> (Value, Vec<RelocatedSecret>) {
        let mut definition = definition.clone();
        let mut secrets = relocate_secrets(name, &mut definition);
        for secret in &mut secrets {
            let base = secret.path.clone();
            let is_free = |path: &str| match self.stored(path) {
                Stored::Nothing => true,
                Stored::Secret(stored) => stored == secret.value.expose(),
                Stored::Unreadable => false,
            };
            let mut candidates = (1..SECRET_NAMES_MAX).map(|number| match number {
                1 => base.clone(),
                number => format!("{base}~{number}"),
            });
            if let Some(free) = candidates.find(|path| is_free(path))
                && free != base
            {
                replace_in(&mut definition, &format!("${{file:{base}}}"), &format!("${{file:{free}}}"));
                secret.path = free;
            }
        }
        (definition, secrets)
    }

    fn is_same(&self, settings: &Value, plain: &Value, moved: &Value, secrets: &[RelocatedSecret]) -> bool {
        let settings = without_cosmetics(settings);
        let are_stored = || {
            secrets.iter().all(
                |secret| matches!(self.stored(&secret.path), Stored::Secret(stored) if stored == secret.value.expose()),
            )
        };
        settings == without_cosmetics(plain) || (settings == without_cosmetics(moved) && are_stored())
    }

    fn stored(&self, path: &str) -> Stored {
        let path = self.home.folder().join(path);
        if path.symlink_metadata().is_err() {
            return Stored::Nothing;
        }
        match std::fs::read_to_string(&path) {
            // `write_secret` ends the file with a line break, and `${file:PATH}` removes it again.
            Ok(text) if read_secret(&path).is_ok() => {
                Stored::Secret(text.strip_suffix('\n').unwrap_or(&text).to_owned())
            }
            Ok(_) | Err(_) => Stored::Unreadable,
        }
    }
}

/// The content of a file for a secret.
enum Stored {
    Nothing,
    Secret(String),
    /// It cannot be used, so it stays as it is.
    Unreadable,
}

fn without_cosmetics(definition: &Value) -> Value {
    let mut definition = definition.clone();
    if let Value::Object(members) = &mut definition {
        COSMETIC.iter().for_each(|key| drop(members.remove(*key)));
    }
    definition
}

fn replace_in(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_in(value, from, to)),
        Value::Object(members) => members.values_mut().for_each(|value| replace_in(value, from, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the settings with the new servers, keeping comments and order.
fn edited(home: &Home, before: Option<&str>, servers: &[NewServer]) -> Result<String, Failure> {
    let mut text = before.map(str::to_owned);
    for server in servers {
        let change = Change::Add(server.definition.clone());
        let new = edit::apply(text.as_deref(), &server.name, change)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()).hint("nothing was changed"))?;
        text = Some(new);
    }
    let text = text.unwrap_or_default();
    if !servers.is_empty() {
        settings_file::check_shape(&home.settings(), &text).map_err(|failure| failure.hint("nothing was changed"))?;
    }
    Ok(text)
}

/// Makes the tools of a server wait for a review. The file of another client may come from anywhere, and a key in it
/// must not skip the review. It stays in the settings, so that a restart does not skip the review either.
fn review_first(definition: &mut Value) {
    if let Value::Object(members) = definition {
        members.shift_remove(FIRST_SIGHT);
        members.insert(FIRST_SIGHT.to_owned(), "review".into());
    }
}

fn own_addresses(home: &Home, settings: &Settings) -> OwnAddresses {
    let running = home.running().ok().flatten().and_then(|running| running.address.parse().ok());
    let public = settings.approvals.public_url.as_deref().and_then(|url| Url::parse(url).ok());
    OwnAddresses { listen: [settings.listen].into_iter().chain(running).collect(), public }
}

/// Returns the path of a secret in the data folder.
pub(crate) fn secret_path(home: &Home, secret: &RelocatedSecret) -> std::path::PathBuf {
    home.folder().join(Path::new(&secret.path))
}
