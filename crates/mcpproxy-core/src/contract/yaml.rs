//! YAML to trees, one for each document, without the parts of YAML that make one text mean two things or too much.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, options};

use super::node::{Count, DEPTH_MAX, Member, Mistakes, Node, Place, Value, duplicate, may_open};
use super::{plain, yaml_error};
use crate::settings::suggest::shown;

pub(super) const ANCHOR: &str = "anchors (`&`) and aliases (`*`) are not read here; write the value out where it is \
                                 needed, or put text that begins with `&` or `*` in quotes";
const TAG: &str = "tags (`!`) are not read here; remove the tag, and put texts in quotes";
const MERGE: &str = "merge keys (`<<`) are not read here; write the fields out";

/// The documents of a file as far as they can be read; what cannot has been complained about.
pub(super) fn documents(text: &str, mistakes: &mut Mistakes) -> Vec<Node> {
    let options = options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut builder = Builder { documents: Vec::new(), open: Vec::new(), count: Count::default(), mistakes };
    for next in Parser::new_from_str_with_options(text, options) {
        let going_on = match next {
            Ok((event, span)) => {
                if let Some(tag) = span.tag_start() {
                    builder.mistakes.add(place(&tag), TAG);
                }
                builder.take(event, place(&span.start))
            }
            Err(error) => {
                let message = yaml_error::message(error.kind());
                builder.mistakes.add(place_of_error(text, &error), message);
                None
            }
        };
        if going_on.is_none() {
            break;
        }
    }
    builder.documents
}

/// The parser tells of a tab where the text began that the tab is in, which can be lines before.
fn place_of_error(text: &str, error: &ScanError) -> Place {
    let start = place(error.marker());
    let rest = error.marker().byte_offset().and_then(|at| text.get(at..)).unwrap_or_default();
    match rest.split_once('\t').filter(|_| yaml_error::is_about_tabs(error.kind())) {
        None => start,
        Some((before, _)) => match before.rsplit_once('\n') {
            None => Place { column: start.column + before.chars().count(), ..start },
            Some((lines, last)) => {
                let line = start.line + 1 + lines.matches('\n').count();
                Place { line, column: last.chars().count() + 1 }
            }
        },
    }
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

struct Builder<'m> {
    documents: Vec<Node>,
    open: Vec<Open>,
    count: Count,
    mistakes: &'m mut Mistakes,
}

/// A list or object whose end has not come.
struct Open {
    place: Place,
    content: Content,
}

enum Content {
    Array(Vec<Node>),
    Object { members: Vec<Member>, seen: HashMap<String, Place>, key: Option<Key> },
}

/// The key whose value comes next.
enum Key {
    Named(String, Place),
    /// Complained about, so its value is dropped.
    Broken,
}

impl Builder<'_> {
    /// `None` when the file is given up.
    fn take(&mut self, event: Event<'_>, place: Place) -> Option<()> {
        match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.mistakes.add(place, ANCHOR);
                self.push(Node { place, value: Value::Broken })
            }
            Event::Anchor(..) => {
                self.mistakes.add(place, ANCHOR);
                Some(())
            }
            Event::Scalar(text, style, ..) => {
                let value = if self.awaits_key() {
                    self.key(&text, style, place)
                } else if style == ScalarStyle::Plain {
                    self.typed(&text, place)
                } else {
                    Value::Text(text.into_owned())
                };
                self.push(Node { place, value })
            }
            Event::SequenceStart(..) => self.start(place, Content::Array(Vec::new())),
            Event::MappingStart(..) => {
                self.start(place, Content::Object { members: Vec::new(), seen: HashMap::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { place, content } = self.open.pop()?;
                let value = match content {
                    Content::Array(nodes) => Value::Array(nodes),
                    Content::Object { members, .. } => Value::Object(members),
                };
                self.put(Node { place, value });
                Some(())
            }
            _ => Some(()),
        }
    }

    fn start(&mut self, place: Place, content: Content) -> Option<()> {
        let goes_on = self.count.add(place, self.mistakes) && may_open(self.open.len(), place, self.mistakes);
        goes_on.then(|| self.open.push(Open { place, content }))
    }

    fn push(&mut self, node: Node) -> Option<()> {
        let goes_on = self.count.add(node.place, self.mistakes);
        goes_on.then(|| self.put(node))
    }

    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| matches!(open.content, Content::Object { key: None, .. }))
    }

    /// The text of a key, or a value that is none.
    fn key(&mut self, text: &str, style: ScalarStyle, place: Place) -> Value {
        if style != ScalarStyle::Plain {
            return Value::Text(text.to_owned());
        }
        if text == "<<" {
            self.mistakes.add(place, MERGE);
            return Value::Broken;
        }
        match plain::typed(text) {
            Ok(Value::Text(text)) => Value::Text(text),
            _ => {
                let message = format!("`{}` is not a text, and keys are texts; put it in quotes", shown(text));
                self.mistakes.add(place, message);
                Value::Broken
            }
        }
    }

    fn typed(&mut self, text: &str, place: Place) -> Value {
        plain::typed(text).unwrap_or_else(|message| {
            self.mistakes.add(place, message);
            Value::Broken
        })
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            // Nothing between two `---`.
            if !matches!(node.value, Value::Null) {
                self.documents.push(node);
            }
            return;
        };
        match &mut open.content {
            Content::Array(nodes) => nodes.push(node),
            Content::Object { members, seen, key } => match key.take() {
                Some(Key::Broken) => {}
                Some(Key::Named(name, place)) => {
                    if let Some(first) = seen.get(&name).copied() {
                        self.mistakes.add_with(place, || duplicate(&name, first));
                    } else {
                        seen.insert(name.clone(), place);
                        members.push(Member { name, place, node });
                    }
                }
                None => {
                    *key = Some(match node.value {
                        Value::Text(text) => Key::Named(text, node.place),
                        Value::Broken => Key::Broken,
                        _ => {
                            self.mistakes.add(node.place, "a list or an object cannot be a key; write a text");
                            Key::Broken
                        }
                    });
                }
            },
        }
    }
}
