//! Exports over OTLP, if the environment asks for it.

use mcpproxy_gateway::{OtlpSettings, Telemetry};

use crate::exit::{Exit, Failure};
use crate::logging;

/// Starts the export of traces and of the log.
pub(super) fn start() -> Result<Telemetry, Failure> {
    let settings = OtlpSettings::from_env(|name| std::env::var(name).ok())
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()).hint(error.hint))?;
    let telemetry = settings.as_ref().map(Telemetry::start).unwrap_or_default();
    if let Some(logs) = telemetry.logs() {
        logging::export_to(logs);
    }
    Ok(telemetry)
}
