//! Resolves references in settings, on top of the reader that all files share.

use super::FILE_MAX_BYTES;
use super::reference::{Expanded, Outside, expand};
use crate::file::{self, Fields, Node};

/// Reads the settings file. Its context resolves `${env:NAME}` and `${file:PATH}`.
pub(super) type Reader<'m> = file::Reader<'m, &'m dyn Outside>;

impl Reader<'_> {
    /// Reads a text and resolves its references.
    pub(super) fn expanded(&mut self, node: &Node) -> Option<Expanded> {
        match expand(self.string(node)?, self.context) {
            Ok(expanded) if expanded.text.len() > FILE_MAX_BYTES => {
                self.mistake(node.position, "longer than 1 MiB with its references replaced")
            }
            Ok(expanded) if expanded.text.contains('\0') => {
                self.mistake(node.position, "contains a NUL character; remove it")
            }
            Ok(expanded) => Some(expanded),
            Err(errors) => {
                for (at, message) in errors {
                    self.report(node.position_inside(at), message);
                }
                None
            }
        }
    }

    /// Reads the path of a program, file or folder. No shell expands it.
    pub(super) fn path(&mut self, node: &Node, key: &str) -> Option<String> {
        let path = self.expanded(node)?.text;
        if path.trim().is_empty() {
            return self.mistake(node.position, format!("`{key}` is empty"));
        }
        if path == "~" || path.starts_with("~/") {
            let message = "`~` works only in a shell; write the full path, or `${env:HOME}` for `~`";
            return self.mistake(node.position, message);
        }
        Some(path)
    }

    /// Reads a list, each element with `parse`.
    pub(super) fn parsed_list<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let nodes = fields.find(key).and_then(|member| self.array(&member.node)).unwrap_or_default();
        nodes.iter().filter_map(|node| self.parsed(node, parse)).collect()
    }
}
