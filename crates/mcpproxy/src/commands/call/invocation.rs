//! The call as typed, to build the next command from it.

use mcpproxy_core::{ApprovalId, ToolName, Variant};

use super::{Call, Sensitivity};
use crate::home::Home;
use crate::terminal::shell;

/// The arguments of one `mcpproxy call`.
pub(super) struct Invocation<'a> {
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

impl<'a> Invocation<'a> {
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

    /// Returns a command line for the same data folder.
    pub(super) fn command(&self, rest: &str) -> String {
        self.home.command("mcpproxy", rest)
    }

    /// Returns the same call with another variant.
    pub(super) fn with_variant(&self, variant: Variant) -> String {
        self.call(variant, self.dry_run, self.approval)
    }

    /// Returns the dry run of the same call.
    pub(super) fn as_dry_run(&self) -> String {
        self.call(self.variant, true, None)
    }

    /// Returns the same call without an approval, which requests a new one.
    pub(super) fn without_approval(&self) -> String {
        self.call(self.variant, self.dry_run, None)
    }

    /// Returns a command that waits for the approval, then makes the same call.
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
            // A dry run takes no idempotency key.
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
        let invocation = Invocation {
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
        assert_eq!(invocation.as_dry_run(), format!("{call} --dry-run"));
        assert_eq!(invocation.without_approval(), format!("{call} --idempotency-key 'k 1'"));
        assert_eq!(
            invocation.after_approval(&id),
            format!(
                "mcpproxy --home '/my data' approvals wait {id} && {call} --idempotency-key 'k 1' --approval-id {id}"
            )
        );
        assert_eq!(
            invocation.with_variant(Variant::Destructive),
            format!(
                "mcpproxy --home '/my data' call tool-destructive fx:send {args} --idempotency-key 'k 1' --approval-id {id}"
            )
        );
    }
}
