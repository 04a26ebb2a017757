//! The contract that a server carries for a tool.

use super::node::{Mistakes, Place};
use super::read::{Reader, Writer};
use super::{Contract, fields, json, keys};
use crate::Untrusted;

pub(super) const SERVER_MAX_BYTES: usize = 64 * 1024;
/// More of a pointer helps nobody; its keys are the server's.
const POINTER_SHOWN_MAX_CHARS: usize = 200;

pub(super) fn parse(text: &str) -> Result<Contract, String> {
    if text.len() > SERVER_MAX_BYTES {
        return Err("/: larger than 64 KiB".to_owned());
    }
    let mut mistakes = Mistakes::default();
    let root = json::document(text, &mut mistakes);
    let mut contract = Contract::default();
    if let Some(node) = &root {
        let mut reader = Reader::new(Writer::Server, &mut mistakes);
        if let Some(fields) = reader.fields(node, &keys::CONTRACT) {
            contract = fields::contract(&mut reader, &fields, None);
        }
    }
    let Some(first) = mistakes.in_order().into_iter().next() else { return Ok(contract) };
    let place = Place { line: first.line, column: first.column };
    let pointer = root.and_then(|root| json::pointer(&root, place)).filter(|pointer| !pointer.is_empty());
    let pointer = Untrusted::shortened(pointer.as_deref().unwrap_or("/"), POINTER_SHOWN_MAX_CHARS);
    Err(format!("{}: {}", pointer.for_terminal(), first.message))
}
