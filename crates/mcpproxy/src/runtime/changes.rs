//! Prints one line on standard error of the gateway for each change of its state: reloads, servers that go up or down,
//! and definitions that wait for a review.
//!
//! The lines are for a person who watches a terminal, so their number is limited ([`Throttle`]). A server that restarts
//! in a loop gets a few lines a minute, and the same failure is not repeated until the server was up again. Nothing is
//! lost: the activity log has every change, and `servers logs` the output of a server.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use mcpproxy_core::ServerName;
use mcpproxy_core::review::lint::Finding;
use mcpproxy_gateway::{Gateway, GatewayEvent, StateName};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::terminal::output::{counted, counted_as, line, sentence, tell};

/// Lines of one server in [`SERVER_WINDOW`].
const SERVER_LINES: usize = 4;
const SERVER_WINDOW: Duration = Duration::from_secs(60);
/// Lines of all servers in [`ALL_WINDOW`].
const ALL_LINES: usize = 40;
const ALL_WINDOW: Duration = Duration::from_secs(10);
/// Lines about contracts without a tool after one change.
const UNMATCHED_LINES: usize = 5;

/// Prints changes until dropped. `events` may have been opened earlier, so that none is missed.
pub(crate) async fn follow(gateway: &Gateway, mut events: Receiver<GatewayEvent>) {
    // Servers that were misconfigured from the start are no change.
    for status in gateway.servers().into_iter().filter(|status| status.state == StateName::Misconfigured) {
        tell(&misconfigured(&status.name, &status.reason.unwrap_or_default()));
    }
    let (mut throttle, mut unmatched, mut is_look_due) = (Throttle::default(), Unmatched::default(), false);
    loop {
        match events.recv().await {
            Ok(event) => {
                throttle.lines(&event, Instant::now()).iter().for_each(|line| tell(line));
                is_look_due |= may_change_matches(&event);
            }
            Err(RecvError::Lagged(missed)) => {
                throttle.hidden = throttle.hidden.saturating_add(usize::try_from(missed).unwrap_or(usize::MAX));
                // One of the missed events may have been a reload.
                is_look_due = true;
            }
            Err(RecvError::Closed) => return std::future::pending().await,
        }
        // The snapshot is complete before its event is sent. Events that wait together share one look.
        if is_look_due && events.is_empty() {
            is_look_due = false;
            unmatched.lines(gateway.unmatched_contracts()).iter().for_each(|line| tell(line));
        }
    }
}

/// Returns true if other contracts may match no tool now: after a server connects, and after contracts change.
fn may_change_matches(event: &GatewayEvent) -> bool {
    match event {
        GatewayEvent::Up { .. } => true,
        GatewayEvent::Reloaded(summary) => summary.contracts,
        GatewayEvent::Refused(_)
        | GatewayEvent::Held(_)
        | GatewayEvent::Drift(_)
        | GatewayEvent::Quarantined { .. }
        | GatewayEvent::NotLocked { .. }
        | GatewayEvent::Unreviewed { .. }
        | GatewayEvent::Down { .. }
        | GatewayEvent::Misconfigured { .. } => false,
    }
}

/// Words contracts that match no tool, each of them once. A typing mistake in a contract leaves the tool without it.
#[derive(Default)]
struct Unmatched {
    told: BTreeSet<String>,
}

impl Unmatched {
    fn lines(&mut self, findings: Vec<Finding>) -> Vec<String> {
        let words = |finding: &Finding| {
            let place = finding.place.as_ref().map(|(file, at)| format!(" ({file}:{at})")).unwrap_or_default();
            let (subject, message) = (line(&finding.subject), sentence(&line(&finding.message)));
            format!("! The contract for {subject}{} has no effect: {message} Fix: {}", line(&place), line(&finding.fix))
        };
        let all: BTreeSet<String> = findings.iter().map(words).collect();
        let new: Vec<String> = all.difference(&self.told).cloned().collect();
        self.told = all;
        let more = new.len().saturating_sub(UNMATCHED_LINES);
        let rest = (more > 0).then(|| format!("… {}. See `mcpproxy contract lint`.", counted(more, "more contract")));
        new.into_iter().take(UNMATCHED_LINES).chain(rest).collect()
    }
}

/// Words a change.
fn words(event: &GatewayEvent) -> String {
    match event {
        GatewayEvent::Reloaded(summary) => format!("↻ reloaded: {summary}"),
        GatewayEvent::Refused(reason) => {
            let reason = reason.lines().map(line).collect::<Vec<_>>().join("; ");
            let reason = sentence(&reason);
            format!("✗ Settings not reloaded: {reason} The previous settings, contracts and policies remain active.")
        }
        GatewayEvent::Held(changes) => format!(
            "! Not applied, because it weakens contracts, policies or settings: {} Run `mcpproxy config apply` to confirm it.",
            sentence(&line(changes))
        ),
        GatewayEvent::Drift(lines) if lines.is_empty() => {
            "✓ All gateways run the same version with the same settings, contracts and policies.".to_owned()
        }
        GatewayEvent::Drift(lines) => {
            let lines: Vec<String> = lines.iter().map(|text| line(text)).collect();
            format!("! {} Run `mcpproxy status` to see what to do.", lines.join(" "))
        }
        GatewayEvent::Quarantined { server, count, is_first, summary } => {
            let new = if *is_first { " is new" } else { "" };
            let wait = counted_as(*count, "definition waits", "definitions wait");
            let summary = sentence(&line(summary));
            format!("! {server}{new}: {wait} for a review: {summary} Run `mcpproxy servers review {server}`.")
        }
        GatewayEvent::NotLocked { server, count, summary } => {
            let lacks = counted_as(*count, "definition is", "definitions are");
            let summary = sentence(&line(summary));
            format!(
                "! {server}: {lacks} quarantined and not in the lock file: {summary} To accept, run `mcpproxy lock` with a \
                 gateway without `--locked`."
            )
        }
        GatewayEvent::Unreviewed { server, count, summary } => {
            let shown = counted_as(*count, "changed definition is", "changed definitions are");
            let summary = sentence(&line(summary));
            format!(
                "! {server}: {shown} shown to agents without a review: {summary} Set `trust.changes` to `review` to hold \
                 changes."
            )
        }
        GatewayEvent::Up { server, tools, unasked } => {
            format!("✓ {server} is ready: {}{}", counted(*tools, "tool"), unasked_words(server, *unasked))
        }
        GatewayEvent::Down { server, reason, hint } => {
            let down = format!("✗ {server} is down: {}", line(reason));
            match hint {
                Some(hint) => format!("{} {}", sentence(&down), line(hint)),
                None => down,
            }
        }
        GatewayEvent::Misconfigured { server, reason } => misconfigured(server, reason),
    }
}

/// Says that destructive tools run without an approval. The settings may have been pasted, so no command has said it.
fn unasked_words(server: &ServerName, unasked: usize) -> String {
    if unasked == 0 {
        return String::new();
    }
    let tools = counted_as(unasked, "destructive tool runs", "destructive tools run");
    format!(" · {tools} without an approval; classify with `mcpproxy contract draft {server}`")
}

fn misconfigured(server: &ServerName, reason: &str) -> String {
    format!("✗ {server} is misconfigured: {}", line(reason))
}

/// Limits the number of lines.
#[derive(Default)]
struct Throttle {
    all: VecDeque<Instant>,
    servers: HashMap<ServerName, ServerLines>,
    /// Changes that were not printed since the last line.
    hidden: usize,
}

#[derive(Default)]
struct ServerLines {
    printed: VecDeque<Instant>,
    /// The last reason, until the server is up again.
    reason: Option<String>,
}

impl Throttle {
    /// Returns the lines to print for a change: none, one, or two after changes that were not printed.
    fn lines(&mut self, event: &GatewayEvent, now: Instant) -> Vec<String> {
        let mut text = words(event);
        match self.server(event, now) {
            ServerLine::Repeated => return Vec::new(),
            ServerLine::TooMany => {
                self.hidden += 1;
                return Vec::new();
            }
            ServerLine::Last(server) => {
                text = sentence(&text);
                text.push_str(&format!(
                    " {server} changes often, so its next changes are not shown for a while. See `mcpproxy servers logs {server}`."
                ));
            }
            ServerLine::Free => {}
        }
        if !admit(&mut self.all, ALL_LINES, ALL_WINDOW, now) {
            self.hidden += 1;
            return Vec::new();
        }
        let hidden = std::mem::take(&mut self.hidden);
        let before = (hidden > 0)
            .then(|| format!("… {} not shown. See `mcpproxy servers list`.", counted(hidden, "more change")));
        before.into_iter().chain([text]).collect()
    }

    fn server(&mut self, event: &GatewayEvent, now: Instant) -> ServerLine {
        let (server, reason) = match event {
            GatewayEvent::Reloaded(summary) => {
                for name in &summary.removed {
                    self.servers.remove(name);
                }
                return ServerLine::Free;
            }
            GatewayEvent::Refused(_) | GatewayEvent::Held(_) | GatewayEvent::Drift(_) => return ServerLine::Free,
            // It says nothing about the connection.
            GatewayEvent::Quarantined { server, .. }
            | GatewayEvent::NotLocked { server, .. }
            | GatewayEvent::Unreviewed { server, .. } => return self.count(server, now),
            GatewayEvent::Up { server, .. } => (server, None),
            GatewayEvent::Down { server, reason, .. } | GatewayEvent::Misconfigured { server, reason } => {
                (server, Some(reason))
            }
        };
        let lines = self.servers.entry(server.clone()).or_default();
        if reason.is_some() && lines.reason.as_ref() == reason {
            return ServerLine::Repeated;
        }
        lines.reason = reason.cloned();
        self.count(server, now)
    }

    /// Counts a line of a server.
    fn count(&mut self, server: &ServerName, now: Instant) -> ServerLine {
        let lines = self.servers.entry(server.clone()).or_default();
        if !admit(&mut lines.printed, SERVER_LINES, SERVER_WINDOW, now) {
            return ServerLine::TooMany;
        }
        if lines.printed.len() == SERVER_LINES { ServerLine::Last(server.clone()) } else { ServerLine::Free }
    }
}

/// The verdict about a line of one server.
enum ServerLine {
    Free,
    /// The last one for a while.
    Last(ServerName),
    TooMany,
    /// The same failure as before.
    Repeated,
}

/// Counts a line, unless `max` were printed within `window`.
fn admit(printed: &mut VecDeque<Instant>, max: usize, window: Duration, now: Instant) -> bool {
    while printed.front().is_some_and(|at| now.duration_since(*at) >= window) {
        printed.pop_front();
    }
    if printed.len() >= max {
        return false;
    }
    printed.push_back(now);
    true
}

#[cfg(test)]
mod tests {
    use mcpproxy_gateway::ReloadSummary;

    use super::*;

    fn name(name: &str) -> ServerName {
        ServerName::parse(name).unwrap()
    }

    fn up(server: &str) -> GatewayEvent {
        GatewayEvent::Up { server: name(server), tools: 1, unasked: 0 }
    }

    fn down(server: &str, reason: &str) -> GatewayEvent {
        GatewayEvent::Down { server: name(server), reason: reason.to_owned(), hint: None }
    }

    #[test]
    fn changes_are_one_line() {
        assert_eq!(words(&up("demo")), "✓ demo is ready: 1 tool");
        let unasked = |unasked: usize| words(&GatewayEvent::Up { server: name("fx"), tools: 18, unasked });
        assert_eq!(
            unasked(3),
            "✓ fx is ready: 18 tools · 3 destructive tools run without an approval; classify with `mcpproxy contract draft fx`"
        );
        assert!(unasked(1).contains(" · 1 destructive tool runs without an approval; "), "{}", unasked(1));
        let hint = Some("Set X.".to_owned());
        let failed = GatewayEvent::Down { server: name("fx"), reason: "gone\u{1b}[2J".to_owned(), hint };
        assert_eq!(words(&failed), "✗ fx is down: gone\\u{1b}[2J. Set X.");
        let hint = Some("Install it.".to_owned());
        let missing = GatewayEvent::Down { server: name("fx"), reason: "is it on the PATH?".to_owned(), hint };
        assert_eq!(words(&missing), "✗ fx is down: is it on the PATH? Install it.");
        let refused = words(&GatewayEvent::Refused("a:1:2: bad\nb:3:4: worse".to_owned()));
        assert_eq!(
            refused,
            "✗ Settings not reloaded: a:1:2: bad; b:3:4: worse. The previous settings, contracts and policies remain active."
        );
        let held = words(&GatewayEvent::Held("fx:a: riskLevel high → low".to_owned()));
        assert_eq!(
            held,
            "! Not applied, because it weakens contracts, policies or settings: fx:a: riskLevel high → low. Run `mcpproxy config \
             apply` to confirm it."
        );
        let drift =
            words(&GatewayEvent::Drift(vec!["Gateways have different contracts: a has 1; b has 2.".to_owned()]));
        assert_eq!(
            drift,
            "! Gateways have different contracts: a has 1; b has 2. Run `mcpproxy status` to see what to do."
        );
        assert!(words(&GatewayEvent::Drift(Vec::new())).starts_with("✓ All gateways run the same version"));
        let quarantined = |count: usize, is_first: bool| {
            let summary = "tool a\u{1b} (changed: description)".to_owned();
            words(&GatewayEvent::Quarantined { server: name("fx"), count, is_first, summary })
        };
        assert_eq!(
            quarantined(1, false),
            "! fx: 1 definition waits for a review: tool a\\u{1b} (changed: description). Run `mcpproxy servers review fx`."
        );
        assert!(quarantined(2, true).starts_with("! fx is new: 2 definitions wait for a review: "));
        let summary = "tool a (warned: description)".to_owned();
        assert_eq!(
            words(&GatewayEvent::Unreviewed { server: name("fx"), count: 1, summary }),
            "! fx: 1 changed definition is shown to agents without a review: tool a (warned: description). Set \
             `trust.changes` to `review` to hold changes."
        );
        let summary = "tool a (not locked)".to_owned();
        assert_eq!(
            words(&GatewayEvent::NotLocked { server: name("fx"), count: 2, summary }),
            "! fx: 2 definitions are quarantined and not in the lock file: tool a (not locked). To accept, run `mcpproxy \
             lock` with a gateway without `--locked`."
        );
        let summary = ReloadSummary {
            added: vec![name("time")],
            removed: vec![name("a"), name("b")],
            contracts: true,
            restart_needed: vec!["listen"],
            ..ReloadSummary::default()
        };
        assert_eq!(
            words(&GatewayEvent::Reloaded(summary)),
            "↻ reloaded: added time; removed a, b; contracts; restart to apply listen"
        );
        assert_eq!(words(&GatewayEvent::Reloaded(ReloadSummary::default())), "↻ reloaded: nothing changed");
    }

    #[test]
    fn a_contract_without_a_tool_is_told_once() {
        let finding = |subject: &str| Finding {
            code: "C002",
            severity: mcpproxy_core::review::lint::Severity::Warning,
            subject: subject.to_owned(),
            place: Some(("a.yaml".into(), 3)),
            message: "server `fx` has no such tool".to_owned(),
            fix: "did you mean `fx:list`?".to_owned(),
        };
        let mut unmatched = Unmatched::default();
        let told = "! The contract for fx:lst (a.yaml:3) has no effect: server `fx` has no such tool. Fix: did you mean \
                    `fx:list`?";
        assert_eq!(unmatched.lines(vec![finding("fx:lst")]), [told]);
        assert!(unmatched.lines(vec![finding("fx:lst")]).is_empty());
        assert!(unmatched.lines(Vec::new()).is_empty());
        assert_eq!(unmatched.lines(vec![finding("fx:lst")]), [told], "it matched meanwhile");
        let many = (0..9).map(|number| finding(&format!("fx:{number}"))).collect();
        assert_eq!(unmatched.lines(many).last().unwrap(), "… 4 more contracts. See `mcpproxy contract lint`.");
    }

    #[test]
    fn a_flapping_server_gets_a_few_lines() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        let mut printed = Vec::new();
        for round in 0..100 {
            printed.extend(throttle.lines(&up("fx"), start));
            printed.extend(throttle.lines(&down("fx", &round.to_string()), start));
        }
        assert_eq!(printed.len(), SERVER_LINES);
        assert!(printed[3].contains("not shown for a while"), "{}", printed[3]);
        // Other servers are not affected, and the number of hidden changes is told.
        let other = throttle.lines(&up("other"), start);
        assert_eq!(other, ["… 196 more changes not shown. See `mcpproxy servers list`.", "✓ other is ready: 1 tool"]);
        assert_eq!(throttle.lines(&up("fx"), start + SERVER_WINDOW), ["✓ fx is ready: 1 tool"]);
    }

    #[test]
    fn the_same_failure_is_told_once() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        assert_eq!(throttle.lines(&down("fx", "gone"), now).len(), 1);
        assert!(throttle.lines(&down("fx", "gone"), now).is_empty());
        assert_eq!(throttle.lines(&up("fx"), now).len(), 1);
        assert_eq!(throttle.lines(&down("fx", "gone"), now).len(), 1);
    }

    #[test]
    fn many_servers_share_a_limit() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        let printed: usize = (0..1000).map(|number| throttle.lines(&up(&format!("s{number}")), now).len()).sum();
        assert_eq!(printed, ALL_LINES);
    }
}
