//! The tools that each server listed last, in files of the data folder.
//!
//! Commands that work without a gateway read them: a replay of recorded calls, and tests of contracts. The gateway
//! compares a new list with the stored one, so it notices changes that happened while it did not run.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use mcpproxy_core::{Offer, Offered, ServerName, json};
use serde_json::value::RawValue;

use crate::own_file;

/// Longer files are ignored. The limits on a list of tools keep it far shorter.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A folder with one file for each server.
#[derive(Clone, Debug)]
pub struct ToolLists {
    folder: PathBuf,
}

impl ToolLists {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the tools that the server listed last, or `None` if it was never connected. A file that cannot be read
    /// is treated like a missing one, because the next connection replaces it.
    pub fn load(&self, server: &ServerName) -> Option<Offer> {
        let mut bytes = Vec::new();
        let file = own_file::read(&self.file(server)).ok()?;
        file.take(FILE_MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let text = json::read_server(&bytes).ok()?;
        let tools: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        Some(Offer::new(tools.into_iter().map(|tool| Offered::parse(server, tool.get()))).0)
    }

    /// Replaces the stored list. A reader sees the old list or the new one.
    pub(crate) fn save(&self, server: &ServerName, offer: &Offer) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.file(server);
        let fresh = path.with_extension("new");
        let mut file = own_file::create(&fresh)?;
        let tools: Vec<&str> = offer.tools().map(|tool| tool.json.as_str()).collect();
        file.write_all(format!("[{}]\n", tools.join(",\n")).as_bytes())?;
        drop(file);
        fs::rename(&fresh, &path)
    }

    fn file(&self, server: &ServerName) -> PathBuf {
        // The name of a server has no `/` and no dot.
        Path::new(&self.folder).join(format!("{server}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives() {
        let folder = tempfile::tempdir().unwrap();
        let lists = ToolLists::new(folder.path().join("tools"));
        let server = ServerName::parse("fx").unwrap();
        assert!(lists.load(&server).is_none());
        let tools = [r#"{"name":"a","inputSchema":{"x": 1.0}}"#, r#"{"name":"b","inputSchema":{}}"#];
        let offer = Offer::new(tools.map(|tool| Offered::parse(&server, tool))).0;
        lists.save(&server, &offer).unwrap();
        let read = lists.load(&server).unwrap();
        assert!(read.tools().eq(offer.tools()));
        fs::write(folder.path().join("tools/fx.json"), "[{").unwrap();
        assert!(lists.load(&server).is_none(), "a broken file counts as none");
    }

    #[test]
    fn a_list_does_not_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let (lists, server) = (ToolLists::new(folder.path()), ServerName::parse("fx").unwrap());
        let precious = folder.path().join("precious");
        fs::write(&precious, "[]").unwrap();
        for name in ["fx.json", "fx.new"] {
            std::os::unix::fs::symlink(&precious, folder.path().join(name)).unwrap();
        }
        assert!(lists.load(&server).is_none());
        let offer = Offer::new([Offered::parse(&server, r#"{"name":"a","inputSchema":{}}"#)]).0;
        assert!(lists.save(&server, &offer).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "[]");
    }
}
