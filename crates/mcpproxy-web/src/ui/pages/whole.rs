//! The full call as plain text: all arguments, all changes, and the whole preview.

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::{ApprovalState, ToolName, canonical};
use mcpproxy_gateway::ApprovalView;

use super::confirm::preview_text;
use super::labels::verb;
use crate::diff::{Audience, Change, Row, WHOLE_ROWS, arguments};
use crate::visible::plain;

/// Formats the full call for the approver only, because nothing is masked while the request is pending. Afterwards
/// sensitive values are masked here too.
pub(crate) fn whole(view: &ApprovalView) -> String {
    let approval = &view.approval;
    let tool: &ToolName = &approval.tool;
    let mut text = format!(
        "Approval request {}: agent {} {} {}.\nInvisible and control characters are shown as \\u{{…}}.\n",
        approval.id,
        plain(&approval.agent),
        verb(approval.state),
        plain(&tool.to_string())
    );
    let diff = arguments(view, Audience::Approver, WHOLE_ROWS);
    text.push_str(match view.previous {
        Some(_) => "\nARGUMENTS, value by value, and what changed since the last approved call\n",
        None => "\nARGUMENTS, value by value\n",
    });
    diff.rows.iter().for_each(|row| text.push_str(&line(row)));
    if diff.left_out > 0 {
        text.push_str(&format!("  … and {} more; see the full arguments below\n", diff.left_out));
    }
    text.push_str(&format!("\nARGUMENTS, {}\n", arguments_heading(view)));
    text.push_str(&format!("  {}\n", plain(view.args_for_user.for_json())));
    if let Some(attached) = &view.attached_for_user {
        text.push_str("\nIN ADDITION TO THE ARGUMENTS (inputResponses answer the server's questions)\n");
        text.push_str(&format!("  {}\n", plain(&canonical(attached.for_json()))));
    }
    if let Some(dry_run) = &view.dry_run {
        text.push_str(match dry_run.is_native {
            true => "\nDRY RUN, from the server (not verified)\n",
            false => "\nDRY RUN, derived by the gateway from the contract\n",
        });
        // Indented, so that a preview cannot fake a heading.
        for line in preview_text(dry_run).split('\n') {
            text.push_str(&format!("  {}\n", plain(line)));
        }
    }
    text
}

/// Says what became of the arguments. Only a call that ran was sent.
fn arguments_heading(view: &ApprovalView) -> &'static str {
    match view.approval.state {
        ApprovalState::Pending => "as the server gets them if you approve",
        ApprovalState::Approved => "as approved, sensitive values masked",
        ApprovalState::Consumed => "as sent to the server, sensitive values masked",
        ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled => {
            "as requested, never sent to the server, sensitive values masked"
        }
    }
}

fn line(row: &Row) -> String {
    let place = if row.pointer.is_empty() { "(all)".to_owned() } else { plain(&row.pointer) };
    match &row.change {
        Change::Unchanged(value) => format!("  {place}: {}\n", shown(value)),
        Change::Unknown(value) => format!("? {place}: {} (may have changed)\n", shown(value)),
        Change::Differs(value) => format!("~ {place}: {} (changed; the previous value was not stored)\n", shown(value)),
        Change::Added(value) => format!("+ {place}: {}\n", shown(value)),
        Change::Removed(value) => format!("- {place}: {}\n", shown(value)),
        Change::Changed { before, after } => format!("~ {place}: {}\n      now: {}\n", shown(before), shown(after)),
    }
}

/// Removes needless escapes: `\u0065` hides a plain letter.
fn shown(value: &str) -> String {
    plain(&string_value(value).map_or_else(|| value.to_owned(), |text| quote(&text)))
}
