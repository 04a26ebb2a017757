//! `approvals grants` and `approvals revoke`: lists and revokes standing approvals.

use http::Method;
use serde_json::Value;

use super::find::only_one;
use super::words::{NONE, array, left, now_ms, query, text, time_ms};
use crate::client::Rest;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format, line};

const PATH: &str = "/api/v1/grants";

pub(super) async fn list(home: &Home, format: Format, all: bool) -> anyhow::Result<Exit> {
    let grants = ask(&Rest::connect(home)?, all).await?;
    format.print(&grants, || table(array(&grants, "grants"), now_ms()))?;
    Ok(Exit::Done)
}

async fn ask(rest: &Rest, all: bool) -> anyhow::Result<Value> {
    rest.ask(Method::GET, &query(PATH, &[("all", all.then_some("true"))])).await
}

fn table(grants: &[Value], now_ms: i64) -> String {
    if grants.is_empty() {
        return "No standing approvals.\n".to_owned();
    }
    let row = |grant: &Value| {
        let left = match text(grant, "state").as_str() {
            "active" => time_ms(grant, "expires").map_or(NONE.to_owned(), |until| left(until, now_ms)),
            _ => NONE.to_owned(),
        };
        vec![
            text(grant, "id"),
            text(grant, "state"),
            text(grant, "agent"),
            left,
            format!("{} of {}", text(grant, "uses_left"), text(grant, "uses")),
            text(grant, "by"),
            text(grant, "tool"),
            text(grant, "schema"),
        ]
    };
    let header = ["ID", "STATE", "AGENT", "LEFT", "USES LEFT", "BY", "TOOL", "ARGUMENTS"];
    output::table(&header, grants.iter().map(row))
}

pub(super) async fn revoke(home: &Home, format: Format, given: &str) -> anyhow::Result<Exit> {
    let rest = Rest::connect(home)?;
    let grants = ask(&rest, true).await?;
    let ids = array(&grants, "grants").iter().filter_map(|grant| grant.get("id")?.as_str());
    let id = only_one(given, ids, none)?;
    let revoked = rest.ask(Method::DELETE, &format!("{PATH}/{id}")).await?;
    match format {
        Format::Table => output::tell(&format!("Revoked {}.", line(id))),
        Format::Json | Format::Yaml => format.print(&revoked, String::new)?,
    }
    Ok(Exit::Done)
}

fn none(given: &str) -> Failure {
    Failure::new(Exit::Failed, format!("No standing approval starts with `{}`.", line(given)))
        .hint("list all ids with `mcpproxy approvals grants --all`")
}
