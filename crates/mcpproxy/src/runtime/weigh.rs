//! Decides which part of changed files takes effect at once, and which part waits for a user.

use std::sync::Arc;

use mcpproxy_core::Offered;
use mcpproxy_core::review::weakening::{Rules, TooMany, Weaker};
use mcpproxy_core::settings::{Settings, Weakening};
use mcpproxy_gateway::{Files, HeldChanges};

/// The part of new files to enforce now, and what waits.
pub(super) struct Weighed {
    pub(super) files: Files,
    pub(super) held: Option<HeldChanges>,
}

/// Compares new files with those in force. The setting in force decides, so that a reload cannot turn the check off.
pub(super) fn weigh(
    in_force: &Files,
    wanted: &Files,
    digest: String,
    tools: &[Arc<Offered>],
) -> Result<Weighed, TooMany> {
    let all = || Weighed { files: wanted.clone(), held: None };
    match in_force.settings.contracts.weakening {
        Weakening::Apply => return Ok(all()),
        Weakening::Confirm => {}
    }
    let (old, new) = (rules(in_force), rules(wanted));
    let weaker = Weaker::between(&old, &new, tools);
    if weaker.is_empty() {
        return Ok(all());
    }
    let Rules { contracts, policies, settings } = new.without(&weaker, &old, tools)?;
    let settings = if settings == wanted.settings.contracts {
        Arc::clone(&wanted.settings)
    } else {
        Arc::new(Settings { contracts: settings, ..Settings::clone(&wanted.settings) })
    };
    Ok(Weighed { files: Files { settings, contracts, policies }, held: Some(HeldChanges { digest, weaker }) })
}

pub(super) fn rules(files: &Files) -> Rules {
    Rules {
        contracts: Arc::clone(&files.contracts),
        policies: Arc::clone(&files.policies),
        settings: files.settings.contracts,
    }
}
