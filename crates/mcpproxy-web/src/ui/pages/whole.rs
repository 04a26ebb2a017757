//! Everything of a call that may not fit its page, as plain text: all arguments, what changed, and the whole preview.

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::{ToolName, canonical};
use mcpproxy_gateway::ApprovalView;

use super::confirm::preview_text;
use crate::diff::{Audience, Change, Row, WHOLE_ROWS, arguments};
use crate::visible::plain;

/// Nothing in it is masked while there is something to decide, so it is for the user who decides alone.
pub(crate) fn whole(view: &ApprovalView) -> String {
    let approval = &view.approval;
    let tool: &ToolName = &approval.tool;
    let mut text = format!(
        "Approval {}: agent {} wants to run {}.\nWhat hides or acts in words of others is written as \\u{{…}}.\n",
        approval.id,
        plain(&approval.agent),
        plain(&tool.to_string())
    );
    let diff = arguments(view, Audience::Approver, WHOLE_ROWS);
    text.push_str(match view.previous {
        Some(_) => "\nARGUMENTS, value by value, and what changed since the last approved call\n",
        None => "\nARGUMENTS, value by value\n",
    });
    diff.rows.iter().for_each(|row| text.push_str(&line(row)));
    if diff.left_out > 0 {
        text.push_str(&format!("  … and {} more, which are below in what is sent\n", diff.left_out));
    }
    text.push_str("\nARGUMENTS, as they are sent\n");
    text.push_str(&format!("  {}\n", plain(view.args_for_user.for_json())));
    if let Some(attached) = &view.attached_for_user {
        text.push_str("\nSENT BESIDES THE ARGUMENTS (inputResponses are answers to questions of the server)\n");
        text.push_str(&format!("  {}\n", plain(&canonical(attached.for_json()))));
    }
    if let Some(dry_run) = &view.dry_run {
        text.push_str(match dry_run.is_native {
            true => "\nDRY RUN, says the server (not verified)\n",
            false => "\nDRY RUN, made by the gateway from the contract\n",
        });
        // Headings are ours: nothing of others begins a line.
        for line in preview_text(dry_run).split('\n') {
            text.push_str(&format!("  {}\n", plain(line)));
        }
    }
    text
}

fn line(row: &Row) -> String {
    let place = if row.pointer.is_empty() { "(all)".to_owned() } else { plain(&row.pointer) };
    match &row.change {
        Change::Unchanged(value) => format!("  {place}: {}\n", shown(value)),
        Change::Unknown(value) => format!("? {place}: {} (may have changed)\n", shown(value)),
        Change::Differs(value) => format!("~ {place}: {} (changed; what it was is not kept)\n", shown(value)),
        Change::Added(value) => format!("+ {place}: {}\n", shown(value)),
        Change::Removed(value) => format!("- {place}: {}\n", shown(value)),
        Change::Changed { before, after } => format!("~ {place}: {}\n      now: {}\n", shown(before), shown(after)),
    }
}

/// A text with no escapes but those that it needs: letters can be written as numbers that nobody reads.
fn shown(value: &str) -> String {
    plain(&string_value(value).map_or_else(|| value.to_owned(), |text| quote(&text)))
}
