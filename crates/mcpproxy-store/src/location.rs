//! The location of a store: a SQLite file, or a PostgreSQL database that several gateways share.

use std::fmt;
use std::path::PathBuf;

/// `Debug` and `Display` leave out the password.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    Sqlite(PathBuf),
    /// `postgres://USER:PASSWORD@HOST/DATABASE`
    Postgres(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", ""));
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                write!(f, "{scheme}://{}", host.split('?').next().unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self::Sqlite(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let check = |url: &str, shown: &str| assert_eq!(Location::Postgres(url.into()).to_string(), shown);
        check("postgres://me:pa@ss@db.example:5432/log?sslmode=require", "postgres://db.example:5432/log");
        check("postgresql:///log?host=/run/postgresql&password=x", "postgresql:///log");
        check("nonsense", "postgres://");
    }
}
