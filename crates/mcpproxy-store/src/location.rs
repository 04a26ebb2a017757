//! Where a store is: a file on this machine, or a database that several gateways share.

use std::fmt;
use std::path::PathBuf;

/// Its `Debug` and `Display` show no password.
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
                let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
                write!(f, "{scheme}://{}", place.split('?').next().unwrap_or_default())
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
    fn nothing_secret_is_shown() {
        let check = |url: &str, shown: &str| assert_eq!(Location::Postgres(url.into()).to_string(), shown);
        check("postgres://me:pa@ss@db.example:5432/log?sslmode=require", "postgres://db.example:5432/log");
        check("postgresql:///log?host=/run/postgresql&password=x", "postgresql:///log");
        check("nonsense", "postgres://");
    }
}
