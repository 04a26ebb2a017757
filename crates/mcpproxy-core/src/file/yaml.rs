//! Builds trees from YAML, one per document. Refuses YAML features that make a text ambiguous or expensive.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, options};

use super::node::{Count, Member, Node, NodeValue, SourcePosition, duplicate, may_open};
use super::{DEPTH_MAX, FileKind, Mistakes, plain, shown, yaml_error};

pub(super) const ANCHOR: &str = "anchors (`&`) and aliases (`*`) are not supported; repeat \
    the value, or quote text that begins with `&` or `*`";
const TAG: &str = "tags (`!`) are not supported; remove the tag, and quote text";
const MERGE: &str = "merge keys (`<<`) are not supported; repeat the fields";

/// Returns the documents of a file. Parts that cannot be read are reported as mistakes.
pub(super) fn documents(text: &str, kind: FileKind, mistakes: &mut Mistakes) -> Vec<Node> {
    let options = options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut builder = Builder { documents: Vec::new(), open: Vec::new(), count: Count::new(kind), mistakes };
    for next in Parser::new_from_str_with_options(text, options) {
        let going_on = match next {
            Ok((event, span)) => {
                if let Some(tag) = span.tag_start() {
                    builder.mistakes.add(position(&tag), TAG);
                }
                builder.take(event, position(&span.start))
            }
            Err(error) => {
                let message = yaml_error::message(error.kind());
                builder.mistakes.add(position_of_error(text, &error), message);
                None
            }
        };
        if going_on.is_none() {
            break;
        }
    }
    builder.documents
}

/// Returns the position of an error. For a tab, the parser names the start of the text around it, which can be lines
/// before.
fn position_of_error(text: &str, error: &ScanError) -> SourcePosition {
    let start = position(error.marker());
    let rest = error.marker().byte_offset().and_then(|at| text.get(at..)).unwrap_or_default();
    match rest.split_once('\t').filter(|_| yaml_error::is_about_tabs(error.kind())) {
        None => start,
        Some((before, _)) => match before.rsplit_once('\n') {
            None => SourcePosition { column: start.column + before.chars().count(), ..start },
            Some((lines, last)) => {
                let line = start.line + 1 + lines.matches('\n').count();
                SourcePosition { line, column: last.chars().count() + 1 }
            }
        },
    }
}

fn position(marker: &Marker) -> SourcePosition {
    SourcePosition { line: marker.line().max(1), column: marker.col() + 1 }
}

struct Builder<'m> {
    documents: Vec<Node>,
    open: Vec<Open>,
    count: Count,
    mistakes: &'m mut Mistakes,
}

/// A list or object that is still open.
struct Open {
    position: SourcePosition,
    content: Content,
}

enum Content {
    Array(Vec<Node>),
    Object { members: Vec<Member>, seen: HashMap<String, SourcePosition>, key: Option<Key> },
}

/// The key of the next value.
enum Key {
    Named(String, SourcePosition),
    /// The key was reported as a mistake, so its value is dropped.
    Broken,
}

impl Builder<'_> {
    /// Handles one event. Returns `None` when the file is given up.
    fn take(&mut self, event: Event<'_>, position: SourcePosition) -> Option<()> {
        match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.mistakes.add(position, ANCHOR);
                self.push(Node::new(position, NodeValue::Broken))
            }
            Event::Anchor(..) => {
                self.mistakes.add(position, ANCHOR);
                Some(())
            }
            Event::Scalar(text, style, ..) => {
                let value = if self.awaits_key() {
                    self.key(&text, style, position)
                } else if style == ScalarStyle::Plain {
                    self.typed(&text, position)
                } else {
                    NodeValue::Text(text.into_owned())
                };
                self.push(Node::new(position, value))
            }
            Event::SequenceStart(..) => self.start(position, Content::Array(Vec::new())),
            Event::MappingStart(..) => {
                self.start(position, Content::Object { members: Vec::new(), seen: HashMap::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { position, content } = self.open.pop()?;
                let value = match content {
                    Content::Array(nodes) => NodeValue::Array(nodes),
                    Content::Object { members, .. } => NodeValue::Object(members),
                };
                self.put(Node::new(position, value));
                Some(())
            }
            _ => Some(()),
        }
    }

    fn start(&mut self, position: SourcePosition, content: Content) -> Option<()> {
        let goes_on = self.count.add(position, self.mistakes) && may_open(self.open.len(), position, self.mistakes);
        goes_on.then(|| self.open.push(Open { position, content }))
    }

    fn push(&mut self, node: Node) -> Option<()> {
        let goes_on = self.count.add(node.position, self.mistakes);
        goes_on.then(|| self.put(node))
    }

    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| matches!(open.content, Content::Object { key: None, .. }))
    }

    /// Returns the text of a key, or a broken value.
    fn key(&mut self, text: &str, style: ScalarStyle, position: SourcePosition) -> NodeValue {
        if style != ScalarStyle::Plain {
            return NodeValue::Text(text.to_owned());
        }
        if text == "<<" {
            self.mistakes.add(position, MERGE);
            return NodeValue::Broken;
        }
        if let Ok(NodeValue::Text(text)) = plain::typed(text) {
            return NodeValue::Text(text);
        }
        let message = format!("`{}` is not text, and keys must be text; quote it", shown(text));
        self.mistakes.add(position, message);
        NodeValue::Broken
    }

    fn typed(&mut self, text: &str, position: SourcePosition) -> NodeValue {
        plain::typed(text).unwrap_or_else(|message| {
            self.mistakes.add(position, message);
            NodeValue::Broken
        })
    }

    /// Adds a finished value to its parent.
    fn put(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            // Ignore an empty document between two `---`.
            if !matches!(node.value, NodeValue::Null) {
                self.documents.push(node);
            }
            return;
        };
        match &mut open.content {
            Content::Array(nodes) => nodes.push(node),
            Content::Object { members, seen, key } => match key.take() {
                Some(Key::Broken) => {}
                Some(Key::Named(name, position)) => {
                    if let Some(first) = seen.get(&name).copied() {
                        self.mistakes.add_with(position, || duplicate(&name, first));
                    } else {
                        seen.insert(name.clone(), position);
                        members.push(Member { name, position, node });
                    }
                }
                None => {
                    *key = Some(match node.value {
                        NodeValue::Text(text) => Key::Named(text, node.position),
                        NodeValue::Broken => Key::Broken,
                        NodeValue::Null
                        | NodeValue::Bool(_)
                        | NodeValue::Number(_)
                        | NodeValue::Array(_)
                        | NodeValue::Object(_) => {
                            self.mistakes.add(node.position, "a list or an object cannot be a key; use text");
                            Key::Broken
                        }
                    });
                }
            },
        }
    }
}
