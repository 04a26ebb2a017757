//! The form for a standing approval: which arguments stay the same, for how long, and how often.
//!
//! Each argument has a checkbox. A ticked argument must have the value of this call, any other may have any value of the
//! same type. The schema is made from the ticks when the form arrives. Users who know JSON Schema can write their own
//! under "Advanced". It is used if it differs from the suggestion, so a page without a script needs no switch.

use mcpproxy_core::{ApprovalState, Assurance, RiskLevel, json};
use mcpproxy_gateway::ApprovalView;

use crate::ui::pages::{grant_schema, one_line};
use crate::visible::{Visible, json_escapes};

const MINUTES: [u32; 4] = [1, 5, 10, 15];
const USES: [u32; 6] = [1, 2, 5, 10, 25, 100];
const DEFAULT_MINUTES: &str = "15";
const DEFAULT_USES: &str = "5";
/// A form has at most 32 fields.
const MAX_CHOICES: usize = 20;
/// A longer suggestion would not fit into the form, so the field stays empty.
const SUGGESTED_BYTES: usize = 12_000;

pub(crate) struct StandingForm {
    pub(crate) choices: Vec<KeptArgument>,
    /// Further arguments, which always stay the same.
    pub(crate) fixed: usize,
    pub(crate) minutes: Vec<Choice>,
    pub(crate) uses: Vec<Choice>,
    pub(crate) schema: String,
    pub(crate) is_open: bool,
    /// True if the schema was edited.
    pub(crate) is_advanced: bool,
}

pub(crate) struct KeptArgument {
    /// The name of the form field, such as `keep0`.
    pub(crate) field: String,
    pub(crate) name: Visible,
    pub(crate) value: Visible,
    pub(crate) is_kept: bool,
}

pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) words: String,
    pub(crate) is_chosen: bool,
}

/// The values of a refused form.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypedStanding {
    pub(crate) schema: String,
    pub(crate) minutes: String,
    pub(crate) uses: String,
    /// The ticks of the arguments, in order. `None` if the form had none.
    pub(crate) kept: Option<Vec<bool>>,
}

impl TypedStanding {
    /// Reads the form. `field` returns a field that was sent.
    pub(crate) fn read<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Self {
        let text = |name: &str| field(name).unwrap_or_default().to_owned();
        let kept = field("choices").map(|_| (0..MAX_CHOICES).map(|number| field(&name(number)).is_some()).collect());
        Self { schema: text("schema"), minutes: text("minutes"), uses: text("uses"), kept }
    }

    /// Returns the schema that the user wants: their own one if they wrote one, or else one made from the ticks.
    pub(crate) fn wanted_schema(&self, view: &ApprovalView) -> String {
        match &self.kept {
            Some(kept) if !self.is_edited(view) => {
                // Arguments without a checkbox stay the same.
                allowing(view, |number| kept.get(number).copied().unwrap_or(true))
            }
            _ => self.schema.clone(),
        }
    }

    fn is_edited(&self, view: &ApprovalView) -> bool {
        let typed = self.schema.replace("\r\n", "\n");
        !typed.trim().is_empty() && typed.trim() != suggestion(view)
    }
}

fn name(number: usize) -> String {
    format!("keep{number}")
}

fn allowing(view: &ApprovalView, keeps: impl Fn(usize) -> bool) -> String {
    let shown = view.args_for_user.for_json();
    grant_schema::allowing(view.approval.args.as_deref().unwrap_or(shown), shown, keeps)
}

fn suggestion(view: &ApprovalView) -> String {
    let exactly = allowing(view, |_| true);
    if exactly.len() <= SUGGESTED_BYTES { exactly } else { String::new() }
}

impl StandingForm {
    /// Builds the form. Returns `None` for critical calls and for calls that require a second factor.
    pub(crate) fn new(view: &ApprovalView, state: ApprovalState, typed: Option<&TypedStanding>) -> Option<Self> {
        let approval = &view.approval;
        let is_possible = approval.least != Assurance::Factor && approval.risk != Some(RiskLevel::Critical);
        if !is_possible || state != ApprovalState::Pending {
            return None;
        }
        let members = json::members(view.args_for_user.for_json()).unwrap_or_default();
        let kept = typed.and_then(|typed| typed.kept.as_ref());
        let choices = members.iter().take(MAX_CHOICES).enumerate().map(|(number, (argument, value))| KeptArgument {
            field: name(number),
            name: Visible::of(argument),
            value: one_line::value(value),
            is_kept: kept.is_none_or(|kept| kept.get(number).copied().unwrap_or(true)),
        });
        let (minutes, uses) = match typed {
            Some(typed) => (typed.minutes.as_str(), typed.uses.as_str()),
            None => (DEFAULT_MINUTES, DEFAULT_USES),
        };
        let is_advanced = typed.is_some_and(|typed| typed.kept.is_none() || typed.is_edited(view));
        let schema = match typed {
            Some(typed) if is_advanced => json_escapes(&typed.schema),
            _ => suggestion(view),
        };
        Some(Self {
            choices: choices.collect(),
            fixed: members.len().saturating_sub(MAX_CHOICES),
            minutes: offered(&MINUTES, minutes, "minute"),
            uses: offered(&USES, uses, "call"),
            schema,
            is_open: typed.is_some(),
            is_advanced,
        })
    }
}

/// Returns the choices, with another value that was sent.
fn offered(values: &[u32], chosen: &str, unit: &str) -> Vec<Choice> {
    let chosen = chosen.trim();
    let choice = |value: String| Choice {
        words: format!("{value} {unit}{}", if value == "1" { "" } else { "s" }),
        is_chosen: value == chosen,
        value,
    };
    let mut choices: Vec<Choice> = values.iter().map(|value| choice(value.to_string())).collect();
    let is_other = !chosen.is_empty() && choices.iter().all(|one| !one.is_chosen);
    if is_other && chosen.len() <= 6 && chosen.bytes().all(|byte| byte.is_ascii_digit()) {
        choices.push(choice(chosen.to_owned()));
    }
    choices
}
