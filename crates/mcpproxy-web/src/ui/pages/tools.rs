//! The content of the pages below `/ui/tools`.

pub(crate) mod change;
pub(crate) mod condition;
pub(crate) mod contract;
pub(crate) mod dry_run;
pub(crate) mod explained;
pub(crate) mod found;
pub(crate) mod one;
pub(crate) mod parameters;
pub(crate) mod ran;
pub(crate) mod rule;
pub(crate) mod text_diff;
pub(crate) mod typed;

use std::sync::Arc;

use askama::Template;
use mcpproxy_core::contract::{Effective, Source};
use mcpproxy_core::trust::Held;
use mcpproxy_core::{RiskLevel, ServerName, Tool, Untrusted, Variant};
use mcpproxy_gateway::{ListedTool, SearchResults, StatedRisk};

use super::labels::{self, Risk, level_word};
use super::{Frame, filters};
use crate::visible::Visible;
use found::FoundTool;

/// Rows of one page. Servers can have 10,000 tools.
const PAGE_ROWS: usize = 100;
const BRIEF_CHARS: usize = 140;
/// Tools in the result of a search. Agents get five, unless they ask for more.
pub(crate) const FOUND_MAX: usize = 10;
/// The value of the filter for tools without a risk level.
const UNCLASSIFIED: &str = "unclassified";

/// The search and the filters, from the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) query: String,
    pub(crate) server: String,
    pub(crate) risk: String,
    /// The number of the page, from 0.
    pub(crate) page: usize,
}

impl Selection {
    pub(crate) fn of(fields: &[(String, String)]) -> Self {
        let text = |name: &str| {
            let found = fields.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        Self { query: text("q"), server: text("server"), risk: text("risk"), page: text("page").parse().unwrap_or(0) }
    }

    fn admits(&self, tool: &ListedTool) -> bool {
        let fits_risk = match (self.risk.as_str(), tool) {
            ("", _) | ("quarantined", ListedTool::Quarantined(..)) => true,
            ("quarantined", _) | (_, ListedTool::Quarantined(..)) => false,
            (word, ListedTool::Visible(tool) | ListedTool::Forbidden(tool)) => level_of(&tool.contract) == word,
        };
        fits_risk && (self.server.is_empty() || tool.name().server().as_str() == self.server)
    }

    fn href(&self, page: usize) -> String {
        let encoded = |text: &str| crate::visible::url_part(text);
        format!("/ui/tools?server={}&risk={}&page={page}", encoded(&self.server), encoded(&self.risk))
    }
}

#[derive(Template)]
#[template(path = "tools.html")]
pub(crate) struct Tools {
    pub(crate) frame: Frame,
    pub(crate) query: String,
    pub(crate) servers: Vec<Choice>,
    pub(crate) risks: Vec<Choice>,
    pub(crate) groups: Vec<Group>,
    pub(crate) found: Vec<FoundTool>,
    pub(crate) note: Option<Visible>,
    /// The number of tools that match, and the numbers of the first and last one on this page.
    pub(crate) count: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) earlier: Option<String>,
    pub(crate) later: Option<String>,
    pub(crate) has_filter: bool,
}

/// One option of a filter.
pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) word: String,
    pub(crate) is_chosen: bool,
}

impl Choice {
    pub(crate) fn new(value: &str, word: &str, chosen: &str) -> Self {
        Self { value: value.to_owned(), word: word.to_owned(), is_chosen: value == chosen }
    }
}

/// The tools of one server.
pub(crate) struct Group {
    pub(crate) server: String,
    pub(crate) rows: Vec<ToolRow>,
    /// True if all levels are the server's own. Then the group says so, and not each row.
    pub(crate) is_rated_by_server: bool,
}

impl Group {
    fn say_source_once(&mut self) {
        self.is_rated_by_server = labels::say_source_once(self.rows.iter_mut().map(|row| &mut row.risk));
        for row in self.rows.iter_mut().filter(|_| self.is_rated_by_server) {
            row.rated_by = String::new();
        }
    }
}

pub(crate) struct ToolRow {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) description: Visible,
    pub(crate) risk: Risk,
    /// `Read`, `Write` or `Destructive`, or why agents cannot see the tool.
    pub(crate) variant: &'static str,
    pub(crate) rated_by: String,
    pub(crate) is_hidden: bool,
}

impl Tools {
    pub(crate) fn list(frame: Frame, tools: Vec<ListedTool>, servers: &[ServerName], selection: Selection) -> Self {
        let matching: Vec<ListedTool> = tools.into_iter().filter(|tool| selection.admits(tool)).collect();
        let pages = matching.len().div_ceil(PAGE_ROWS);
        let page = selection.page.min(pages.saturating_sub(1));
        let shown: Vec<&ListedTool> = matching.iter().skip(page * PAGE_ROWS).take(PAGE_ROWS).collect();
        let mut groups: Vec<Group> = Vec::new();
        for tool in &shown {
            let server = tool.name().server().as_str();
            if groups.last().is_none_or(|group| group.server != server) {
                groups.push(Group { server: server.to_owned(), rows: Vec::new(), is_rated_by_server: false });
            }
            if let Some(group) = groups.last_mut() {
                group.rows.push(ToolRow::new(tool));
            }
        }
        groups.iter_mut().for_each(Group::say_source_once);
        Self {
            groups,
            count: matching.len(),
            first: page * PAGE_ROWS + 1,
            last: page * PAGE_ROWS + shown.len(),
            earlier: (page > 0).then(|| selection.href(page - 1)),
            later: (page + 1 < pages).then(|| selection.href(page + 1)),
            ..Self::framed(frame, servers, selection)
        }
    }

    /// `contract` finds the effective contract of a tool by its name.
    pub(crate) fn found(
        frame: Frame,
        found: SearchResults,
        contract: impl Fn(&str) -> Option<Arc<Tool>>,
        servers: &[ServerName],
        selection: Selection,
    ) -> Self {
        let note = found.note.as_deref().map(Visible::of);
        let found = found.tools.into_iter().filter_map(|(tool, why)| {
            let contract = contract(tool.get("name")?.as_str()?)?;
            let is_wanted = selection.risk.is_empty() || level_of(&contract.contract) == selection.risk;
            FoundTool::new(&tool, why, risk_of(&contract.contract)).filter(|_| is_wanted)
        });
        let found = found.take(FOUND_MAX).collect();
        Self { note, found, ..Self::framed(frame, servers, selection) }
    }

    fn framed(frame: Frame, servers: &[ServerName], selection: Selection) -> Self {
        let server = |name: &ServerName| Choice::new(name.as_str(), name.as_str(), &selection.server);
        let all = Choice::new("", "All servers", &selection.server);
        let levels = RiskLevel::ALL.map(|level| (level.as_str(), level_word(level)));
        let others = [(UNCLASSIFIED, "Unclassified"), ("quarantined", "Quarantined")];
        let risks = std::iter::once(("", "Any risk")).chain(levels).chain(others);
        Self {
            frame,
            servers: std::iter::once(all).chain(servers.iter().map(server)).collect(),
            risks: risks.map(|(value, word)| Choice::new(value, word, &selection.risk)).collect(),
            groups: Vec::new(),
            found: Vec::new(),
            note: None,
            count: 0,
            first: 0,
            last: 0,
            earlier: None,
            later: None,
            has_filter: !selection.server.is_empty() || !selection.risk.is_empty(),
            query: selection.query,
        }
    }
}

impl ToolRow {
    fn new(tool: &ListedTool) -> Self {
        let name = tool.name();
        let href = format!("/ui/tools/{}/{}", name.server(), name.tool());
        match tool {
            ListedTool::Visible(tool) => Self::of_tool(href, tool, variant_word(tool.call_with()), false),
            ListedTool::Forbidden(tool) => Self::of_tool(href, tool, "Hidden from agents", true),
            ListedTool::Quarantined(name, why) => Self {
                href,
                name: name.tool().to_owned(),
                description: Visible::of(quarantined_words(why.reason)),
                risk: Risk::QUARANTINED,
                variant: "Hidden until reviewed",
                rated_by: String::new(),
                is_hidden: true,
            },
        }
    }

    fn of_tool(href: String, tool: &Tool, variant: &'static str, is_hidden: bool) -> Self {
        let description = Untrusted::shortened(tool.offered.description.for_json(), BRIEF_CHARS);
        Self {
            href,
            name: tool.name.tool().to_owned(),
            description: Visible::untrusted(&description),
            risk: risk_of(&tool.contract),
            variant,
            rated_by: rated_by(&tool.contract),
            is_hidden,
        }
    }
}

pub(crate) fn risk_of(contract: &Effective) -> Risk {
    StatedRisk::of_contract(contract).into()
}

/// Returns the risk level as the filter names it, whoever gave it.
fn level_of(contract: &Effective) -> &'static str {
    contract.risk().map_or(UNCLASSIFIED, RiskLevel::as_str)
}

/// Names the place of the risk level: `rated in contracts/mail.yaml:4`. The risk itself says if it is the server's.
fn rated_by(contract: &Effective) -> String {
    match contract.risk.as_ref().map(|risk| &risk.source) {
        Some(Source::Operator { file, line, is_draft }) => {
            let draft = if *is_draft { " (draft)" } else { "" };
            format!("rated in {}:{line}{draft}", Untrusted::new(file.as_ref()).for_terminal())
        }
        Some(Source::Server | Source::Hints | Source::Level | Source::Default) => "not verified".to_owned(),
        None => String::new(),
    }
}

pub(crate) fn variant_word(variant: Variant) -> &'static str {
    match variant {
        Variant::Read => "Read",
        Variant::Write => "Write",
        Variant::Destructive => "Destructive",
    }
}

pub(crate) fn quarantined_words(reason: Held) -> &'static str {
    match reason {
        Held::FirstSight => "The server is new, and no user has reviewed its tools.",
        Held::New => "The server has added this tool, and no user has reviewed it.",
        Held::Changed => "The server has changed this tool, and no user has reviewed the change.",
        Held::Suspicious => "The scan found something severe in its definition.",
        Held::Rejected => "A user has rejected its definition.",
        Held::NotLocked => "The lock file does not have this version of the tool.",
        Held::Unreadable => "Its accepted definition cannot be read from the database.",
    }
}

#[cfg(test)]
mod tests;
