//! The keys that an object may have, and advice about other keys.

use super::list;
use crate::nearest;

/// A longer key is no typing mistake, and comparing it would take long.
const COMPARED_MAX_BYTES: usize = 64;

/// The keys of one object.
pub(crate) struct Keys {
    pub(crate) known: &'static [&'static str],
    /// Wrong keys that operators write instead of a known one, or that other programs use, each with advice.
    pub(crate) advice: &'static [(&'static str, &'static str)],
}

impl Keys {
    /// Returns what to write instead of an unknown key.
    pub(super) fn advice(&self, name: &str) -> String {
        if let Some((_, advice)) = self.advice.iter().find(|(foreign, _)| *foreign == name) {
            return (*advice).to_owned();
        }
        let name = if name.len() <= COMPARED_MAX_BYTES { name } else { "" };
        let is_same = |known: &str| plainly(name).next().is_some() && plainly(known).eq(plainly(name));
        if let Some((_, advice)) = self.advice.iter().find(|(foreign, _)| is_same(foreign)) {
            return (*advice).to_owned();
        }
        let respelled = self.known.iter().copied().find(|known| is_same(known));
        match respelled.or_else(|| nearest(name, self.known.iter().copied())) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("known keys: {}", list(self.known.iter().copied())),
        }
    }
}

/// Drops what differs between `riskLevel`, `risk_level`, `risk-level` and `RISKLEVEL`.
fn plainly(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.to_ascii_lowercase())
}

/// The words of a table of choices.
pub(crate) fn words<T>(choices: &[(&'static str, T)]) -> impl Iterator<Item = &'static str> {
    choices.iter().map(|(word, _)| *word)
}
