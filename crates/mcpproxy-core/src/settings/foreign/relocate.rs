//! Takes secrets out of a server's definition, so that they can be moved into files of their own.

use serde_json::{Map, Value};

use super::secret_url;
use crate::ServerName;
use crate::file::Node;
use crate::mask;
use crate::settings::Secret;
use crate::settings::reference::{has_reference, unescaped};
use crate::settings::secret::is_secret_name;

/// The folder for secrets, next to the settings file.
const FOLDER: &str = "secrets";
/// Schemes that stay in the settings, so that a reader sees how the secret is used.
const SCHEMES: [&str; 4] = ["Bearer ", "bearer ", "Basic ", "token "];

/// A secret that a definition now refers to with `${file:PATH}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocatedSecret {
    /// The path of its file, relative to the settings file: `secrets/github.GITHUB_TOKEN`.
    pub path: String,
    /// Its place in the definition: `env.GITHUB_TOKEN`.
    pub place: String,
    pub value: Secret,
}

/// Replaces every secret in the definition of a server by a reference to a file. The caller writes the files.
///
/// A value counts as secret by the name of its variable, header, option or query parameter, or by its format. In a URL,
/// a part that looks random counts too. A value, or a part of a URL, that contains a reference already stays as it is.
pub fn relocate_secrets(server: &ServerName, definition: &mut Value) -> Vec<RelocatedSecret> {
    let Value::Object(members) = definition else { return Vec::new() };
    let mut move_out = Relocation { server, moved: Vec::new() };
    for pairs in ["env", "headers"] {
        if let Some(Value::Object(values)) = members.get_mut(pairs) {
            move_out.pairs(pairs, values);
        }
    }
    if let Some(Value::Object(oauth)) = members.get_mut("oauth") {
        move_out.pairs("oauth", oauth);
    }
    if let Some(Value::Array(args)) = members.get_mut("args") {
        move_out.args(args);
    }
    if let Some(Value::String(url)) = members.get_mut("url")
        && let Some(text) = move_out.url(url, "url", "url")
    {
        *url = text;
    }
    move_out.moved
}

/// Returns the places of secrets that the definition itself holds: `env.GITHUB_TOKEN`, `args.2`.
pub(in crate::settings) fn inline_secrets(server: &ServerName, definition: &Node) -> Vec<String> {
    let Some(mut definition) = definition.to_json() else { return Vec::new() };
    let mut places: Vec<String> = relocate_secrets(server, &mut definition).into_iter().map(|one| one.place).collect();
    places.dedup();
    places
}

struct Relocation<'s> {
    server: &'s ServerName,
    moved: Vec<RelocatedSecret>,
}

impl Relocation<'_> {
    fn pairs(&mut self, kind: &str, values: &mut Map<String, Value>) {
        for (name, value) in values {
            let Value::String(text) = value else { continue };
            if !text.is_empty() && (is_secret_name(name) || looks_secret(text)) && !has_reference(text) {
                let scheme = SCHEMES.into_iter().find(|scheme| kind == "headers" && text.starts_with(scheme));
                let scheme = scheme.unwrap_or_default();
                let secret = text.get(scheme.len()..).unwrap_or_default();
                *text = format!("{scheme}{}", self.add(&format!("{kind}.{name}"), name, secret));
            }
        }
    }

    fn args(&mut self, args: &mut [Value]) {
        let mut option: Option<String> = None;
        for (index, arg) in args.iter_mut().enumerate() {
            let Value::String(text) = arg else { continue };
            let place = format!("args.{index}");
            let before = option.take();
            if has_reference(text) {
                // The gateway does not resolve references in a secret's file, so a reference has to stay here. Only the
                // other parts of a URL can move.
                if let Some(replaced) = self.url(text, &place, &format!("arg{index}")) {
                    *text = replaced;
                }
                continue;
            }
            if let Some(name) = text.strip_prefix('-').filter(|_| !text.contains('=')) {
                option = Some(name.trim_start_matches('-').to_owned()).filter(|name| is_secret_name(name));
            } else if let Some(name) = before.filter(|_| !is_path(text) && !text.is_empty()) {
                *text = self.add(&place, &name, text);
            } else if let Some(replaced) = self.url(text, &place, &format!("arg{index}")) {
                *text = replaced;
            } else if let Some((name, value)) = text.split_once('=')
                && is_secret_name(name)
                && !value.is_empty()
                && !is_path(value)
            {
                *text = format!("{name}={}", self.add(&place, name.trim_start_matches('-'), value));
            } else if looks_secret(text) {
                *text = self.add(&place, &format!("arg{index}"), text);
            }
        }
    }

    /// Replaces secrets in a URL. Returns `None` if there are none. `name` is for parts without a name of their own.
    fn url(&mut self, url: &str, place: &str, name: &str) -> Option<String> {
        let mut parts = secret_url::parts(url)?;
        let before = self.moved.len();
        for part in parts.iter_mut().filter(|part| part.is_secret()) {
            let (place, name) = match part.parameter {
                Some(parameter) => (format!("{place}?{parameter}"), parameter),
                None => (place.to_owned(), name),
            };
            part.replacement = Some(self.add(&place, name, part.text));
        }
        (self.moved.len() > before).then(|| parts.iter().map(secret_url::UrlPart::shown).collect())
    }

    /// Moves a secret into a file and returns the reference to it.
    fn add(&mut self, place: &str, name: &str, secret: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).take(60).collect();
        let base = format!("{FOLDER}/{}.{name}", self.server);
        let is_taken = |path: &str| self.moved.iter().any(|moved| moved.path == path);
        let numbered = (2..).map(|number| format!("{base}.{number}"));
        let path = std::iter::once(base.clone()).chain(numbered).find(|path| !is_taken(path)).unwrap_or(base);
        let reference = format!("${{file:{path}}}");
        self.moved.push(RelocatedSecret { path, place: place.to_owned(), value: Secret::new(unescaped(secret)) });
        reference
    }
}

pub(super) fn looks_secret(text: &str) -> bool {
    mask::mask(text, &[]).is_changed()
}

/// `--key-file /etc/key.pem` names a file, not a secret.
fn is_path(text: &str) -> bool {
    text.starts_with(['/', '~']) || text.starts_with("./") || text.starts_with("../")
}
