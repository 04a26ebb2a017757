//! `approvals list`: lists approval requests and, with `--watch`, follows them.

use clap::{Args, ValueEnum};
use http::Method;
use mcpproxy_core::{ApprovalState, ToolName};
use serde_json::Value;

use super::watch;
use super::words::{NONE, array, left, now_ms, of_risk, query, risk_words, state, state_words, text, time_ms};
use crate::client::Rest;
use crate::commands::names;
use crate::exit::Exit;
use crate::home::Home;
use crate::runtime::EndSignal;
use crate::terminal::listing::Cell;
use crate::terminal::output::{self, Format};
use crate::terminal::style::of_state;

const PATH: &str = "/api/v1/approvals";
const HEADER: [&str; 6] = ["ID", "STATE", "RISK", "AGENT", "LEFT", "TOOL"];

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only requests in this state
    #[arg(long, value_enum, value_name = "STATE", default_value = "pending")]
    pub(super) state: State,
    /// Only calls of this agent
    #[arg(long, value_name = "NAME", add = names::agents())]
    agent: Option<String>,
    /// Only calls of this tool, as `server:tool`
    #[arg(long, value_name = "NAME", value_parser = ToolName::parse, add = names::tools())]
    tool: Option<ToolName>,
    /// Maximum number of requests
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Cursor from the previous page
    #[arg(long, value_name = "CURSOR", conflicts_with = "watch")]
    cursor: Option<String>,
    /// Keep running and print each request when it is made and when it is decided
    #[arg(long)]
    watch: bool,
}

/// The state of an approval request, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    Pending,
    Approved,
    Consumed,
    Denied,
    Expired,
    Cancelled,
    All,
}

impl State {
    pub(super) fn wanted(self) -> Option<ApprovalState> {
        match self {
            Self::Pending => Some(ApprovalState::Pending),
            Self::Approved => Some(ApprovalState::Approved),
            Self::Consumed => Some(ApprovalState::Consumed),
            Self::Denied => Some(ApprovalState::Denied),
            Self::Expired => Some(ApprovalState::Expired),
            Self::Cancelled => Some(ApprovalState::Cancelled),
            Self::All => None,
        }
    }
}

impl List {
    pub(super) fn path(&self, state: Option<ApprovalState>) -> String {
        let (limit, tool) = (self.limit.to_string(), self.tool.as_ref().map(ToString::to_string));
        query(
            PATH,
            &[
                ("state", state.map(ApprovalState::as_str)),
                ("agent", self.agent.as_deref()),
                ("tool", tool.as_deref()),
                ("limit", Some(&limit)),
                ("cursor", self.cursor.as_deref()),
            ],
        )
    }
}

pub(super) async fn run(home: &Home, format: Format, list: &List) -> anyhow::Result<Exit> {
    if list.watch {
        let end = EndSignal::listen()?;
        return tokio::select! {
            () = end.wait() => Ok(Exit::Done),
            failed = watch::follow(home, format, list) => failed.map(|()| Exit::Done),
        };
    }
    let rest = Rest::connect(home)?;
    let page = rest.ask(Method::GET, &list.path(list.state.wanted())).await?;
    format.print(&page, || {
        let approvals = array(&page, "approvals");
        if approvals.is_empty() { nothing(list.state) } else { table(approvals, now_ms()) }
    })?;
    if let Some(next) = page.get("next").and_then(Value::as_str).filter(|_| format == Format::Table) {
        output::tell(&format!("More requests: add --cursor {}", output::line(next)));
    }
    Ok(Exit::Done)
}

fn nothing(state: State) -> String {
    match state {
        State::Pending => "No call waits for an approval.\n".to_owned(),
        State::All => "No call has needed an approval yet.\n".to_owned(),
        State::Approved | State::Consumed | State::Denied | State::Expired | State::Cancelled => {
            "No approval requests in this state.\n".to_owned()
        }
    }
}

fn table(approvals: &[Value], now_ms: i64) -> String {
    let row = |approval: &Value| {
        let [id, state, risk, agent, left, tool] = cells(approval, now_ms);
        let state = Cell::new(state, of_state(&text(approval, "state")));
        let risk = Cell::new(risk, of_risk(approval));
        vec![id.into(), state, risk, agent.into(), left.into(), tool.into()]
    };
    output::table(&HEADER, approvals.iter().map(row))
}

pub(super) fn cells(approval: &Value, now_ms: i64) -> [String; 6] {
    let state = state(approval);
    let is_open = matches!(state, Some(ApprovalState::Pending | ApprovalState::Approved));
    let left = time_ms(approval, "expires").filter(|_| is_open).map_or(NONE.to_owned(), |until| left(until, now_ms));
    [
        // `call --approval-id` takes the whole id.
        text(approval, "id"),
        state.map_or_else(|| text(approval, "state"), |state| state_words(state).to_owned()),
        risk_words(approval),
        text(approval, "agent"),
        left,
        text(approval, "tool"),
    ]
}
