//! Reads and writes the lock file, which names the definitions that are accepted.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use mcpproxy_core::lock::{FILE_MAX_BYTES, Lock};

use crate::exit::{Exit, Failure};

/// The name of the file, if the user gives none.
pub(crate) const NAME: &str = "mcpproxy.lock";

/// Reads a lock file. A mistake is reported with its place.
pub(crate) fn read(path: &Path) -> anyhow::Result<Lock> {
    let text = read_text(path)?;
    Lock::read(&text).map_err(|mistake| {
        Failure::new(Exit::BadSettings, format!("{}:{mistake}", path.display()))
            .title("invalid lock file")
            .hint(format!("write it again with `mcpproxy lock --to {}`", path.display()))
            .into()
    })
}

/// Reads the text of a lock file.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    let file = File::open(path).map_err(|error| {
        let failure = Failure::new(Exit::Failed, format!("could not read {}: {error}", path.display()));
        failure.hint(format!("write it with `mcpproxy lock --to {}`", path.display()))
    })?;
    let mut bytes = Vec::new();
    let limit = FILE_MAX_BYTES as u64;
    file.take(limit + 1).read_to_end(&mut bytes).with_context(|| format!("could not read {}", path.display()))?;
    let name = path.display();
    if bytes.len() as u64 > limit {
        return Err(Failure::new(Exit::BadSettings, format!("{name} has more than {limit} bytes")).into());
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(Exit::BadSettings, format!("{name} is not UTF-8 text")).into())
}
