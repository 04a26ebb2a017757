//! Values of our own keys that other clients write in another shape.

use super::super::{find, has, remove};
use super::table::KINDS;
use crate::file::{Member, Node, NodeValue};
use crate::settings::keys;

/// Keys that older versions of Zed write below `command`.
const COMMAND_PARTS: [&str; 2] = ["args", "env"];

/// Rewrites values of our own keys that other clients write in another shape.
pub(super) fn shape(members: &mut Vec<Member>) {
    split_command(members);
    if let Some(NodeValue::Text(kind)) = find(members, "type").map(|kind| &mut kind.node.value)
        && let Some((_, ours)) = KINDS.iter().find(|(theirs, _)| theirs == kind)
    {
        *kind = (*ours).to_owned();
    }
    for pairs in ["env", "headers"] {
        if let Some(NodeValue::Object(pairs)) = find(members, pairs).map(|pairs| &mut pairs.node.value) {
            pairs.retain(|pair| !matches!(pair.node.value, NodeValue::Null));
            pairs.iter_mut().for_each(|pair| to_text(&mut pair.node));
        }
    }
    if let Some(NodeValue::Array(names)) = find(members, "env_passthrough").map(|names| &mut names.node.value) {
        names.iter_mut().for_each(name_of_variable);
    }
    // Programs write empty lists for what a server does not have.
    let has_value = |key: &str| members.iter().any(|member| member.name == key && !is_empty(&member.node));
    let is_process = has_value("command") || (has(members, "command") && !has_value("url"));
    let unused = if is_process { keys::HTTP_ONLY } else { keys::STDIO_ONLY };
    members.retain(|member| !(unused.contains(&member.name.as_str()) && is_empty(&member.node)));
}

/// Splits a command line: opencode writes a list, older versions of Zed an object.
fn split_command(members: &mut Vec<Member>) {
    let Some(command) = find(members, "command") else { return };
    let position = command.position;
    match &mut command.node.value {
        NodeValue::Array(words) if !words.is_empty() => {
            let mut words = std::mem::take(words).into_iter();
            if let Some(program) = words.next() {
                command.node = program;
            }
            let mut args: Vec<Node> = words.collect();
            if let Some(NodeValue::Array(more)) = remove(members, "args").map(|args| args.node.value) {
                args.extend(more);
            }
            let node = Node::new(position, NodeValue::Array(args));
            members.push(Member { name: "args".to_owned(), position, node });
        }
        NodeValue::Object(parts) => {
            let mut parts = std::mem::take(parts);
            let Some(path) = remove(&mut parts, "path") else { return };
            command.node = path.node;
            parts.retain(|part| !(COMMAND_PARTS.contains(&part.name.as_str()) && has(members, &part.name)));
            members.append(&mut parts);
        }
        NodeValue::Array(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Number(_)
        | NodeValue::Text(_)
        | NodeValue::Broken => {}
    }
}

/// Converts a number or boolean to text, because VS Code allows both as the value of a variable.
fn to_text(node: &mut Node) {
    match &node.value {
        NodeValue::Number(number) => node.value = NodeValue::Text(number.to_string()),
        NodeValue::Bool(value) => node.value = NodeValue::Text(value.to_string()),
        NodeValue::Null | NodeValue::Text(_) | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {}
    }
}

/// Codex names a variable as a text, or as an object with a `name`.
fn name_of_variable(node: &mut Node) {
    if let NodeValue::Object(parts) = &mut node.value
        && let Some(name) = remove(parts, "name")
    {
        *node = name.node;
    }
}

pub(super) fn is_empty(node: &Node) -> bool {
    match &node.value {
        NodeValue::Array(nodes) => nodes.is_empty(),
        NodeValue::Object(members) => members.is_empty(),
        NodeValue::Text(text) => text.is_empty(),
        NodeValue::Null => true,
        NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Broken => false,
    }
}
