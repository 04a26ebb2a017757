//! The settings in force, for operators.

use std::sync::Arc;

use mcpproxy_core::settings::Settings;

use super::Gateway;

impl Gateway {
    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.state.snapshot.load().settings)
    }

    /// Returns the warnings about the active settings.
    pub fn settings_warnings(&self) -> Vec<String> {
        self.state.snapshot.load().settings.warnings.iter().map(ToString::to_string).collect()
    }
}
