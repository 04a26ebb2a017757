//! Builds the metadata of call and refusal records: one JSON object, member by member.
//!
//! | member | in | meaning |
//! |---|---|---|
//! | `intent` | calls, refusals | what the agent declared: `operation_type`, `data_sensitivity`, `reason` |
//! | `intent_declared` | calls, refusals | false: the agent named no operation, and the variant stands for it |
//! | `expected` | refusals | what the variant requires of the intent |
//! | `tool_variant` | calls, refusals | the `call_tool_*` that was used, or that stands for a direct call |
//! | `endpoint_mode` | calls, refusals | `four`, `server` or `direct`; `console` for a dry run of a user |
//! | `user` | dry runs of users, also refused ones | the user who made it in the agent's name |
//! | `variant_inferred` | direct calls | the gateway chose the variant, by the tool's contract or annotations |
//! | `contract` | calls, refusals | the digest and version of the contract that the call was decided by |
//! | `category` | calls, refusals | the category of the tool's contract |
//! | `risk_said_by` | calls, refusals | `server` or `draft`, if the risk level is not the operator's reviewed one |
//!
//! The store finds members by their text (`record/mark.rs` there), so the object has no spaces between tokens.

use std::borrow::Cow;

use mcpproxy_core::contract::Effective;
use mcpproxy_core::json::push_quoted;
use mcpproxy_core::{Intent, Tool, Untrusted, Variant, WrittenIntent};

use crate::agents::{ConnectedAgent, EndpointMode};
use crate::said_by::SaidBy;

/// Marks a dry run, made by the `server` or as a `preview`.
pub(crate) const DRY_RUN: &str = "dry_run";
/// Names the record of the call whose answer was given again.
pub(crate) const REPLAYED_FROM: &str = "replayed_from";
/// Says that the risk level of the record is not the operator's reviewed one.
pub(crate) const RISK_SAID_BY: &str = "risk_said_by";

/// The endpoint mode of a dry run that a user makes on a page.
const CONSOLE: &str = "console";

/// Enough for most calls, so that the text does not grow step by step.
const USUAL_BYTES: usize = 320;

/// A JSON object without its end.
pub(crate) struct Metadata(String);

/// The contract that a call was decided by.
pub(super) struct NamedContract<'a> {
    digest: Cow<'a, str>,
    contract: &'a Effective,
}

impl<'a> NamedContract<'a> {
    pub(super) fn of_tool(tool: &'a Tool) -> Self {
        Self { digest: tool.contract_digest_text().into(), contract: &tool.contract }
    }

    /// Names a contract whose tool is unknown.
    pub(super) fn new(contract: &'a Effective) -> Self {
        Self { digest: contract.digest().to_string().into(), contract }
    }
}

impl Metadata {
    /// Builds the metadata that every call has.
    pub(super) fn of_call(intent: &Intent, agent: &ConnectedAgent, contract: &NamedContract<'_>) -> Self {
        let sensitivity = intent.sensitivity.map(|sensitivity| sensitivity.as_str());
        let reason = intent.reason.as_ref().map(Untrusted::for_json);
        let mut metadata = Self::new();
        metadata.add_intent(Some(intent.variant.operation()), sensitivity, reason);
        metadata.add_undeclared(!intent.is_declared);
        metadata.add_variant(intent.variant, agent);
        metadata.add_surroundings(agent, Some(contract));
        metadata
    }

    /// Builds the metadata of a refused call. If the agent declared no operation, its variant stands for one.
    pub(super) fn of_refusal(
        declared: &WrittenIntent,
        variant: Option<Variant>,
        agent: &ConnectedAgent,
        contract: Option<&NamedContract<'_>>,
    ) -> Self {
        let WrittenIntent { operation_type, data_sensitivity, reason } = declared;
        let words = [operation_type, data_sensitivity, reason].map(|word| word.as_ref().map(Untrusted::for_json));
        let [written, data_sensitivity, reason] = words;
        let operation_type = written.or(variant.map(Variant::operation));
        let mut metadata = Self::new();
        metadata.add_intent(operation_type, data_sensitivity, reason);
        metadata.add_undeclared(written.is_none());
        if let Some(variant) = variant {
            metadata.add_object("expected", |expected| expected.add_text("operation_type", variant.operation()));
            metadata.add_variant(variant, agent);
        }
        metadata.add_surroundings(agent, contract);
        metadata
    }

    fn new() -> Self {
        let mut text = String::with_capacity(USUAL_BYTES);
        text.push('{');
        Self(text)
    }

    /// Adds a member. `value` is JSON.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.push_str(value);
    }

    /// Adds a member with a text.
    fn add_text(&mut self, name: &str, text: &str) {
        self.name(name);
        push_quoted(&mut self.0, text);
    }

    /// Adds a member with an object, whose members `fill` adds.
    fn add_object(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.name(name);
        self.0.push('{');
        fill(self);
        self.0.push('}');
    }

    fn name(&mut self, name: &str) {
        let comma = if self.0.ends_with('{') { "\"" } else { ",\"" };
        self.0.extend([comma, name, "\":"]);
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn add_intent(&mut self, operation: Option<&str>, sensitivity: Option<&str>, reason: Option<&str>) {
        let words = [("operation_type", operation), ("data_sensitivity", sensitivity), ("reason", reason)];
        self.add_object("intent", |intent| {
            for (name, word) in words {
                if let Some(word) = word {
                    intent.add_text(name, word);
                }
            }
        });
    }

    fn add_undeclared(&mut self, is_undeclared: bool) {
        if is_undeclared {
            self.add("intent_declared", "false");
        }
    }

    fn add_variant(&mut self, variant: Variant, agent: &ConnectedAgent) {
        self.add_text("tool_variant", variant.tool());
        match agent.endpoint_mode {
            EndpointMode::Four => {}
            EndpointMode::Server(_) | EndpointMode::Direct => self.add("variant_inferred", "true"),
        }
    }

    fn add_surroundings(&mut self, agent: &ConnectedAgent, contract: Option<&NamedContract<'_>>) {
        match &agent.user {
            None => self.add_text("endpoint_mode", agent.endpoint_mode.as_str()),
            Some(user) => {
                self.add_text("endpoint_mode", CONSOLE);
                self.add_text("user", user.name());
            }
        }
        let Some(named) = contract else { return };
        self.add_contract(named);
        if let Some(category) = &named.contract.category {
            self.add_text("category", &category.value);
        }
        let said_by = named.contract.risk.as_ref().and_then(|risk| SaidBy::of(&risk.source));
        if let Some(said_by) = said_by.filter(|said_by| *said_by != SaidBy::Operator) {
            self.add_text(RISK_SAID_BY, said_by.as_str());
        }
    }

    /// Names the contract that a call was decided by: the digest of the effective contract, and its version if it has
    /// one.
    fn add_contract(&mut self, named: &NamedContract<'_>) {
        self.add_object("contract", |contract| {
            contract.add_text("digest", &named.digest);
            if let Some(version) = &named.contract.version {
                contract.add_text("version", &version.value);
            }
        });
    }
}
