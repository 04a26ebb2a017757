//! The `limits` section: memory of the whole gateway.

use super::read::Reader;
use super::{amount, keys};
use crate::file::{Fields, NodeValue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Memory for requests and answers in flight, of all agents together.
    pub memory_bytes: usize,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self { memory_bytes: 256 * 1024 * 1024 }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<LimitSettings> {
    let fields = reader.fields(&fields.find("limits")?.node, &keys::LIMITS)?;
    Some(LimitSettings { memory_bytes: read_memory(reader, &fields).unwrap_or(LimitSettings::default().memory_bytes) })
}

fn read_memory(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<usize> {
    let node = &fields.find("memory")?.node;
    let NodeValue::Number(number) = &node.value else { return reader.parsed(node, amount::parse_memory) };
    reader.checked(node, amount::check_memory(number.as_u64().unwrap_or(0)))
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
