//! What is left to the library: patterns and formats, each as a tiny schema of its own.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Value, json};

/// A compiled pattern of this size is matched against a long text at any time.
const PATTERN_SMALL_BYTES: usize = 16 << 10;
/// No larger pattern is compiled. Every pattern of the real tools is smaller by far.
const PATTERN_MAX_BYTES: usize = 64 << 10;
/// What a byte of text costs with a large pattern: the engine may have to follow that many states at once.
const LARGE_WEIGHT: usize = 64;
/// What it costs to ask the library at all.
const ASKING: usize = 4;

/// A check of one keyword. Before it is compiled it lets everything pass.
#[derive(Clone, Default)]
pub(super) struct CompiledKeyword {
    pub(super) text: Box<str>,
    run: Option<Arc<Validator>>,
    weight: usize,
}

/// What was compiled for a schema; many have the same pattern in a hundred places.
#[derive(Default)]
pub(super) struct KeywordCache {
    patterns: HashMap<Box<str>, Option<CompiledKeyword>>,
    formats: HashMap<Box<str>, CompiledKeyword>,
}

impl CompiledKeyword {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.into(), run: None, weight: 0 }
    }

    pub(super) fn admits(&self, value: &Value) -> bool {
        self.run.as_ref().is_none_or(|run| run.is_valid(value))
    }

    /// How many steps a check of this text takes.
    pub(super) fn cost(&self, text: &str) -> usize {
        ASKING + (text.len() / 16).saturating_mul(self.weight.max(1))
    }
}

impl KeywordCache {
    /// `None` when the linear engine cannot run the pattern, or nobody can.
    pub(super) fn pattern(&mut self, pattern: &str) -> Option<CompiledKeyword> {
        if let Some(known) = self.patterns.get(pattern) {
            return known.clone();
        }
        let compiled = [(PATTERN_SMALL_BYTES, 4), (PATTERN_MAX_BYTES, LARGE_WEIGHT)].into_iter().find_map(
            |(bytes_max, weight)| {
                let engine = PatternOptions::regex().size_limit(bytes_max).dfa_size_limit(4 * bytes_max);
                let built = jsonschema::options().with_pattern_options(engine).build(&json!({ "pattern": pattern }));
                built.ok().map(|run| CompiledKeyword { text: pattern.into(), run: Some(Arc::new(run)), weight })
            },
        );
        self.patterns.insert(pattern.into(), compiled.clone());
        compiled
    }

    /// A format that the library does not know admits everything, as the standard has it.
    pub(super) fn format(&mut self, draft: Draft, format: &str) -> CompiledKeyword {
        let compile = || {
            let options = jsonschema::options().with_draft(draft).should_validate_formats(true);
            // Reading a regular expression has no bound that we could set.
            let is_bounded = format != "regex";
            let run = options.build(&json!({ "format": format })).ok().filter(|_| is_bounded).map(Arc::new);
            CompiledKeyword { text: format.into(), run, weight: 0 }
        };
        self.formats.entry(format.into()).or_insert_with(compile).clone()
    }
}

impl std::fmt::Debug for CompiledKeyword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CompiledKeyword").field(&self.text).finish()
    }
}
