//! The page of one tool.

use askama::Template;
use mcpproxy_core::contract::{Effective, Source};
use mcpproxy_core::settings::ContractSettings;
use mcpproxy_core::trust::Pin;
use mcpproxy_core::{RiskLevel, Tool, Untrusted, Variant};
use mcpproxy_gateway::History;
use mcpproxy_store::{PastState, Record};
use serde_json::Value;

use super::condition::when;
use super::dry_run::DryRunCommand;
use super::explained::Explained;
use super::parameters::{self, Parameters};
use super::ran::Ran;
use super::rule::needs;
use super::{Choice, rated_by, risk_of, variant_word};
use crate::ui::pages::activity::words;
use crate::ui::pages::labels::{Risk, State, Time};
use crate::ui::pages::{Frame, filters};
use crate::visible::Visible;

const SHORT_CHARS: usize = 300;
const LONG_CHARS: usize = 8_000;
/// Hexadecimal digits of a pin. They tell the versions of one tool apart.
const PIN_CHARS: usize = 12;

/// Text of a server, folded if it is long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongText {
    pub(crate) short: Visible,
    pub(crate) whole: Option<Visible>,
    pub(crate) chars: usize,
    pub(crate) shown: usize,
}

impl LongText {
    pub(crate) fn new(text: &str) -> Self {
        let chars = text.chars().count();
        let begin = |max: usize| text.chars().take(max).collect::<String>();
        if chars <= SHORT_CHARS {
            return Self { short: Visible::lines(text), whole: None, chars, shown: chars };
        }
        Self {
            short: Visible::lines(&(begin(SHORT_CHARS) + "…")),
            whole: Some(Visible::lines(&begin(LONG_CHARS))),
            chars,
            shown: chars.min(LONG_CHARS),
        }
    }
}

#[derive(Template)]
#[template(path = "tool.html")]
pub(crate) struct OneTool {
    pub(crate) frame: Frame,
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) risk: Risk,
    pub(crate) rated_by: String,
    pub(crate) variant: &'static str,
    pub(crate) call_with: &'static str,
    pub(crate) is_forbidden: bool,
    pub(crate) description: LongText,
    pub(crate) needs: Vec<Visible>,
    pub(crate) fields: Vec<FieldGroup>,
    pub(crate) is_written: bool,
    pub(crate) digest: String,
    pub(crate) annotations: Vec<(Visible, Visible)>,
    pub(crate) parameters: Parameters,
    pub(crate) calls: Vec<CallRow>,
    pub(crate) versions: Vec<VersionRow>,
    pub(crate) form: ExplainForm,
    pub(crate) dry_run: DryRunCommand,
    pub(crate) error: Option<String>,
    pub(crate) explained: Option<Explained>,
    /// The dry run that the user has just made.
    pub(crate) ran: Option<Ran>,
    /// True right after the contract was saved.
    pub(crate) is_saved: bool,
}

/// The fields of the effective contract that have the same source.
pub(crate) struct FieldGroup {
    pub(crate) source: &'static str,
    /// The operator's own values stand out, and so do those of the server.
    pub(crate) class: &'static str,
    pub(crate) fields: Vec<FieldRow>,
}

pub(crate) struct FieldRow {
    pub(crate) key: &'static str,
    pub(crate) value: LongText,
    /// File and line. Empty if the operator did not write it.
    pub(crate) place: Visible,
}

pub(crate) struct CallRow {
    pub(crate) id: String,
    pub(crate) time: Time,
    pub(crate) agent: Visible,
    pub(crate) state: State,
    pub(crate) code: Visible,
}

/// A version of the definition, and who decided about it.
pub(crate) struct VersionRow {
    pub(crate) word: &'static str,
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) pin: String,
    pub(crate) decided: Time,
    pub(crate) by: Visible,
    pub(crate) until: Option<Time>,
}

/// The call to explain, as the user typed it.
#[derive(Default)]
pub(crate) struct ExplainForm {
    pub(crate) arguments: String,
    pub(crate) is_dry_run: bool,
    pub(crate) variants: Vec<Choice>,
    pub(crate) agents: Vec<Choice>,
}

impl ExplainForm {
    /// Returns the chosen operation, for a command.
    fn chosen(&self) -> &str {
        self.variants.iter().find(|choice| choice.is_chosen).map_or("read", |choice| &choice.value)
    }
}

/// The form as it was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypedCall {
    pub(crate) arguments: Option<String>,
    pub(crate) agent: String,
    pub(crate) variant: Option<Variant>,
    pub(crate) is_dry_run: bool,
}

/// Everything that the page shows of a tool besides its definition.
pub(crate) struct About {
    pub(crate) settings: ContractSettings,
    pub(crate) calls: Vec<Record>,
    pub(crate) agents: Vec<String>,
    pub(crate) history: History,
    pub(crate) now_ms: i64,
}

impl OneTool {
    pub(crate) fn new(frame: Frame, tool: &Tool, about: &About, typed: &TypedCall) -> Self {
        let contract = &tool.contract;
        let parsed = |field: &str| -> Value {
            tool.offered.field(field).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let schema = parsed("inputSchema");
        let variant = typed.variant.unwrap_or_else(|| tool.call_with());
        let choices = Variant::ALL.map(|one| Choice::new(one.operation(), one.tool(), variant.operation()));
        let any = Choice::new("", "An agent with every permission", &typed.agent);
        let agents = about.agents.iter().map(|name| Choice::new(name, name, &typed.agent));
        let arguments = typed.arguments.clone().unwrap_or_else(|| parameters::example(&schema));
        Self {
            frame,
            server: tool.name.server().to_string(),
            name: tool.name.to_string(),
            path: format!("/ui/tools/{}/{}", tool.name.server(), tool.name.tool()),
            risk: risk_of(contract),
            rated_by: rated_by(contract),
            variant: variant_word(tool.call_with()),
            call_with: tool.call_with().tool(),
            is_forbidden: contract.risk() == Some(RiskLevel::Forbidden),
            description: LongText::new(tool.offered.description.for_json()),
            needs: needs(contract, about.settings).iter().map(|need| Visible::of(need)).collect(),
            fields: contract_fields(contract),
            is_written: contract.is_written,
            digest: tool.contract_digest_text().chars().take(16).collect(),
            annotations: annotations(&parsed("annotations")),
            parameters: Parameters::of(&schema),
            calls: about.calls.iter().map(|record| CallRow::new(record, about.now_ms)).collect(),
            versions: versions(&about.history, about.now_ms),
            dry_run: DryRunCommand::new(&tool.name, variant, &arguments, contract.native_dry_run().is_some()),
            form: ExplainForm {
                arguments,
                is_dry_run: typed.is_dry_run,
                variants: choices.into(),
                agents: std::iter::once(any).chain(agents).collect(),
            },
            error: None,
            explained: None,
            ran: None,
            is_saved: false,
        }
    }
}

/// Groups the fields by their source, which so stands once and not in each row.
fn contract_fields(contract: &Effective) -> Vec<FieldGroup> {
    let mut groups: Vec<FieldGroup> = Vec::new();
    for (key, value, source) in contract.fields() {
        let (words, class) = source_words(source);
        let place = match source {
            Source::Operator { file, line, .. } => format!("{}:{line}", Untrusted::new(file.as_ref()).for_terminal()),
            Source::Server | Source::Hints | Source::Level | Source::Default => String::new(),
        };
        let field = FieldRow { key, value: LongText::new(&value_text(&value)), place: Visible::of(&place) };
        match groups.iter_mut().find(|group| group.source == words) {
            Some(group) => group.fields.push(field),
            None => groups.push(FieldGroup { source: words, class, fields: vec![field] }),
        }
    }
    groups
}

fn source_words(source: &Source) -> (&'static str, &'static str) {
    match source {
        Source::Operator { is_draft: false, .. } => ("from your files", "good"),
        Source::Operator { is_draft: true, .. } => ("from a draft, not reviewed", "warn"),
        Source::Server => ("from the server’s contract, not verified", "warn"),
        Source::Hints => ("from the server’s annotations, not verified", "warn"),
        Source::Level => ("follows from the risk level", ""),
        Source::Default => ("default", ""),
    }
}

/// Words a value: text without quotes, lists with commas, anything else as JSON.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) if when(value).is_some() => {
            when(value).map(|words| format!("only if {words}")).unwrap_or_default()
        }
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) if values.iter().all(Value::is_string) => {
            let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            // Sentences stand on lines of their own.
            texts.join(if texts.iter().any(|text| text.contains(' ')) { "\n" } else { ", " })
        }
        Value::Object(members) if members.len() == 1 && members.contains_key("mode") => {
            members.get("mode").map(value_text).unwrap_or_default()
        }
        Value::Object(members) if members.values().all(|value| !value.is_object() && !value.is_array()) => {
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{key}: {}", value_text(value))).collect();
            members.join(", ")
        }
        other => other.to_string(),
    }
}

fn annotations(annotations: &Value) -> Vec<(Visible, Visible)> {
    const SHOWN_MAX: usize = 20;
    let members = annotations.as_object().into_iter().flatten().take(SHOWN_MAX);
    let short = |text: &str| Visible::of(&text.chars().take(SHORT_CHARS).collect::<String>());
    members.map(|(key, value)| (short(key), short(&value.to_string()))).collect()
}

fn versions(history: &History, now_ms: i64) -> Vec<VersionRow> {
    let by =
        |name: &str, is_by_user: bool| Visible::of(&if is_by_user { name.to_owned() } else { format!("rule {name}") });
    let short = |pin: Pin| pin.to_string().chars().take(PIN_CHARS).collect();
    let accepted = history.accepted.iter().map(|one| VersionRow {
        word: "accepted",
        class: "ok",
        icon: "check",
        pin: short(one.pin),
        decided: Time::new(one.accepted_ms, now_ms),
        by: by(&one.accepted_by, one.is_by_user),
        until: None,
    });
    let past = history.past.iter().map(|one| {
        let (word, class, icon, until) = match one.state {
            PastState::Former => ("replaced", "other", "repeat", Some(Time::new(one.ended_ms, now_ms))),
            PastState::Rejected => ("rejected", "refused", "ban", None),
        };
        let decided = Time::new(one.decided_ms, now_ms);
        VersionRow { word, class, icon, pin: short(one.pin), decided, by: by(&one.decided_by, one.is_by_user), until }
    });
    accepted.chain(past).collect()
}

impl CallRow {
    fn new(record: &Record, now_ms: i64) -> Self {
        Self {
            id: record.id.to_string(),
            time: Time::new(record.time_ms(), now_ms),
            agent: Visible::of(record.agent.as_deref().unwrap_or("no agent")),
            state: words::status(record),
            code: record.code.as_ref().map(Visible::untrusted).unwrap_or_default(),
        }
    }
}
