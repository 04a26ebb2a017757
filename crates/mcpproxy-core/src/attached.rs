//! The members of a `tools/call` request beside name and arguments, such as `inputResponses`, `requestState` and
//! `_meta`.

use crate::Digest;
use crate::json::{canonical, members, quote};

/// The only attached member that an approval is not bound to.
const META: &str = "_meta";
/// The server's own state between two requests. A dry run is a separate exchange, so its state differs.
const STATE: &str = "requestState";

/// The attached members, in the agent's own bytes: answers to the server (`inputResponses`), the server's state
/// (`requestState`), the agent's `_meta`, and members unknown to the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached(Option<String>);

impl Attached {
    /// Takes the text of a JSON object that has passed the strict reader. An empty object counts as `None`.
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

    /// Returns a hash that is equal for texts with the same meaning. It excludes `_meta`, because clients put a new
    /// number there in every request. The gateway sends the `_meta` that was stored with the approval request.
    pub fn digest(&self) -> Digest {
        self.digest_without(&[META])
    }

    /// Returns the hash that a dry run shares with its real call.
    pub(crate) fn dry_run_digest(&self) -> Digest {
        self.digest_without(&[META, STATE])
    }

    fn digest_without(&self, left_out: &[&str]) -> Digest {
        let bound = self.without(left_out);
        Digest::of(bound.as_str().map(canonical).unwrap_or_default().as_bytes())
    }

    /// Returns true if any member beside `_meta` is attached. An approval is bound to those members.
    pub fn is_bound(&self) -> bool {
        self.without(&[META]).0.is_some()
    }

    /// Returns the members that may be sent when no user has reviewed them.
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
        // A dry run and its real call are separate exchanges, so `requestState` differs.
        let state = digests(r#"{"inputResponses":{"a":1,"b":2},"requestState":"x"}"#);
        assert!(state.0 != asked.0 && state.1 == asked.1);
    }
}
