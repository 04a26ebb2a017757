//! Rewrites the keys of one server from the dialects of other clients into ours.

mod oauth;
mod shape;
mod table;
mod timeout;

use std::collections::HashMap;

use self::shape::{is_empty, shape};
use self::table::{FOREIGN, Meaning, NO_APPROVALS};
use self::timeout::duration;
use super::super::reference::is_variable;
use super::super::warning::Warnings;
use super::{find, has, text_member};
use crate::file::{Member, Node, NodeValue};

const NO_OBJECT: &str =
    "has no effect: write an object of header names and variables, such as `{\"X-Key\": \"MY_KEY\"}`";
const NO_VARIABLE: &str = "has no effect: it must name an environment variable, such as `MY_TOKEN`";

/// Rewrites the keys of one server into ours.
pub(super) fn adopt(members: &mut Vec<Member>, server: &str, warnings: &mut Warnings) {
    let mut headers = Vec::new();
    for mut member in std::mem::take(members) {
        match FOREIGN.iter().find(|(key, _)| *key == member.name) {
            None if member.name == "oauth" => members.extend(oauth::adopt(member, server, warnings)),
            None => members.extend(listed_tools(member, server, warnings)),
            Some((key, Meaning::None(why))) => warnings.add_key(member.position, key, server, why),
            Some((key, Meaning::Key(ours))) => {
                member.name = (*ours).to_owned();
                put(members, key, member, server, warnings);
            }
            Some((key, Meaning::HttpUrl)) => {
                let position = member.position;
                member.name = "url".to_owned();
                put(members, key, member, server, warnings);
                if !has(members, "type") {
                    members.push(text_member("type", position, "http".to_owned()));
                }
            }
            Some((key, Meaning::Timeout(ours, unit))) => match duration(&member.node, *unit) {
                Some(text) => put(members, key, text_member(ours, member.position, text), server, warnings),
                None => warnings.add_key(member.position, key, server, "has no effect: it is no time up to 24 hours"),
            },
            Some((key, Meaning::BearerVariable)) => {
                let header = Member { name: "Authorization".to_owned(), ..member };
                headers.extend(referring("Bearer ", header, (key, server), warnings));
            }
            Some((key, Meaning::HeaderVariables)) => match member.node.value {
                NodeValue::Object(variables) => headers
                    .extend(variables.into_iter().filter_map(|header| referring("", header, (key, server), warnings))),
                NodeValue::Null
                | NodeValue::Bool(_)
                | NodeValue::Number(_)
                | NodeValue::Text(_)
                | NodeValue::Array(_)
                | NodeValue::Broken => warnings.add_key(member.position, key, server, NO_OBJECT),
            },
        }
    }
    remove_repeated(members, server, warnings);
    // Plain headers come first, wherever they stand.
    headers.into_iter().for_each(|header| add_header(members, header));
    shape(members);
}

/// Returns our name of a key that another client may have written.
pub(super) fn our_key(key: &str) -> &str {
    match FOREIGN.iter().find(|(theirs, _)| *theirs == key) {
        Some((_, Meaning::Key(ours) | Meaning::Timeout(ours, _))) => ours,
        Some((_, Meaning::HttpUrl)) => "url",
        Some((_, Meaning::BearerVariable | Meaning::HeaderVariables | Meaning::None(_))) | None => key,
    }
}

/// Codex keeps its rules for single tools in `tools`, as an object. As a list, `tools` names the tools to offer.
fn listed_tools(member: Member, server: &str, warnings: &mut Warnings) -> Option<Member> {
    if member.name != "tools" {
        return Some(member);
    }
    let NodeValue::Array(tools) = &member.node.value else {
        warnings.add_key(member.position, "tools", server, NO_APPROVALS);
        return None;
    };
    let are_all = tools.iter().any(|tool| matches!(&tool.value, NodeValue::Text(name) if name == "*"));
    (!are_all).then(|| Member { name: "include_tools".to_owned(), ..member })
}

/// Adds a member under our name. If the server has it already, the stricter value counts, or else the first.
fn put(members: &mut Vec<Member>, key: &'static str, member: Member, server: &str, warnings: &mut Warnings) {
    match find(members, &member.name) {
        None => members.push(member),
        Some(first) => {
            if !combine(first, &member) {
                warnings.add_key(member.position, key, server, "has no effect, because another key says the same");
            }
        }
    }
}

/// Drops a key that is given under two names, and an empty value next to a full one, unless the empty one is stricter.
fn remove_repeated(members: &mut Vec<Member>, server: &str, warnings: &mut Warnings) {
    let mut kept: Vec<Member> = Vec::with_capacity(members.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
    for member in members.drain(..) {
        let first = places.get(&member.name).and_then(|at| kept.get_mut(*at));
        match first {
            None => {
                places.insert(member.name.clone(), kept.len());
                kept.push(member);
            }
            Some(first) => {
                // An empty `include_tools` offers no tool. So it is stricter than a full one, and must stay.
                if combine(first, &member) {
                    continue;
                }
                if is_empty(&first.node) {
                    *first = member;
                } else if !is_empty(&member.node) {
                    let why = "is given twice under different names; the first counts";
                    warnings.add_key(member.position, &member.name, server, why);
                }
            }
        }
    }
    *members = kept;
}

/// Combines two values of a key that limits a server, so that the stricter one counts. Returns false for other keys.
fn combine(first: &mut Member, second: &Member) -> bool {
    match (first.name.as_str(), &mut first.node.value, &second.node.value) {
        ("enabled", NodeValue::Bool(is_enabled), NodeValue::Bool(other)) => *is_enabled &= other,
        ("exclude_tools", NodeValue::Array(tools), NodeValue::Array(more)) => tools.extend(more.iter().cloned()),
        ("include_tools", NodeValue::Array(tools), NodeValue::Array(others)) => {
            let others: Vec<&str> = others.iter().filter_map(Node::text).collect();
            tools.retain(|tool| tool.text().is_some_and(|tool| others.contains(&tool)));
        }
        (_, _, _) => return false,
    }
    true
}

/// Replaces the name of an environment variable by a reference to it. Any other text could hold a reference of its own,
/// such as `X} ${file:PATH`, so it has no effect.
fn referring(scheme: &str, mut header: Member, (key, server): (&str, &str), warnings: &mut Warnings) -> Option<Member> {
    let Some(variable) = header.node.text().filter(|variable| is_variable(variable)) else {
        warnings.add_key(header.position, key, server, NO_VARIABLE);
        return None;
    };
    header.node.value = NodeValue::Text(format!("{scheme}${{env:{variable}}}"));
    Some(header)
}

/// Adds a header, unless the server has it already.
fn add_header(members: &mut Vec<Member>, header: Member) {
    if let Some(NodeValue::Object(headers)) = find(members, "headers").map(|headers| &mut headers.node.value) {
        if !headers.iter().any(|other| other.name.eq_ignore_ascii_case(&header.name)) {
            headers.push(header);
        }
        return;
    }
    let position = header.position;
    let node = Node::new(position, NodeValue::Object(vec![header]));
    members.push(Member { name: "headers".to_owned(), position, node });
}
