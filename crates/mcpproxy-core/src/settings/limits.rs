//! The `limits` section: bounds on what the gateway uses as a whole.

use super::read::Reader;
use super::{amount, keys};
use crate::file::amount::GIB;
use crate::file::{Fields, Node, NodeValue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Memory for requests and answers in flight, of all agents together.
    pub memory_bytes: usize,
    /// The most bytes that a SQLite database may use. `None` means no limit.
    pub disk: Option<u64>,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self { memory_bytes: 256 * 1024 * 1024, disk: Some(64 * GIB) }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<LimitSettings> {
    let fields = reader.fields(&fields.find("limits")?.node, &keys::LIMITS)?;
    let default = LimitSettings::default();
    let memory = fields.find("memory").and_then(|field| read_memory(reader, &field.node));
    let disk = fields.find("disk").and_then(|field| read_disk(reader, &field.node));
    Some(LimitSettings { memory_bytes: memory.unwrap_or(default.memory_bytes), disk: disk.unwrap_or(default.disk) })
}

fn read_memory(reader: &mut Reader<'_>, node: &Node) -> Option<usize> {
    let NodeValue::Number(number) = &node.value else { return reader.parsed(node, amount::parse_memory) };
    reader.checked(node, amount::check_memory(number.as_u64().unwrap_or(0)))
}

fn read_disk(reader: &mut Reader<'_>, node: &Node) -> Option<Option<u64>> {
    let NodeValue::Number(number) = &node.value else { return reader.parsed(node, amount::parse_disk) };
    let bytes = amount::check_disk(number.as_u64().unwrap_or(0));
    reader.checked(node, bytes).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::settings::{Unresolved, parse};

    #[test]
    fn memory_is_a_size_within_bounds() {
        let check = |value: &str, expected: Option<usize>| {
            let settings = parse(&format!(r#"{{"limits": {{"memory": {value}}}}}"#), &Unresolved);
            assert_eq!(settings.ok().map(|settings| settings.limits.memory_bytes), expected, "{value}");
        };
        check(r#""64MiB""#, Some(67_108_864));
        check(r#""1GiB""#, Some(1_073_741_824));
        check("268435456", Some(268_435_456));
        check(r#""63MiB""#, None);
        check(r#""2TiB""#, None);
        check(r#""much""#, None);
        check("true", None);
    }
}
