//! Reads JSON with `serde`, event by event, so that duplicate keys and depth are seen.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The events of a text, up to its end or the first error.
pub(crate) struct Walked {
    pub(crate) value: Result<Value, serde_json::Error>,
    pub(crate) deepest: usize,
    /// Keys that occur twice in the same object.
    pub(crate) duplicates: Vec<String>,
}

pub(crate) fn walk(text: &str) -> Walked {
    let mut seen = Events::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = Step { depth: 0, seen: &mut seen }.deserialize(&mut parser).and_then(|value| {
        parser.end()?;
        Ok(value)
    });
    Walked { value, deepest: seen.deepest, duplicates: seen.duplicates }
}

#[derive(Default)]
struct Events {
    deepest: usize,
    duplicates: Vec<String>,
}

struct Step<'s> {
    depth: usize,
    seen: &'s mut Events,
}

impl Step<'_> {
    fn deeper(&mut self) -> usize {
        let depth = self.depth + 1;
        self.seen.deepest = self.seen.deepest.max(depth);
        depth
    }
}

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<Value, A::Error> {
        let depth = self.deeper();
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(Step { depth, seen: self.seen })? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let depth = self.deeper();
        let mut keys = HashSet::new();
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if !keys.insert(key.clone()) {
                self.seen.duplicates.push(key.clone());
            }
            object.insert(key, map.next_value_seed(Step { depth, seen: self.seen })?);
        }
        Ok(Value::Object(object))
    }
}
