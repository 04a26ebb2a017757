//! Checks of the running gateway, its port, its database and its log.

use serde_json::Value;

use super::{Finding, NEEDS_SETTINGS, Outcome, about, found, ok, or_ok, skipped, with_gateway, with_storage};
use crate::commands::doctor::facts::{ChainState, FULL_DAYS, Facts, PortState, StorageState};
use crate::terminal::output::{counted, line};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub(super) fn gateway(facts: &Facts) -> Vec<Finding> {
    match &facts.gateway {
        Ok(Some(gateway)) => {
            let text = |name: &str| gateway.status.get(name).and_then(Value::as_str).unwrap_or("-");
            ok(format!("version {} listens on {}", line(text("version")), line(text("address"))))
        }
        Ok(None) => {
            let next = format!("start it in another terminal: {}", facts.command("serve"));
            vec![found(Outcome::Warning, "No gateway is running on this data folder.", next)]
        }
        Err(error) => {
            let next = format!("look at the output of `{}`, and restart it", facts.command("serve"));
            vec![found(Outcome::Error, format!("The gateway does not answer: {}", line(error)), next)]
        }
    }
}

pub(super) fn port(facts: &Facts) -> Vec<Finding> {
    let address = facts.listen;
    match &facts.port {
        PortState::Ours => ok(format!("the gateway listens on {address}")),
        PortState::Free => ok(format!("{address} is free")),
        PortState::Unknown(why) => skipped(format!("could not check {address}: {why}")),
        PortState::NeedsSettings => skipped(NEEDS_SETTINGS),
        PortState::Taken(holder) => {
            let who = holder.as_ref().map_or("another program".to_owned(), |holder| line(holder));
            let message = format!("{who} listens on {address}, so the gateway cannot start there.");
            let next = format!("stop it, or choose another port: {}", facts.command("serve --listen 127.0.0.1:PORT"));
            vec![found(Outcome::Error, message, next)]
        }
    }
}

pub(super) fn certificate(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let Some(tls) = gateway.status.get("tls").filter(|tls| tls.is_object()) else {
            return ok("the gateway has no certificate of its own");
        };
        let text = |name: &str| tls.get(name).and_then(Value::as_str).map(line).unwrap_or_default();
        let expires = text("expires");
        let next = "renew it, and replace the files of `tls`. The gateway serves them without a restart";
        match text("validity").as_str() {
            "expired" => {
                let message = format!("The certificate of the gateway expired at {expires}, so clients refuse it.");
                vec![found(Outcome::Error, message, next)]
            }
            "not_yet" => {
                let message = "The certificate of the gateway is not valid yet, so clients refuse it.";
                vec![found(Outcome::Error, message, "check the clock of this machine, and the files of `tls`")]
            }
            "ends_soon" => {
                vec![found(Outcome::Warning, format!("The certificate of the gateway expires at {expires}."), next)]
            }
            _ => ok(format!("valid until {expires}")),
        }
    })
}

pub(super) fn storage(facts: &Facts) -> Vec<Finding> {
    match &facts.storage {
        StorageState::Unreachable(error) => {
            let next = format!("start the database, or correct `storage.url` in {}", facts.settings_path);
            vec![found(Outcome::Error, format!("The database cannot be opened: {}", line(error)), next)]
        }
        StorageState::NeedsSettings => skipped(NEEDS_SETTINGS),
        StorageState::Missing => ok("no database yet. The first gateway creates it"),
        StorageState::Open(_) => ok("the database answers"),
    }
}

pub(super) fn log(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| match gateway.status.pointer("/log/reason").and_then(Value::as_str) {
        None => ok("records can be written"),
        Some(reason) => {
            let message = format!("Records cannot be written, so no call is sent: {}", line(reason));
            vec![found(Outcome::Error, message, "free space on the disk, or start the database")]
        }
    })
}

pub(super) fn drift(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let Some(cluster) = gateway.status.get("cluster").filter(|cluster| cluster.is_object()) else {
            return skipped("needs the database");
        };
        let drift = cluster.get("drift").and_then(Value::as_array).into_iter().flatten();
        let finding = |one: &Value| {
            let text = |name: &str| one.get(name).and_then(Value::as_str).map(line).unwrap_or_default();
            about(&text("part"), found(Outcome::Warning, text("message"), text("next")))
        };
        or_ok(drift.map(finding).collect(), "no other gateway differs")
    })
}

pub(super) fn chain(facts: &Facts) -> Vec<Finding> {
    with_storage(facts, |storage| match &storage.chain {
        ChainState::Intact(lines) => ok(format!("{} verified", counted(*lines, "line"))),
        ChainState::NotVerified(why) => skipped(format!("{why}. Run `{}`", facts.command("activity verify"))),
        ChainState::Continued { lines, full_ms } => {
            let days = (facts.now_ms - full_ms) / DAY_MS + 1;
            let days = counted(usize::try_from(days).unwrap_or_default(), "day");
            let lines = counted(*lines, "line");
            ok(format!("every line was verified within {days}, and the new ones of {lines} now"))
        }
        ChainState::TooLong { lines, full_ms } => too_long(facts, *lines, *full_ms),
        ChainState::Damaged(what) => {
            let message = format!("The activity log was changed: {}", line(what));
            let next = format!("{}. Then compare with a backup", facts.command("activity verify"));
            vec![found(Outcome::Error, message, next)]
        }
    })
}

/// Reports on a log that is too large to verify here.
fn too_long(facts: &Facts, lines: usize, full_ms: Option<i64>) -> Vec<Finding> {
    let lines = counted(lines, "line");
    let full = facts.command("activity verify --full");
    match full_ms.map(|full_ms| (facts.now_ms - full_ms) / DAY_MS) {
        Some(days) if (0..FULL_DAYS).contains(&days) => {
            skipped(format!("even the new ones of {lines} take too long to verify here. Run `{full}`"))
        }
        Some(_) | None => skipped(format!(
            "{lines} take too long to verify here. Not verified in full for {FULL_DAYS} days. Run `{full}`"
        )),
    }
}
