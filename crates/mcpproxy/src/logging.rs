//! The log of the program: on standard error, and over OTLP if the environment asks for it.

use std::fmt;
use std::str::FromStr as _;
use std::sync::OnceLock;

use mcpproxy_gateway::{EXPORT_TARGET, Outbox};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Directive;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::terminal::style::Colours;

/// `json` writes each message on standard error as one JSON object.
const FORMAT_VARIABLE: &str = "MCPPROXY_LOG_FORMAT";

/// The queue for the export. Empty until a gateway runs.
static EXPORT: OnceLock<Outbox> = OnceLock::new();

pub(crate) fn start() {
    // The store reports lost connections itself.
    let filter = EnvFilter::try_from_env("MCPPROXY_LOG").unwrap_or_else(|_| EnvFilter::new("warn,sqlx=error"));
    // With more detail, the SDK writes authorization codes.
    let filter = match Directive::from_str("rmcp=warn") {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let to_stderr = match std::env::var(FORMAT_VARIABLE).as_deref() {
        // Fields at the top level, as collectors of logs expect them.
        Ok("json") => to_stderr.json().flatten_event(true).with_ansi(false).boxed(),
        Ok(_) | Err(_) => to_stderr.with_ansi(Colours::of(&std::io::stderr()) == Colours::On).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(to_stderr).with(Exported).init();
}

/// Exports messages from now on.
pub(crate) fn export_to(outbox: &Outbox) {
    let _is_set_already = EXPORT.set(outbox.clone());
}

/// Exports the messages of our own crates. Those of libraries include the ones that the export itself causes.
struct Exported;

impl<S: Subscriber> Layer<S> for Exported {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        if let Some(outbox) = EXPORT.get()
            && target.starts_with("mcpproxy")
            && target != EXPORT_TARGET
        {
            let mut fields = Fields::default();
            event.record(&mut fields);
            outbox.log(severity(*event.metadata().level()), &fields.message, &fields.others);
        }
    }
}

/// Returns the number and the name of a level in OTLP.
fn severity(level: Level) -> (u8, &'static str) {
    match level {
        Level::TRACE => (1, "TRACE"),
        Level::DEBUG => (5, "DEBUG"),
        Level::INFO => (9, "INFO"),
        Level::WARN => (13, "WARN"),
        Level::ERROR => (17, "ERROR"),
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, String)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.others.push((name.to_owned(), format!("{value:?}"))),
        }
    }
}
