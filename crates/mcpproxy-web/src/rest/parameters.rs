//! What may stand behind `?`: one table that the reader and the document share. What is not in it is an error.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use mcpproxy_core::{ApprovalState, RiskLevel, Untrusted, Variant, nearest};
use mcpproxy_store::{Cursor, FeedCursor, Filter, Kind, LIMIT_MAX, Status};

use crate::problem::Problem;
use crate::rest::endpoint::Endpoint;
use crate::{Web, query, time};

/// No name that is kept is longer, so none that is asked for needs to be.
const TEXT_MAX_CHARS: usize = 256;
/// What an agent asks for may be whole sentences; the search reads no more.
const QUERY_MAX_CHARS: usize = 4_096;
/// Somebody's misspelt name is quoted this far.
const QUOTED_MAX_CHARS: usize = 40;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) form: Form,
    pub(crate) need: Need,
    /// For the example that shows how the route is asked.
    pub(crate) example: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Text,
    /// What somebody looks for, in their own words.
    Query,
    Choice(fn() -> Vec<&'static str>),
    Number {
        max: usize,
        default: usize,
    },
    /// A time, or how long ago it was.
    Time,
    /// Where a page begins.
    Cursor,
    /// A place in the stream of events.
    Place,
    Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

const fn optional(name: &'static str, about: &'static str, form: Form) -> Parameter {
    Parameter { name, about, form, need: Need::Optional, example: None }
}

const INTENT_TYPE: Parameter = Parameter {
    example: Some("destructive"),
    ..optional(
        "intent_type",
        "What the agent declared to do.",
        Form::Choice(|| Variant::ALL.map(Variant::operation).to_vec()),
    )
};
const TYPE: Parameter = optional("type", "What happened.", Form::Choice(|| Kind::ALL.map(Kind::as_str).to_vec()));
const STATUS: Parameter =
    optional("status", "How it ended, or that it has not.", Form::Choice(|| Status::ALL.map(Status::as_str).to_vec()));
const SERVER: Parameter = optional("server", "The name of a server.", Form::Text);
const TOOL: Parameter = optional("tool", "The name of a tool, alone or as `server:tool`.", Form::Text);
const AGENT: Parameter = optional("agent", "The name of an agent's token.", Form::Text);
const RISK: Parameter =
    optional("risk", "How much harm the tool can do.", Form::Choice(|| RiskLevel::ALL.map(RiskLevel::as_str).to_vec()));
const SINCE: Parameter = optional(
    "since",
    "Nothing older: an RFC 3339 time such as `2026-01-31T10:00:00Z`, or how long ago, such as `24h` or `7d`.",
    Form::Time,
);
const UNTIL: Parameter = optional("until", "Nothing newer: a time, or how long ago.", Form::Time);
const FROM: Parameter = optional("from", "Another name for `since`.", Form::Time);
const TO: Parameter = optional("to", "Another name for `until`.", Form::Time);
const Q: Parameter = optional(
    "q",
    "Words to find in tool, server, agent, client, code, message or metadata; upper and lower case are the same.",
    Form::Text,
);
const LIMIT: Parameter = Parameter {
    example: Some("50"),
    ..optional("limit", "At most so many records.", Form::Number { max: LIMIT_MAX, default: 50 })
};
const CURSOR: Parameter = optional("cursor", "`next` of the page before.", Form::Cursor);
const FORMAT: Parameter = Parameter {
    example: Some("jsonl"),
    ..optional(
        "format",
        "One JSON object in a line, or a table. `jsonl` if it is left out.",
        Form::Choice(|| vec!["jsonl", "csv"]),
    )
};
const PAYLOADS: Parameter =
    optional("payloads", "`true` adds the arguments and results, as far as they are kept.", Form::Switch);
const AFTER: Parameter = optional(
    "after",
    "The `id` of the last event that was seen; the header `Last-Event-ID` says the same and comes first. Without either, \
     the stream begins now.",
    Form::Place,
);
const LINES: Parameter =
    optional("lines", "The newest lines, at most so many.", Form::Number { max: 10_000, default: 100 });

pub(crate) static ACTIVITY: [Parameter; 14] =
    [INTENT_TYPE, TYPE, STATUS, SERVER, TOOL, AGENT, RISK, SINCE, UNTIL, FROM, TO, Q, LIMIT, CURSOR];
pub(crate) static ACTIVITY_SUMMARY: [Parameter; 4] = [Parameter { example: Some("24h"), ..SINCE }, UNTIL, FROM, TO];
pub(crate) static EXPORT_ACTIVITY: [Parameter; 14] = [
    FORMAT,
    PAYLOADS,
    Parameter { example: None, ..INTENT_TYPE },
    TYPE,
    STATUS,
    SERVER,
    TOOL,
    AGENT,
    RISK,
    Parameter { example: Some("7d"), ..SINCE },
    UNTIL,
    FROM,
    TO,
    Q,
];
pub(crate) static EVENTS: [Parameter; 9] = [AFTER, INTENT_TYPE, TYPE, STATUS, SERVER, TOOL, AGENT, RISK, Q];
pub(crate) static SERVER_LOG: [Parameter; 1] = [LINES];
pub(crate) static TOOLS: [Parameter; 1] = [SERVER];
pub(crate) static SEARCH_TOOLS: [Parameter; 4] = [
    Parameter {
        name: "q",
        about: "Words that describe the tool.",
        form: Form::Query,
        need: Need::Required,
        example: Some("delete user"),
    },
    Parameter { example: None, ..optional("limit", "At most so many tools.", Form::Number { max: 50, default: 10 }) },
    SERVER,
    optional("explain", "`true` adds to each tool why it has its score.", Form::Switch),
];

pub(crate) static APPROVALS: [Parameter; 5] = [
    Parameter {
        example: Some("pending"),
        ..optional(
            "state",
            "How far it has come.",
            Form::Choice(|| ApprovalState::ALL.map(ApprovalState::as_str).to_vec()),
        )
    },
    AGENT,
    optional("tool", "The name of a tool, as `server:tool`.", Form::Text),
    optional("limit", "At most so many approvals.", Form::Number { max: LIMIT_MAX, default: 50 }),
    optional("cursor", "`next` of the page before: the id of an approval.", Form::Text),
];
pub(crate) static GRANTS: [Parameter; 1] =
    [optional("all", "`true` adds those that are revoked, over or used up.", Form::Switch)];

/// The parameters of a request, read and checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    values: Vec<(&'static str, Value)>,
}

#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Number(usize),
    TimeMs(i64),
    Cursor(Cursor),
    Place(FeedCursor),
    Switch(bool),
}

/// Stands before every route, so that none can forget to look.
pub(crate) async fn read(
    State((web, endpoint)): State<(Arc<Web>, Endpoint)>,
    mut request: Request,
    next: Next,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    match Given::read(query, endpoint.parameters(), (web.facts.now_ms)()) {
        Ok(given) => {
            request.extensions_mut().insert(given);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl Given {
    pub(crate) fn read(query: &str, known: &'static [Parameter], now_ms: i64) -> Result<Self, Problem> {
        let mut given = Self::default();
        for (name, value) in query::pairs(query)? {
            let parameter = known.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| unknown(&name, known))?;
            if given.find(parameter.name).is_some() {
                return Err(Problem::bad_query(
                    format!("`{}` is given more than once", parameter.name),
                    "give each parameter once",
                ));
            }
            given.values.push((parameter.name, parameter.parse(value, now_ms)?));
        }
        match known.iter().find(|parameter| parameter.need == Need::Required && given.find(parameter.name).is_none()) {
            Some(missing) => Err(Problem::bad_query(format!("`{}` is missing", missing.name), missing.about)),
            None => Ok(given),
        }
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.find(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The number that was given, or the one that stands for none.
    pub(crate) fn number(&self, name: &str, of: Endpoint) -> usize {
        let default = || {
            of.parameters().iter().find(|parameter| parameter.name == name).and_then(|parameter| match parameter.form {
                Form::Number { default, .. } => Some(default),
                _ => None,
            })
        };
        match self.find(name) {
            Some(Value::Number(number)) => *number,
            _ => default().unwrap_or_default(),
        }
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.find(name), Some(Value::Switch(true)))
    }

    pub(crate) fn cursor(&self) -> Option<Cursor> {
        match self.find(CURSOR.name) {
            Some(Value::Cursor(cursor)) => Some(*cursor),
            _ => None,
        }
    }

    pub(crate) fn place(&self) -> Option<FeedCursor> {
        match self.find(AFTER.name) {
            Some(Value::Place(place)) => Some(place.clone()),
            _ => None,
        }
    }

    fn time_ms(&self, name: &'static str, other_name: &'static str) -> Result<Option<i64>, Problem> {
        let of = |name| match self.find(name) {
            Some(Value::TimeMs(time_ms)) => Some(*time_ms),
            _ => None,
        };
        match (of(name), of(other_name)) {
            (Some(_), Some(_)) => Err(Problem::bad_query(
                format!("`{name}` and `{other_name}` mean the same"),
                format!("give `{name}` alone"),
            )),
            (time_ms, other_ms) => Ok(time_ms.or(other_ms)),
        }
    }

    /// The range of time that was asked for; both ends belong to it.
    pub(crate) fn range_ms(&self) -> Result<(Option<i64>, Option<i64>), Problem> {
        let since_ms = self.time_ms(SINCE.name, FROM.name)?;
        let until_ms = self.time_ms(UNTIL.name, TO.name)?;
        if since_ms.zip(until_ms).is_some_and(|(since_ms, until_ms)| since_ms > until_ms) {
            return Err(Problem::bad_query("`since` is later than `until`", "exchange the two"));
        }
        Ok((since_ms, until_ms))
    }

    /// The records that were asked for.
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
            let hint = match self.need {
                Need::Required => "give it a value".to_owned(),
                Need::Optional => format!("leave `{name}` out, or give it a value"),
            };
            return Err(Problem::bad_query(format!("`{name}` is empty"), hint));
        }
        match self.form {
            Form::Text if text.chars().count() > TEXT_MAX_CHARS => Err(Problem::bad_query(
                format!("{name} must have at most {TEXT_MAX_CHARS} characters"),
                "a part of it is enough for `q`, and no name is longer",
            )),
            Form::Query if text.chars().count() > QUERY_MAX_CHARS => Err(Problem::bad_query(
                format!("{name} must have at most {QUERY_MAX_CHARS} characters"),
                "a few sentences are enough: the search reads no more",
            )),
            Form::Text | Form::Query => Ok(Value::Text(text)),
            Form::Choice(choices) => {
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
            Form::Number { max, default } => match text.parse() {
                // Digits alone: `+5` would be a number too, and `05` one with two spellings.
                Ok(number) if (1..=max).contains(&number) && number.to_string() == text => Ok(Value::Number(number)),
                _ => Err(Problem::bad_query(
                    format!("{name} must be a number from 1 to {max}"),
                    format!("without `{name}` it is {default}"),
                )),
            },
            Form::Time => time::parse(&text, now_ms).map(Value::TimeMs).ok_or_else(|| {
                Problem::bad_query(
                    format!("{name}: not an RFC 3339 time"),
                    "write a time such as 2026-01-31T10:00:00Z, or how long ago, such as 24h or 7d",
                )
            }),
            Form::Cursor => Cursor::parse(&text).map(Value::Cursor).map_err(|_| {
                Problem::bad_query(
                    format!("{name}: not a cursor of an earlier page"),
                    "give `next` of an answer unchanged, or leave it out for the newest records",
                )
            }),
            Form::Place => place(name, &text).map(Value::Place),
            Form::Switch => match text.as_str() {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(Problem::bad_query(format!("{name} must be true or false"), "without it, it is false")),
            },
        }
    }
}

/// Tools are shown as `server:tool`; whoever copies that means the tool of that server.
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

/// A place in the stream of events, as an earlier event named it.
pub(crate) fn place(name: &str, text: &str) -> Result<FeedCursor, Problem> {
    FeedCursor::parse(text).map_err(|_| {
        Problem::bad_query(
            format!("{name}: not the id of an event"),
            "give the `id` of an event unchanged, or leave it out to begin now",
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

/// `a, b or c`.
fn one_of(choices: &[&str]) -> String {
    match choices {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => choices.concat(),
    }
}
