//! Reads the contract that a server sends for a tool in `_meta`.

use super::{Contract, fields, files};
use crate::Untrusted;
use crate::file::{self, Author, Format, Mistakes, Reader, SourcePosition};

pub(super) const SERVER_MAX_BYTES: usize = 64 * 1024;
/// Longer pointers are cut, because their keys come from the server.
const POINTER_SHOWN_MAX_CHARS: usize = 200;

pub(super) fn parse(text: &str) -> Result<Contract, String> {
    if text.len() > SERVER_MAX_BYTES {
        return Err("/: larger than 64 KiB".to_owned());
    }
    let mut mistakes = Mistakes::default();
    let root = file::documents(text, Format::Jsonc, files::KIND, &mut mistakes).pop();
    let mut contract = Contract::default();
    if let Some(node) = &root {
        let mut reader = Reader::new(Author::Server, (), &mut mistakes);
        if let Some(fields) = reader.fields(node, &fields::KEYS) {
            contract = Contract::read(&mut reader, &fields, None);
        }
    }
    let Some(first) = mistakes.in_order().into_iter().next() else { return Ok(contract) };
    let position = SourcePosition { line: first.line, column: first.column };
    let pointer = root.and_then(|root| root.pointer_to(position)).filter(|pointer| !pointer.is_empty());
    let pointer = Untrusted::shortened(pointer.as_deref().unwrap_or("/"), POINTER_SHOWN_MAX_CHARS);
    Err(format!("{}: {}", pointer.for_terminal(), first.message))
}
