//! Runs patterns and formats through the `jsonschema` crate, each as a tiny schema of its own.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Value, json};

/// Size limit of a cheap pattern, which may be matched against long texts.
const PATTERN_SMALL_BYTES: usize = 16 << 10;
/// Size limit of any compiled pattern. The patterns of real tools are much smaller.
const PATTERN_MAX_BYTES: usize = 64 << 10;
/// Steps per byte of text with a large pattern: the engine may follow this many states at once.
const LARGE_WEIGHT: usize = 64;
/// Steps that a call into the library costs.
const ASKING: usize = 4;

/// A pattern or format. It accepts every value until it is compiled.
#[derive(Clone, Default)]
pub(super) struct CompiledKeyword {
    pub(super) text: Box<str>,
    run: Option<Arc<Validator>>,
    weight: usize,
}

/// The compiled patterns and formats of a schema. Many schemas repeat one pattern a hundred times.
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

    /// Returns the steps that a check of this text costs.
    pub(super) fn cost(&self, text: &str) -> usize {
        ASKING + (text.len() / 16).saturating_mul(self.weight.max(1))
    }
}

impl KeywordCache {
    /// Compiles a pattern. Returns `None` if it is invalid or the linear-time engine cannot run it.
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

    /// Compiles a format. An unknown format admits every value, as the standard says.
    pub(super) fn format(&mut self, draft: Draft, format: &str) -> CompiledKeyword {
        let compile = || {
            let options = jsonschema::options().with_draft(draft).should_validate_formats(true);
            // The size of a regular expression in a value cannot be limited.
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
