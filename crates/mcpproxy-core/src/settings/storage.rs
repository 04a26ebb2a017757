//! The `storage` section: the database for records and tokens.

use url::Url;

use super::read::Reader;
use super::reference::{Outside, expand};
use super::{Secret, keys};
use crate::file::{Fields, list};
use crate::nearest;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageSettings {
    /// `None` means the database in the data folder.
    pub url: Option<StorageUrl>,
}

/// The database. Its `Debug` shows nothing of a PostgreSQL URL, because that may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageUrl {
    /// The path of the file. A relative path starts in the data folder.
    Sqlite(String),
    /// The whole URL, as PostgreSQL clients take it.
    Postgres(Secret),
}

const POSTGRES_FORM: &str = "`postgres://USER:PASSWORD@HOST:PORT/DATABASE`";

/// The accepted URL parameters. Others are refused, because a misspelt `sslmode` would be ignored silently.
const POSTGRES_OPTIONS: &[&str] = &[
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "options",
];

const SSL_MODES: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> StorageSettings {
    StorageSettings { url: read_url(reader, fields) }
}

fn read_url(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<StorageUrl> {
    let fields = reader.fields(&fields.find("storage")?.node, &keys::STORAGE)?;
    let node = &fields.find("url")?.node;
    let text = reader.expanded(node)?.text;
    let is_left = reader.context.stand_in().is_some_and(|stand_in| text.contains(stand_in));
    if let Some(path) = text.strip_prefix("sqlite:") {
        // `sqlite://PATH` means the same as `sqlite:PATH`.
        let path = path.strip_prefix("//").unwrap_or(path);
        let path =
            if path.is_empty() { Err("`sqlite:` without a path; write `sqlite:PATH`".to_owned()) } else { Ok(path) };
        return reader.checked(node, path).map(|path| StorageUrl::Sqlite(path.to_owned()));
    }
    // A URL with an unresolved reference cannot be checked.
    if !is_left {
        reader.checked(node, check_postgres(&text))?;
    }
    let written = reader.string(node)?;
    let url = if has_password(written) { Secret::written_in_file(text) } else { Secret::new(text) };
    Some(StorageUrl::Postgres(url))
}

/// Checks a PostgreSQL URL. The messages do not show it, because a special character can make any part of it the
/// password.
fn check_postgres(text: &str) -> Result<(), String> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Err(format!(
            "expected `sqlite:PATH` or {POSTGRES_FORM}; remove `storage` for a file in the data folder"
        ));
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(
            "the address contains a space, line end or control character; remove it, or write `%20` for a space"
                .to_owned(),
        );
    }
    let url = Url::parse(text).map_err(|error| {
        format!(
            "not an address ({error}); write {POSTGRES_FORM}, and in a password `%2F` for `/`, `%3F` for `?`, `%23` for \
             `#`, `%40` for `@`"
        )
    })?;
    if url.fragment().is_some() {
        return Err("the address contains `#`, and what follows would be ignored; write `%23` for it".to_owned());
    }
    let database = url.path().trim_start_matches('/');
    if database.contains(['/', '@']) {
        // Most likely a `/` in the password ended the host too early.
        return Err(
            "the name of the database contains `/` or `@`; write `%2F` for `/` and `%40` for `@`, also in a password"
                .to_owned(),
        );
    }
    let mut has_database = !database.is_empty();
    for (name, option) in url.query_pairs() {
        check_option(&name, &option)?;
        has_database |= name == "dbname" && !option.is_empty();
    }
    if !has_database {
        return Err(
            "the address names no database; write it at the end, as in `postgres://USER@HOST/DATABASE`".to_owned()
        );
    }
    Ok(())
}

fn check_option(name: &str, option: &str) -> Result<(), String> {
    match name {
        "sslmode" if !SSL_MODES.contains(&option) => {
            Err(format!("unknown `sslmode` in the address; write one of {}", list(SSL_MODES.iter().copied())))
        }
        "port" if option.parse::<u16>().is_err() => Err("`port` in the address is not a port".to_owned()),
        _ if POSTGRES_OPTIONS.contains(&name) => Ok(()),
        _ => {
            let known = POSTGRES_OPTIONS.iter().copied();
            let advice = match nearest(name, known.clone()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known options: {}", list(known)),
            };
            Err(format!("unknown option after `?` in the address; {advice}"))
        }
    }
}

/// Returns true if a PostgreSQL URL, as written in the file, has a password or a part of one outside its references.
fn has_password(written: &str) -> bool {
    let Ok(blanked) = expand(written, &Blank) else { return false };
    let without_scheme = blanked.text.split_once("://").map_or(blanked.text.as_str(), |(_, rest)| rest);
    let authority = without_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
    let query = without_scheme.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let options = url::form_urlencoded::parse(query.as_bytes());
    let option = options.filter_map(|(name, option)| (name == "password").then_some(option));
    password.map(Into::into).into_iter().chain(option).any(|password| !password.replace(BLANK, "").is_empty())
}

/// Cannot occur in a URL from the file, because NUL is refused before.
const BLANK: &str = "\0";

struct Blank;

impl Outside for Blank {
    fn env(&self, _name: &str) -> Option<String> {
        Some(BLANK.to_owned())
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Ok(BLANK.to_owned())
    }
}
