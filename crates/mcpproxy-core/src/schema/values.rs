//! Conditions on one value alone: its type, its bounds, its length, and the values it may equal.

use std::cmp::Ordering;

use serde_json::Value;

use super::check::{OutOfSteps, Walker};
use super::condition::{CountLimit, NumberBound, ValueCondition};
use super::equal::{compare, equal, is_multiple};
use crate::json::{ExactPart, LongNumbers};

/// Steps that a division of decimal numbers costs.
const DIVISION: usize = 8;
/// Digits of long numbers that are compared in one step.
pub(super) const BYTES_PER_STEP: usize = 64;

impl<'s> Walker<'s, '_> {
    /// Returns `true` if a value meets a condition. Conditions on numbers or strings hold for other types.
    pub(super) fn value(&mut self, condition: &'s ValueCondition, value: &Value) -> Result<bool, OutOfSteps> {
        let part = ExactPart::new(value, self.long);
        Ok(match (condition, value) {
            (ValueCondition::Never, _) => false,
            (ValueCondition::Type(types), _) => types.admit(part),
            (ValueCondition::Enum(options), _) => {
                let list = options.value().as_array().map(Vec::as_slice).unwrap_or_default();
                self.spend_comparing(list, options.long(), value)?;
                list.iter().any(|option| equal(options.whole().part(option), part))
            }
            (ValueCondition::Const(option), _) => {
                self.spend_comparing(std::slice::from_ref(option.value()), option.long(), value)?;
                equal(option.whole(), part)
            }
            (ValueCondition::Bound(bound, limit), Value::Number(_)) => {
                self.spend((self.long_bytes(value) + limit.long().bytes()) / BYTES_PER_STEP)?;
                match (bound, compare(part, limit.whole())) {
                    (_, None) => false,
                    (NumberBound::Least, Some(order)) => order != Ordering::Less,
                    (NumberBound::Most, Some(order)) => order != Ordering::Greater,
                    (NumberBound::Above, Some(order)) => order == Ordering::Greater,
                    (NumberBound::Below, Some(order)) => order == Ordering::Less,
                }
            }
            (ValueCondition::MultipleOf(divisor), Value::Number(_)) => {
                self.spend(DIVISION + self.long_bytes(value) / BYTES_PER_STEP)?;
                is_multiple(part, divisor.whole())
            }
            (ValueCondition::Length(limit, count), Value::String(text)) => {
                self.spend(text.len() / 64)?;
                within(*limit, *count, text.chars().count())
            }
            (ValueCondition::Pattern(compiled) | ValueCondition::Format(compiled), Value::String(text)) => {
                self.spend(compiled.cost(text))?;
                compiled.admits(value)
            }
            (
                ValueCondition::Bound(..)
                | ValueCondition::MultipleOf(_)
                | ValueCondition::Length(..)
                | ValueCondition::Pattern(_)
                | ValueCondition::Format(_),
                _,
            ) => true,
        })
    }

    /// Counts the digits of the long numbers in a part of the value. Those of other parts cost nothing: a list of a
    /// thousand numbers would otherwise pay for all of them with each one.
    pub(super) fn long_bytes(&self, value: &Value) -> usize {
        if self.long.is_empty() {
            return 0;
        }
        match value {
            Value::Number(number) => self.long.find(number).map_or(0, |long| long.text.len()),
            Value::Array(items) => items.iter().map(|item| self.long_bytes(item)).sum(),
            Value::Object(members) => members.values().map(|member| self.long_bytes(member)).sum(),
            Value::String(_) | Value::Bool(_) | Value::Null => 0,
        }
    }

    fn spend_comparing(&mut self, options: &[Value], long: &LongNumbers, value: &Value) -> Result<(), OutOfSteps> {
        let is_deep = |value: &&Value| value.is_array() || value.is_object();
        let deep = if is_deep(&value) { options.iter().filter(is_deep).count() } else { 0 };
        if !self.long.is_empty() || !long.is_empty() {
            // An array or object differs from everything else at first sight.
            let found = if deep > 0 || value.is_number() { self.long_bytes(value) } else { 0 };
            let digits = (found + long.bytes()) / BYTES_PER_STEP;
            self.spend(options.len().saturating_mul(1 + digits))?;
        }
        let each = if deep > 0 { parts(value) / 4 } else { 0 };
        self.spend(options.len() / 8 + deep.saturating_mul(each))
    }
}

pub(super) fn within(limit: CountLimit, count: u64, found: usize) -> bool {
    match limit {
        CountLimit::Least => found as u64 >= count,
        CountLimit::Most => found as u64 <= count,
    }
}

/// Counts the values in a value. Long strings count as several.
pub(super) fn parts(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(key, value)| key.len() / 64 + parts(value)).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        Value::Number(_) | Value::Bool(_) | Value::Null => 1,
    }
}
