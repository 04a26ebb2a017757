//! Lists the queries whose tools are not among the first five.

use std::fmt::Write as _;

use mcpproxy_core::{ToolName, Untrusted};
use serde_json::{Value, json};

use super::Part;
use super::measure::{ANSWERED, Answer, Measured};

const QUERY_MAX_CHARS: usize = 200;

pub(super) fn part(all: &[Measured<'_>]) -> Part {
    let mut text = String::new();
    let mut data = Vec::new();
    for measured in all {
        for answer in &measured.answers {
            let missed = missed(&answer.query.groups, &answer.found);
            if !missed.is_empty() {
                write(&mut text, measured.set.name, answer, &missed);
                data.push(json_of(measured.set.name, answer, &missed));
            }
        }
    }
    let _infallible = writeln!(text, "{} queries miss a tool among the first {ANSWERED}", data.len());
    Part { text, key: "misses", data: Value::Array(data) }
}

/// Returns the groups without a tool among the first ones, and the rank (from 1) of their first tool after those.
fn missed<'a>(groups: &'a [Vec<ToolName>], found: &[(ToolName, f32)]) -> Vec<(&'a [ToolName], Option<usize>)> {
    let place = |group: &[ToolName]| found.iter().position(|(tool, _)| group.contains(tool)).map(|place| place + 1);
    let groups = groups.iter().map(|group| (group.as_slice(), place(group)));
    groups.filter(|(_, place)| place.is_none_or(|place| place > ANSWERED)).collect()
}

fn write(text: &mut String, set: &str, answer: &Answer<'_>, missed: &[(&[ToolName], Option<usize>)]) {
    let query = Untrusted::shortened(&answer.query.text, QUERY_MAX_CHARS);
    let id = Untrusted::shortened(&answer.query.id, QUERY_MAX_CHARS);
    let _infallible = writeln!(text, "{set} {}: {}", id.for_terminal(), query.for_terminal());
    for (group, place) in missed {
        let place = place.map_or_else(|| "-".to_owned(), |place| format!("#{place}"));
        let group: Vec<String> = group.iter().map(ToolName::to_string).collect();
        let _infallible = writeln!(text, "  missed {place:>5}  {}", group.join(" | "));
    }
    for (tool, score) in answer.found.iter().take(ANSWERED) {
        let is_right = answer.query.groups.iter().any(|group| group.contains(tool));
        let _infallible = writeln!(text, "  {}  {score:.3}  {tool}", if is_right { " right" } else { " found" });
    }
    text.push('\n');
}

fn json_of(set: &str, answer: &Answer<'_>, missed: &[(&[ToolName], Option<usize>)]) -> Value {
    let names = |group: &[ToolName]| group.iter().map(ToolName::to_string).collect::<Vec<_>>();
    let found = answer.found.iter().map(|(tool, score)| json!({ "tool": tool.to_string(), "score": score }));
    let missed = missed.iter().map(|(group, place)| json!({ "group": names(group), "place": place }));
    json!({
        "set": set,
        "id": answer.query.id,
        "query": answer.query.text,
        "missed": missed.collect::<Vec<_>>(),
        "found": found.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_missed_unless_one_of_it_is_in_the_first_five() {
        let name = |tool: &str| ToolName::parse(&format!("s:{tool}")).unwrap();
        let found: Vec<(ToolName, f32)> = "a b c d e f g".split(' ').map(|tool| (name(tool), 0.5)).collect();
        let groups = [vec![name("x"), name("e")], vec![name("f"), name("g")], vec![name("y")]];
        assert_eq!(missed(&groups, &found), [(&groups[1][..], Some(6)), (&groups[2][..], None)]);
        assert_eq!(missed(&groups[..1], &[]), [(&groups[0][..], None)]);
    }
}
