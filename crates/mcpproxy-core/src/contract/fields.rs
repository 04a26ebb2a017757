//! The list of contract fields. This is the place to add one.
//!
//! Each row says everything about a field: its key, its type, how it is read, merged, shown, hashed and described.
//! `rows.rs` explains the columns and generates the rest.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::effective::{
    Merged as _, Source, Sourced, Sources, by_default, merge_autonomous, merge_confirmation, merge_operation,
    merge_step_up,
};
use super::rows::{contract_fields, merged, merged_type};
use super::values::{self, confirmation, dry_run, idempotency, rate_limit, schemas, step_up};
use super::weaker;
use super::{Confirmation, DryRun, Idempotency, OutputSchema, RateLimit, Sensitive, StepUp, Written};
use crate::file::{Author, Fields, Keys, Node, Reader, SourcePosition};
use crate::schema::Schema;
use crate::{Hints, RiskLevel, Untrusted, Variant};

/// The properties of a field that other modules need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContractField {
    pub(crate) key: &'static str,
    /// The field is about calls, so it means nothing on a forbidden tool.
    pub(crate) calls_only: bool,
}

contract_fields! {
    description: Untrusted {
        key: "description", also: [],
        about: "A description of the tool for the user who approves a call.",
        schema: json!({ "type": "string", "maxLength": values::DESCRIPTION_MAX_CHARS }),
        read: |reader, node| reader.text(node, values::DESCRIPTION_MAX_CHARS),
        merge: first(),
        json: |text| text.for_json().into(),
        digest: "description" => |text| text.for_json().into(),
        weaker: weaker::never,
        calls_only: false,
    }
    category: String {
        key: "category", also: [],
        about: "A group of your own choice, such as `communication`. Policies can refer to it.",
        schema: json!({ "$ref": "#/$defs/word" }),
        read: |reader, node| reader.parsed(node, values::word),
        merge: first(),
        json: |word| word.as_str().into(),
        digest: "category" => |word| word.as_str().into(),
        weaker: weaker::never,
        calls_only: false,
    }
    risk: RiskLevel {
        key: "riskLevel", also: ["risk", "level"],
        about: "The harm that the tool can do. `low`, `medium`: agents call it without approval. `high`: a user approves every call. `critical`: the user also needs a fresh second factor (see `stepUpAuth`). `forbidden`: agents cannot see or call the tool.",
        schema: json!({ "enum": RiskLevel::ALL.map(RiskLevel::as_str) }),
        read: |reader, node| reader.choice(node, &RiskLevel::ALL.map(|level| (level.as_str(), level))),
        merge: first(),
        json: |level| level.as_str().into(),
        digest: "risk" => |level| level.as_str().into(),
        weaker: |before, after| after < before,
        calls_only: false,
    }
    operation: Variant {
        key: "operation", also: [],
        about: "The effect of the tool on data. It overrides the server's annotations. Agents call the tool with `call_tool_read`, `call_tool_write` or `call_tool_destructive`.",
        schema: json!({ "enum": Variant::ALL.map(Variant::operation) }),
        read: |reader, node| reader.choice(node, &Variant::ALL.map(|variant| (variant.operation(), variant))),
        merge: optional(merge_operation),
        json: |variant| variant.operation().into(),
        digest: "operation" => |variant| variant.operation().into(),
        weaker: |before, after| after < before,
        calls_only: false,
    }
    autonomous: bool {
        key: "autonomousExecution", also: ["autonomous"],
        about: "True if agents may call the tool without approval. By default, the risk level decides. For `high` and `critical`, only false is possible.",
        schema: json!({ "type": "boolean" }),
        read: |reader, node| reader.boolean(node),
        merge: always(merge_autonomous),
        json: |is_autonomous| (*is_autonomous).into(),
        digest: "autonomous" => |is_autonomous| (*is_autonomous).into(),
        weaker: |before, after| after > before,
        calls_only: false,
    }
    confirmation: Confirmation {
        key: "confirmation", also: ["confirm", "confirmationRequired", "requireConfirmation", "requiresConfirmation"],
        about: "`required`: a user approves every call. An object with `when`: a user approves the calls whose arguments match. For risk levels `high` and `critical`, only `required` is possible.",
        schema: json!({ "$ref": "#/$defs/confirmation" }),
        read: confirmation::read,
        merge: always(merge_confirmation),
        json: confirmation::to_json,
        digest: "confirmation" => confirmation::digest,
        weaker: weaker::confirmation,
        calls_only: true,
    }
    step_up: StepUp {
        key: "stepUpAuth", also: ["stepUp"],
        about: "True if an approval needs a fresh second factor: true, false, or an object with `when`. Risk level `critical` needs one by default.",
        schema: json!({ "$ref": "#/$defs/stepUpAuth" }),
        read: step_up::read,
        merge: always(merge_step_up),
        json: step_up::to_json,
        digest: "stepUp" => step_up::digest,
        weaker: weaker::step_up,
        calls_only: true,
    }
    input_schema: Arc<Schema> {
        key: "inputSchema", also: [],
        about: "A JSON Schema for the arguments, in addition to the server's own. The gateway refuses a call that does not match before it sends anything.",
        schema: json!({ "type": "object" }),
        read: schemas::read_input,
        merge: first(),
        json: |schema| schemas::to_json(schema),
        digest: "input" => |schema| schemas::digest_text(schema).into(),
        weaker: weaker::input_schema,
        calls_only: false,
    }
    output_schema: OutputSchema {
        key: "outputSchema", also: [],
        about: "A JSON Schema for structured results.",
        schema: json!({ "type": "object", "properties": { "strict": schemas::strict_schema() } }),
        read: schemas::read_output,
        merge: first(),
        json: schemas::output_json,
        digest: "output" => |output| json!([output.is_strict, schemas::digest_text(&output.schema)]),
        weaker: weaker::output_schema,
        calls_only: false,
    }
    permissions: Vec<String> {
        key: "permissions", also: ["scopes", "requiredPermissions"],
        about: "The permissions that an agent's token needs to call the tool, such as `emails:send`. Write full names: `*` is only for tokens.",
        schema: values::list_schema(values::LIST_MAX, values::permission_schema()),
        read: |reader, node| reader.list(node, values::LIST_MAX, |r, node| r.parsed(node, values::permission)),
        merge: first_or(Vec::new()),
        json: |permissions| permissions.clone().into(),
        digest: "permissions" => |permissions| permissions.clone().into(),
        weaker: weaker::is_one_gone,
        calls_only: false,
    }
    side_effects: Vec<Untrusted> {
        key: "sideEffects", also: [],
        about: "The side effects of a call, as sentences for the user who approves it.",
        schema: values::list_schema(values::SIDE_EFFECTS_MAX, values::side_effect_schema()),
        read: |reader, node| reader.list(node, values::SIDE_EFFECTS_MAX, values::side_effect),
        merge: first_or(Vec::new()),
        json: |texts| values::texts(texts),
        digest: "sideEffects" => |texts| values::texts(texts),
        weaker: weaker::never,
        calls_only: false,
    }
    audit_event: String {
        key: "auditEvent", also: ["audit"],
        about: "The name of a call in the activity log, such as `email.external.sent`.",
        schema: json!({ "$ref": "#/$defs/word" }),
        read: |reader, node| reader.parsed(node, values::word),
        merge: first(),
        json: |word| word.as_str().into(),
        digest: "auditEvent" => |word| word.as_str().into(),
        weaker: weaker::never,
        calls_only: false,
    }
    failure_modes: Vec<String> {
        key: "failureModes", also: ["errors"],
        about: "The error codes that the tool can return. The log records any other code as `undeclared_failure`.",
        schema: values::list_schema(values::LIST_MAX, json!({ "$ref": "#/$defs/word" })),
        read: |reader, node| reader.list(node, values::LIST_MAX, |r, node| r.parsed(node, values::word)),
        merge: first(),
        json: |codes| codes.clone().into(),
        digest: "failureModes" => |codes| codes.clone().into(),
        weaker: weaker::never,
        calls_only: false,
    }
    idempotency: Idempotency {
        key: "idempotency", also: ["idempotent", "idempotentHint"],
        about: "The handling of repeated calls: a mode, or an object with `mode`.",
        schema: json!({ "$ref": "#/$defs/idempotency" }),
        read: idempotency::read,
        merge: first_or(Idempotency::None),
        json: idempotency::to_json,
        digest: "idempotency" => idempotency::to_json,
        weaker: |before, after| before.is_some_and(|one| *one != Idempotency::None) && after != before,
        calls_only: true,
    }
    dry_run: DryRun {
        key: "dryRun", also: [],
        about: "The support for dry runs, or the requirement to make one first: a mode, or an object with `mode`.",
        schema: json!({ "$ref": "#/$defs/dryRun" }),
        read: dry_run::read,
        merge: first_or(DryRun::None),
        json: dry_run::to_json,
        digest: "dryRun" => dry_run::to_json,
        weaker: weaker::dry_run,
        calls_only: true,
    }
    rate_limit: RateLimit {
        key: "rateLimit", also: [],
        about: "A rate limit for the tool: the maximum number of calls in a time span, for all agents together.",
        schema: json!({ "$ref": "#/$defs/rateLimit" }),
        read: rate_limit::read,
        merge: first(),
        json: rate_limit::to_json,
        digest: "rateLimit" => rate_limit::to_json,
        weaker: weaker::rate_limit,
        calls_only: true,
    }
    sensitive: Vec<Sensitive> {
        key: "sensitive", also: [],
        about: "JSON pointers into arguments and results, such as `/body`. Their values are masked in the log and on pages. A segment `*` matches any key or index.",
        schema: values::list_schema(values::LIST_MAX, values::pointer_schema()),
        read: |reader, node| reader.list(node, values::LIST_MAX, |r, node| r.parsed(node, values::sensitive)),
        merge: first_or(Vec::new()),
        json: |pointers| values::pointers(pointers),
        digest: "sensitive" => |pointers| values::pointers(pointers),
        weaker: weaker::is_one_gone,
        calls_only: false,
    }
    version: String {
        key: "version", also: ["contractVersion"],
        about: "A version of your own choice, such as `3` or `2026-05`. The record of each call has it, next to the digest of the contract.",
        schema: values::version_schema(),
        read: values::version,
        merge: first(),
        json: |word| word.as_str().into(),
        digest: "version" => |word| word.as_str().into(),
        weaker: weaker::never,
        calls_only: false,
    }
}

/// Reads one field with its position, if it is there and right.
fn written<'n, T>(
    reader: &mut Reader<'_>,
    fields: &Fields<'n>,
    key: &str,
    read: impl FnOnce(&mut Reader<'_>, &'n Node) -> Option<T>,
) -> Option<Written<T>> {
    let member = fields.find(key)?;
    let value = read(reader, &member.node)?;
    let SourcePosition { line, column } = match reader.author {
        Author::Operator => member.position,
        Author::Server => SourcePosition { line: 0, column: 0 },
    };
    Some(Written { value, line, column })
}
