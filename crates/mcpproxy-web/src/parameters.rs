//! Query parameters: their definitions, and the parser that checks a query.
//!
//! A parameter that several endpoints share is one constant here. An endpoint lists its parameters in its row. REST
//! reads them in front of every handler (`rest/parameters.rs`), and the list of records on the web page reads the same
//! filters. An unknown, repeated or malformed parameter is an error with a hint, never ignored. A typo in a filter would
//! otherwise show all records as if they matched.

pub(crate) mod filters;

use mcpproxy_core::{RiskLevel, Sensitivity, Untrusted, Variant, nearest};
use mcpproxy_store::{Cursor, FeedCursor, Filter, Kind, LIMIT_MAX, Status};

use crate::problem::Problem;
use crate::{query, time};

/// The store keeps no longer names.
const TEXT_MAX_CHARS: usize = 256;
/// The search ignores the rest of a longer query.
const QUERY_MAX_CHARS: usize = 4_096;
/// An unknown parameter name is quoted up to this length.
const QUOTED_MAX_CHARS: usize = 40;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) value: ValueType,
    pub(crate) is_required: bool,
    /// The value in the example of the documentation.
    pub(crate) example: Option<&'static str>,
    /// The name and description of a header that can replace the parameter.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueType {
    Text,
    /// A search query in natural language.
    Query,
    Choice(fn() -> Vec<&'static str>),
    Number {
        max: usize,
        default: usize,
    },
    /// An RFC 3339 time, or an age such as `24h`.
    Time,
    /// The start of a page of records.
    Cursor,
    /// A position in the stream of events.
    EventId,
    Switch,
}

/// A name in braces in the path of an endpoint.
#[derive(Debug)]
pub(crate) struct PathParameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) example: &'static str,
}

pub(crate) const PATH_PARAMETERS: &[PathParameter] = &[
    PathParameter { name: "name", about: "The name of a server.", example: "demo" },
    PathParameter { name: "server", about: "The name of a server.", example: "demo" },
    PathParameter { name: "tool", about: "The name of a tool, without its server.", example: "delete_user" },
    PathParameter { name: "id", about: "The id of a record, or a unique prefix of it.", example: "01K9ZQ4B2R" },
    PathParameter { name: "approval", about: "The id of an approval request.", example: "01K9ZQ4B2R0000000000000000" },
    PathParameter { name: "agent", about: "The name of an agent.", example: "cursor" },
    PathParameter { name: "grant", about: "The id of a standing approval.", example: "01K9ZQ4B2R0000000000000000" },
];

/// Returns the names in braces.
pub(crate) fn path_parameters(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

pub(crate) const fn optional(name: &'static str, about: &'static str, value: ValueType) -> Parameter {
    Parameter { name, about, value, is_required: false, example: None, header: None }
}

pub(crate) const INTENT_TYPE: Parameter = Parameter {
    example: Some("destructive"),
    ..optional(
        "intent_type",
        "The operation type that the agent declared.",
        ValueType::Choice(|| Variant::ALL.map(Variant::operation).to_vec()),
    )
};
pub(crate) const TYPE: Parameter =
    optional("type", "The type of the record.", ValueType::Choice(|| Kind::ALL.map(Kind::as_str).to_vec()));
pub(crate) const STATUS: Parameter = optional(
    "status",
    "The status of the record. `started` means that the call is still running.",
    ValueType::Choice(|| Status::ALL.map(Status::as_str).to_vec()),
);
pub(crate) const SERVER: Parameter = optional("server", "The name of a server.", ValueType::Text);
pub(crate) const TOOL: Parameter = optional("tool", "The name of a tool, alone or as `server:tool`.", ValueType::Text);
pub(crate) const AGENT: Parameter = optional("agent", "The name of an agent.", ValueType::Text);
pub(crate) const RISK: Parameter = optional(
    "risk",
    "The risk level of the tool.",
    ValueType::Choice(|| RiskLevel::ALL.map(RiskLevel::as_str).to_vec()),
);
pub(crate) const SENSITIVITY: Parameter = optional(
    "sensitivity",
    "The sensitivity of the data that the agent declared.",
    ValueType::Choice(|| Sensitivity::ALL.map(Sensitivity::as_str).to_vec()),
);
pub(crate) const CATEGORY: Parameter = optional("category", "The category of the tool's contract.", ValueType::Text);
pub(crate) const DRY_RUN: Parameter =
    optional("dry_run", "`true` for dry runs only, `false` to leave them out.", ValueType::Switch);
pub(crate) const REPLAYED: Parameter = optional(
    "replayed",
    "`true` for answers that were given again to a repeated call, `false` to leave them out.",
    ValueType::Switch,
);
pub(crate) const CODE: Parameter =
    optional("code", "The code of an error, a refusal or another event.", ValueType::Text);
pub(crate) const SINCE: Parameter = optional(
    "since",
    "Omits older records. An RFC 3339 time such as `2026-01-31T10:00:00Z`, or an age such as `24h` or `7d`.",
    ValueType::Time,
);
pub(crate) const UNTIL: Parameter = optional("until", "Omits newer records. A time or an age.", ValueType::Time);
pub(crate) const FROM: Parameter = optional("from", "Another name for `since`.", ValueType::Time);
pub(crate) const TO: Parameter = optional("to", "Another name for `until`.", ValueType::Time);
pub(crate) const Q: Parameter = optional(
    "q",
    "Text to find in the tool, server, agent, client, code, message or metadata. Case does not matter.",
    ValueType::Text,
);
pub(crate) const LIMIT: Parameter = Parameter {
    example: Some("50"),
    ..optional("limit", "The maximum number of records.", ValueType::Number { max: LIMIT_MAX, default: 50 })
};
pub(crate) const CURSOR: Parameter = optional("cursor", "`next` of the previous page.", ValueType::Cursor);
pub(crate) const AFTER: Parameter = Parameter {
    header: Some((
        "Last-Event-ID",
        "The `id` of the last event that the client received. Browsers send this header by themselves.",
    )),
    ..optional(
        "after",
        "The `id` of the last event that the client received. The header `Last-Event-ID` takes precedence. Without \
         either, the stream starts now.",
        ValueType::EventId,
    )
};

/// The query parameters of a request, parsed and checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryValues {
    values: Vec<(&'static str, Value)>,
}

#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Number(usize),
    TimeMs(i64),
    Cursor(Cursor),
    EventId(FeedCursor),
    Switch(bool),
}

impl QueryValues {
    pub(crate) fn read(text: &str, known: &'static [Parameter], now_ms: i64) -> Result<Self, Problem> {
        let mut query = Self::default();
        for (name, value) in query::pairs(text)? {
            let parameter = known.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| unknown(&name, known))?;
            if query.find(parameter.name).is_some() {
                return Err(Problem::bad_query(
                    format!("`{}` is given more than once", parameter.name),
                    "give each parameter once",
                ));
            }
            query.values.push((parameter.name, parameter.parse(value, now_ms)?));
        }
        for parameter in known {
            if query.find(parameter.name).is_some() {
                continue;
            }
            if parameter.is_required {
                return Err(Problem::bad_query(format!("`{}` is missing", parameter.name), parameter.about));
            }
            if let ValueType::Number { default, .. } = parameter.value {
                query.values.push((parameter.name, Value::Number(default)));
            }
        }
        Ok(query)
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let Some(Value::Text(text)) = self.find(name) else { return None };
        Some(text)
    }

    /// Returns the given number, or the default of the parameter.
    pub(crate) fn number(&self, name: &str) -> usize {
        let Some(Value::Number(number)) = self.find(name) else { return 0 };
        *number
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.find(name), Some(Value::Switch(true)))
    }

    /// Returns a switch that has no default.
    fn switch(&self, name: &str) -> Option<bool> {
        let Some(Value::Switch(is_on)) = self.find(name) else { return None };
        Some(*is_on)
    }

    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.cursor_in(CURSOR.name)
    }

    /// Returns the cursor in the parameter with this name.
    pub(crate) fn cursor_in(&self, name: &str) -> Option<Cursor> {
        let Some(Value::Cursor(cursor)) = self.find(name) else { return None };
        Some(*cursor)
    }

    pub(crate) fn event_id(&self) -> Option<FeedCursor> {
        let Some(Value::EventId(place)) = self.find(AFTER.name) else { return None };
        Some(place.clone())
    }

    fn time_ms(&self, name: &'static str, other_name: &'static str) -> Result<Option<i64>, Problem> {
        let of = |name| {
            let Some(Value::TimeMs(time_ms)) = self.find(name) else { return None };
            Some(*time_ms)
        };
        match (of(name), of(other_name)) {
            (Some(_), Some(_)) => Err(Problem::bad_query(
                format!("`{name}` and `{other_name}` mean the same"),
                format!("give `{name}` alone"),
            )),
            (time_ms, other_ms) => Ok(time_ms.or(other_ms)),
        }
    }

    /// Returns the time range, including both ends.
    pub(crate) fn range_ms(&self) -> Result<(Option<i64>, Option<i64>), Problem> {
        let since_ms = self.time_ms(SINCE.name, FROM.name)?;
        let until_ms = self.time_ms(UNTIL.name, TO.name)?;
        if since_ms.zip(until_ms).is_some_and(|(since_ms, until_ms)| since_ms > until_ms) {
            return Err(Problem::bad_query("`since` is later than `until`", "swap the two"));
        }
        Ok((since_ms, until_ms))
    }

    /// Builds the filter for records that the query describes.
    pub(crate) fn filter(&self) -> Result<Filter, Problem> {
        let (since_ms, until_ms) = self.range_ms()?;
        let owned = |name: &str| self.text(name).map(str::to_owned);
        let (server, tool) = tool_of(owned(SERVER.name), owned(TOOL.name))?;
        Ok(Filter {
            intent_type: self.text(INTENT_TYPE.name).and_then(Variant::from_operation),
            kind: self.text(TYPE.name).and_then(Kind::parse),
            status: self.text(STATUS.name).and_then(Status::parse),
            server,
            tool,
            agent: owned(AGENT.name),
            risk: self.text(RISK.name).and_then(RiskLevel::parse),
            sensitivity: self.text(SENSITIVITY.name).and_then(Sensitivity::from_word),
            category: owned(CATEGORY.name),
            code: owned(CODE.name),
            dry_run: self.switch(DRY_RUN.name),
            replayed: self.switch(REPLAYED.name),
            since_ms,
            until_ms,
            text: owned(Q.name),
        })
    }
}

impl Parameter {
    fn parse(&self, text: String, now_ms: i64) -> Result<Value, Problem> {
        let name = self.name;
        if text.is_empty() {
            let hint = match self.is_required {
                true => "give it a value".to_owned(),
                false => format!("leave `{name}` out, or give it a value"),
            };
            return Err(Problem::bad_query(format!("`{name}` is empty"), hint));
        }
        match self.value {
            ValueType::Text if text.chars().count() > TEXT_MAX_CHARS => Err(Problem::bad_query(
                format!("{name} must have at most {TEXT_MAX_CHARS} characters"),
                "`q` finds parts of a text, and no name is longer",
            )),
            ValueType::Query if text.chars().count() > QUERY_MAX_CHARS => Err(Problem::bad_query(
                format!("{name} must have at most {QUERY_MAX_CHARS} characters"),
                "a few sentences are enough",
            )),
            ValueType::Text | ValueType::Query => Ok(Value::Text(text)),
            ValueType::Choice(choices) => {
                let choices = choices();
                if choices.contains(&text.as_str()) {
                    return Ok(Value::Text(text));
                }
                let hint = match nearest(&text, choices.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("leave `{name}` out for all"),
                };
                Err(Problem::bad_query(format!("{name} must be {}", one_of(&choices)), hint))
            }
            ValueType::Number { max, default } => match text.parse() {
                // Only plain digits: `parse` also accepts `+5` and `05`.
                Ok(number) if (1..=max).contains(&number) && number.to_string() == text => Ok(Value::Number(number)),
                _ => Err(Problem::bad_query(
                    format!("{name} must be a number from 1 to {max}"),
                    format!("the default is {default}"),
                )),
            },
            ValueType::Time => time::parse(&text, now_ms).map(Value::TimeMs).ok_or_else(|| {
                Problem::bad_query(
                    format!("{name}: not an RFC 3339 time"),
                    "write a time such as 2026-01-31T10:00:00Z, or an age such as 24h or 7d",
                )
            }),
            ValueType::Cursor => Cursor::parse(&text).map(Value::Cursor).map_err(|_| {
                Problem::bad_query(
                    format!("{name}: not a cursor of an earlier page"),
                    "copy `next` of an answer unchanged, or leave it out for the newest records",
                )
            }),
            ValueType::EventId => event_id(name, &text).map(Value::EventId),
            ValueType::Switch => match text.as_str() {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(Problem::bad_query(format!("{name} must be true or false"), "leave it out for the default")),
            },
        }
    }
}

/// Splits `server:tool`, as tools are shown everywhere, into the two filters.
fn tool_of(server: Option<String>, tool: Option<String>) -> Result<(Option<String>, Option<String>), Problem> {
    match (server, tool.as_deref().and_then(|tool| tool.split_once(':'))) {
        (server, None) => Ok((server, tool)),
        (Some(server), Some((of_server, _))) if server != of_server => Err(Problem::bad_query(
            "`server` and `tool` name two different servers",
            "give the tool without its server, or leave `server` out",
        )),
        (_, Some((of_server, name))) => Ok((Some(of_server.to_owned()), Some(name.to_owned()))),
    }
}

/// Parses a position in the stream of events.
pub(crate) fn event_id(name: &str, text: &str) -> Result<FeedCursor, Problem> {
    FeedCursor::parse(text).map_err(|_| {
        Problem::bad_query(
            format!("{name}: not the id of an event"),
            "copy the `id` of an event unchanged, or leave it out to start now",
        )
    })
}

fn unknown(name: &str, known: &[Parameter]) -> Problem {
    let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "this path takes no parameters".to_owned(),
        None => format!("this path takes {}", names.join(", ")),
    };
    let name = Untrusted::shortened(name, QUOTED_MAX_CHARS);
    Problem::bad_query(format!("unknown parameter `{}`", name.for_terminal()), hint)
}

/// Formats `a, b or c`.
fn one_of(choices: &[&str]) -> String {
    match choices {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => choices.concat(),
    }
}
