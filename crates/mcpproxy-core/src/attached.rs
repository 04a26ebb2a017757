//! What goes to a server besides the arguments of a call.

use crate::Digest;
use crate::json::{canonical, members, quote};

/// Beside it, everything that is attached is bound to an approval.
const META: &str = "_meta";
/// A server's own note to itself. A dry run has a conversation of its own, and so another one.
const STATE: &str = "requestState";

/// Members of a request beside its subject, in the agent's bytes: answers to what the server asked (`inputResponses`), the
/// server's state (`requestState`), members that nobody here knows, and the agent's `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached(Option<String>);

impl Attached {
    /// Nothing, or the text of a JSON object that has passed the strict reader.
    pub fn exact(object: Option<&str>) -> Self {
        let has_some = |text: &&str| members(text).is_some_and(|all| !all.is_empty());
        Self(object.filter(has_some).map(str::to_owned))
    }

    pub fn of<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let all: Vec<String> = all.into_iter().map(|(key, value)| format!("{}:{value}", quote(key))).collect();
        Self((!all.is_empty()).then(|| format!("{{{}}}", all.join(","))))
    }

    pub fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The same for all texts that mean the same. The agent's `_meta` is not in it: clients put a new number there for every
    /// request, and what is sent is what was kept with the question.
    pub fn digest(&self) -> Digest {
        self.digest_without(&[META])
    }

    /// The same for a dry run and the call it is made for.
    pub(crate) fn dry_run_digest(&self) -> Digest {
        self.digest_without(&[META, STATE])
    }

    fn digest_without(&self, left_out: &[&str]) -> Digest {
        let bound = self.without(left_out);
        Digest::of(bound.as_str().map(canonical).unwrap_or_default().as_bytes())
    }

    /// Whether it says anything to the server that an approval is bound to.
    pub fn is_bound(&self) -> bool {
        self.without(&[META]).0.is_some()
    }

    /// What may go along with a call that no user looked at.
    pub(crate) fn without_meta(&self) -> Self {
        self.without(&[META])
    }

    fn without(&self, left_out: &[&str]) -> Self {
        let Some(all) = self.0.as_deref().and_then(members) else { return Self::default() };
        let kept = all.iter().filter(|(key, _)| !left_out.contains(&key.as_ref()));
        Self::of(kept.map(|(key, value)| (key.as_ref(), *value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound() {
        let digests = |text: &str| {
            let attached = Attached::exact(Some(text));
            (attached.digest(), attached.dry_run_digest(), attached.is_bound())
        };
        let nothing = digests("{}");
        assert_eq!(nothing, (Digest::of(b""), Digest::of(b""), false));
        assert_eq!(Attached::exact(None), Attached::exact(Some("{}")));
        assert_eq!(digests(r#"{"_meta":{"id":7}}"#), nothing);
        let asked = digests(r#"{"inputResponses":{"a":1,"b":2},"_meta":{"id":7}}"#);
        assert!(asked.2 && asked.0 != nothing.0 && asked.1 != nothing.1);
        assert_eq!(digests(r#"{ "inputResponses" : {"b":2,"\u0061":1} }"#), asked);
        for other in [r#"{"inputResponses":{"a":1,"b":3}}"#, r#"{"inputResponse":{"a":1,"b":2}}"#] {
            assert!(digests(other).0 != asked.0 && digests(other).1 != asked.1, "{other}");
        }
        // A dry run and the call it is made for are two conversations.
        let state = digests(r#"{"inputResponses":{"a":1,"b":2},"requestState":"x"}"#);
        assert!(state.0 != asked.0 && state.1 == asked.1);
    }
}
