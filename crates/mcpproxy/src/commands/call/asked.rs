//! What was asked, to say how to ask better or to go on.

use mcpproxy_core::{ApprovalId, ToolName, Variant};

use super::{Call, Sensitivity};
use crate::home::Home;
use crate::terminal::shell;

pub(super) struct Asked<'a> {
    pub(super) home: &'a Home,
    pub(super) tool: &'a ToolName,
    pub(super) variant: Variant,
    pub(super) args: Option<&'a str>,
    pub(super) sensitivity: Option<Sensitivity>,
    pub(super) reason: Option<&'a str>,
    pub(super) dry_run: bool,
    pub(super) idempotency_key: Option<&'a str>,
    pub(super) approval: Option<&'a ApprovalId>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(home: &'a Home, variant: Variant, tool: &'a ToolName, call: &'a Call) -> Self {
        Self {
            home,
            tool,
            variant,
            args: call.args.as_deref(),
            sensitivity: call.sensitivity,
            reason: call.reason.as_deref(),
            dry_run: call.dry_run,
            idempotency_key: call.idempotency_key.as_deref(),
            approval: call.approval_id.as_ref(),
        }
    }

    /// Any command, on the same data folder.
    pub(super) fn command(&self, rest: &str) -> String {
        self.home.command("mcpproxy", rest)
    }

    /// The same call with another variant; where is what whoever typed it knows.
    pub(super) fn with_variant(&self, variant: Variant) -> String {
        format!("mcpproxy {}", self.words(variant, self.dry_run, self.approval))
    }

    /// Its dry run.
    pub(super) fn as_dry_run(&self) -> String {
        self.call(self.variant, true, None)
    }

    /// The same call as a new question.
    pub(super) fn without_approval(&self) -> String {
        self.call(self.variant, self.dry_run, None)
    }

    /// Waits for the user, then makes the same call.
    pub(super) fn after_approval(&self, id: &ApprovalId) -> String {
        let wait = self.command(&format!("approvals wait {id}"));
        format!("{wait} && {}", self.call(self.variant, self.dry_run, Some(id)))
    }

    fn call(&self, variant: Variant, dry_run: bool, approval: Option<&ApprovalId>) -> String {
        self.command(&self.words(variant, dry_run, approval))
    }

    fn words(&self, variant: Variant, dry_run: bool, approval: Option<&ApprovalId>) -> String {
        let option = |name: &str, value: Option<&str>| {
            value.map(|value| format!(" --{name} {}", shell::word(value))).unwrap_or_default()
        };
        let sensitivity = self.sensitivity.map(|level| format!(" --sensitivity {}", level.as_str()));
        format!(
            "call tool-{variant} {}{}{}{}{}{}{}",
            shell::plain_word(&self.tool.to_string()),
            option("args", self.args),
            sensitivity.unwrap_or_default(),
            option("reason", self.reason),
            if dry_run { " --dry-run" } else { "" },
            // A dry run is never sent twice, so it has no key.
            option("idempotency-key", self.idempotency_key.filter(|_| !dry_run)),
            approval.map(|id| format!(" --approval-id {id}")).unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn commands_that_can_be_pasted() {
        let home = Home::resolve(Some(PathBuf::from("/my data"))).unwrap();
        let tool = ToolName::parse("fx:send").unwrap();
        let id = ApprovalId::parse("01HF7YAT00ZZZZZZZZZZZZZZZZ").unwrap();
        let asked = Asked {
            home: &home,
            tool: &tool,
            variant: Variant::Write,
            args: Some("{\"a\": \"it's\u{202e}\"}"),
            sensitivity: Some(Sensitivity::Private),
            reason: Some("because"),
            dry_run: false,
            idempotency_key: Some("k 1"),
            approval: Some(&id),
        };
        let args = "--args $'{\"a\": \"it\\'s\\xe2\\x80\\xae\"}' --sensitivity private --reason 'because'";
        let call = format!("mcpproxy --home '/my data' call tool-write fx:send {args}");
        assert_eq!(asked.as_dry_run(), format!("{call} --dry-run"));
        assert_eq!(asked.without_approval(), format!("{call} --idempotency-key 'k 1'"));
        assert_eq!(
            asked.after_approval(&id),
            format!(
                "mcpproxy --home '/my data' approvals wait {id} && {call} --idempotency-key 'k 1' --approval-id {id}"
            )
        );
        assert_eq!(
            asked.with_variant(Variant::Destructive),
            format!("mcpproxy call tool-destructive fx:send {args} --idempotency-key 'k 1' --approval-id {id}")
        );
    }
}
