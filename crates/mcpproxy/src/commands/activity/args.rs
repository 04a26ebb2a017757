//! Arguments that select records.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use mcpproxy_core::{RiskLevel, Sensitivity};
use mcpproxy_store::{Filter, Kind, Status};

use crate::commands::args::VariantArg;
use crate::commands::names;
use crate::exit::{Exit, Failure};

/// Filters on the fields of a record.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct Matching {
    /// Only calls with this intent
    #[arg(long, value_enum, value_name = "INTENT")]
    intent_type: Option<VariantArg>,
    /// Only records of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = words(Kind::ALL.map(Kind::as_str), Kind::parse))]
    kind: Option<Kind>,
    /// Only records with this status
    #[arg(long, value_name = "STATUS", value_parser = words(Status::ALL.map(Status::as_str), Status::parse))]
    status: Option<Status>,
    /// Only records of this server
    #[arg(long, value_name = "NAME", add = names::servers())]
    server: Option<String>,
    /// Only calls of this tool, as `tool` or `server:tool`
    #[arg(long, value_name = "NAME", add = names::tools())]
    tool: Option<String>,
    /// Only records of this agent
    #[arg(long, value_name = "NAME", add = names::agents())]
    agent: Option<String>,
    /// Only calls of tools with this risk level
    #[arg(long, value_name = "RISK", value_parser = words(RiskLevel::ALL.map(RiskLevel::as_str), RiskLevel::parse))]
    risk: Option<RiskLevel>,
    /// Only calls for which the agent declared this sensitivity
    #[arg(long, value_name = "SENSITIVITY", value_parser = words(Sensitivity::ALL.map(Sensitivity::as_str), Sensitivity::from_word))]
    sensitivity: Option<Sensitivity>,
    /// Only calls of tools whose contract has this category
    #[arg(long, value_name = "WORD")]
    category: Option<String>,
    /// Only records with this code, such as `policy_violation`
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only dry runs; `--dry-run=false` leaves them out
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dry_run: Option<bool>,
    /// Only answers that were given again to a repeated call; `--replayed=false` leaves them out
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    replayed: Option<bool>,
    /// Only records that contain this text in a name, code, message or note, ignoring case
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
}

/// Filters on the time of a record.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct Within {
    /// Start of the period: `2h`, `7d`, `2026-01-31` or `2026-01-31T10:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<Timestamp>,
    /// End of the period
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) until: Option<Timestamp>,
}

impl Matching {
    pub(super) fn filter(&self, within: &Within) -> Result<Filter, Failure> {
        within.check()?;
        // Records store the server and the tool in separate fields.
        let (server, tool) = match self.tool.as_deref().map(|name| name.split_once(':').unwrap_or(("", name))) {
            Some(("", tool)) => (None, Some(tool)),
            Some((server, tool)) => (Some(server), Some(tool)),
            None => (None, None),
        };
        if let (Some(asked), Some(named)) = (self.server.as_deref(), server)
            && asked != named
        {
            return Err(Failure::new(Exit::Usage, "--server and --tool name different servers"));
        }
        Ok(Filter {
            intent_type: self.intent_type.map(Into::into),
            kind: self.kind,
            status: self.status,
            server: self.server.as_deref().or(server).map(str::to_owned),
            tool: tool.map(str::to_owned),
            agent: self.agent.clone(),
            risk: self.risk,
            sensitivity: self.sensitivity,
            category: self.category.clone(),
            code: self.code.clone(),
            dry_run: self.dry_run,
            replayed: self.replayed,
            since_ms: within.since.map(Timestamp::as_millisecond),
            until_ms: within.until.map(Timestamp::as_millisecond),
            text: self.query.clone(),
        })
    }
}

impl Within {
    pub(super) fn check(&self) -> Result<(), Failure> {
        match (self.since, self.until) {
            (Some(since), Some(until)) if since > until => {
                Err(Failure::new(Exit::Usage, "--since is later than --until, so no record can match"))
            }
            _ => Ok(()),
        }
    }
}

/// Parses one of these words. The error for any other word lists all of them.
fn words<T: Clone + Send + Sync + 'static>(
    all: impl IntoIterator<Item = &'static str>,
    parse: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all).try_map(move |word| parse(&word).ok_or("unknown word"))
}

pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    time_before(text, Timestamp::now())
        .ok_or_else(|| "expected a time such as 2h, 7d, 2026-01-31 or 2026-01-31T10:00:00Z".to_owned())
}

/// Parses a point in time, or a duration before `now`.
fn time_before(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    if let Ok(time) = text.parse::<jiff::civil::DateTime>() {
        return time.to_zoned(TimeZone::system()).ok().map(|time| time.timestamp());
    }
    let span: Span = text.parse().ok().filter(|span: &Span| !span.is_negative())?;
    // The length of a day depends on the calendar.
    now.to_zoned(TimeZone::UTC).checked_sub(span).ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let time = time_before(text, now).map(|time| time.to_string());
            assert_eq!(time.as_deref(), expected, "{text}");
        };
        check("2h", Some("2026-03-10T10:00:00Z"));
        check("7d", Some("2026-03-03T12:00:00Z"));
        check("1h30m", Some("2026-03-10T10:30:00Z"));
        check("2026-01-31T10:00:00Z", Some("2026-01-31T10:00:00Z"));
        check("2026-01-31T10:00:00+02:00", Some("2026-01-31T08:00:00Z"));
        check("yesterday", None);
        check("", None);
        check("-2h", None);
        check("99999999999y", None);
    }

    #[test]
    fn a_tool_may_name_its_server() {
        let check = |server: Option<&str>, tool: &str, expected: Option<(Option<&str>, &str)>| {
            let matching = Matching { server: server.map(Into::into), tool: Some(tool.into()), ..Matching::default() };
            let filter = matching.filter(&Within::default()).ok().map(|filter| (filter.server, filter.tool.unwrap()));
            assert_eq!(filter, expected.map(|(server, tool)| (server.map(str::to_owned), tool.to_owned())));
        };
        check(None, "list", Some((None, "list")));
        check(None, "git:list", Some((Some("git"), "list")));
        check(Some("git"), "list", Some((Some("git"), "list")));
        check(Some("git"), "git:list", Some((Some("git"), "list")));
        check(Some("docs"), "git:list", None);
    }
}
