//! Rewrites `oauth` of other clients into ours.
//!
//! Claude Code and opencode write `clientId`, opencode one text for all scopes, and Gemini addresses of the provider, which
//! the gateway finds by itself. `false` turns OAuth off in opencode. The gateway signs in only if a user does.

use crate::file::{Member, Node, NodeValue};
use crate::settings::keys;
use crate::settings::warning::Warnings;

const NO_SWITCH: &str = "has no effect: the gateway signs in only where a server asks for it and a user agrees";
const NO_MEANING: &str = "has no effect: the gateway finds the provider by itself";

/// Keys of other clients with ours.
const KEYS: [(&str, &str); 3] = [("clientId", "client_id"), ("clientSecret", "client_secret"), ("scope", "scopes")];

pub(super) fn adopt(mut member: Member, server: &str, warnings: &mut Warnings) -> Option<Member> {
    let members = match &mut member.node.value {
        NodeValue::Object(members) => members,
        NodeValue::Bool(_) | NodeValue::Null => {
            warnings.add_key(member.position, "oauth", server, NO_SWITCH);
            return None;
        }
        // The reader reports it.
        NodeValue::Number(_) | NodeValue::Text(_) | NodeValue::Array(_) | NodeValue::Broken => return Some(member),
    };
    let is_theirs = members.iter().any(|one| !keys::OAUTH.known.contains(&one.name.as_str()));
    if !is_theirs {
        return Some(member);
    }
    let mut kept = Vec::new();
    for mut one in std::mem::take(members) {
        if let Some((_, ours)) = KEYS.iter().find(|(theirs, _)| *theirs == one.name) {
            one.name = (*ours).to_owned();
        }
        match one.name.as_str() {
            "scopes" => kept.push(listed(one)),
            name if keys::OAUTH.known.contains(&name) || name == "_comment" => kept.push(one),
            name if FOREIGN.contains(&name) => warnings.add_key(one.position, name, server, NO_MEANING),
            // The reader reports it.
            _ => kept.push(one),
        }
    }
    *members = kept;
    Some(member)
}

/// Keys of other clients without a meaning here.
const FOREIGN: [&str; 10] = [
    "enabled",
    "callbackPort",
    "redirectUri",
    "authorizationUrl",
    "tokenUrl",
    "issuer",
    "audiences",
    "tokenParamName",
    "registrationUrl",
    "authServerMetadataUrl",
];

/// Splits scopes that are written as one text.
fn listed(mut member: Member) -> Member {
    if let NodeValue::Text(text) = &member.node.value {
        let position = member.node.position;
        let scope = |word: &str| Node::new(position, NodeValue::Text(word.to_owned()));
        member.node.value = NodeValue::Array(text.split_whitespace().map(scope).collect());
    }
    member
}
