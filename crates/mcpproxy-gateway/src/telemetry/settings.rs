//! The standard variables of OpenTelemetry.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::outbox::Signal;
use crate::meter::ParentSpan;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
const DEFAULT_TIMEOUT_MS: u64 = 10_000;
const DEFAULT_DELAY_MS: u64 = 5000;
/// The longest time that a variable can ask for.
const MAX_MS: u64 = 600_000;

/// Where to export to, and how often.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    traces: Option<Endpoint>,
    logs: Option<Endpoint>,
    /// Attributes of this gateway.
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    /// The longest time for which a batch is gathered.
    pub(super) delay: Duration,
    pub(super) timeout: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
}

/// Decides which calls are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampler {
    /// An agent's own decision counts.
    follows_parent: bool,
    /// The share of other traces, from 0 to 1.
    share: f64,
}

/// A variable that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{variable}` {problem}")]
pub struct OtlpError {
    pub variable: String,
    pub problem: String,
    /// A command that helps.
    pub hint: String,
}

impl OtlpSettings {
    /// Reads the standard variables. Returns `None` if they ask for no export. `get` returns the value of a variable.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, OtlpError> {
        let get = |name: &str| get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let (traces, logs) = (endpoint(Signal::Traces, &get)?, endpoint(Signal::Logs, &get)?);
        if traces.is_none() && logs.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            traces,
            logs,
            resource: resource(&get)?,
            sampler: Sampler::from_env(&get)?,
            delay: milliseconds(DELAY, DEFAULT_DELAY_MS, &get)?,
            timeout: milliseconds(TIMEOUT, DEFAULT_TIMEOUT_MS, &get)?,
        }))
    }

    pub(super) fn endpoint(&self, signal: Signal) -> Option<Endpoint> {
        match signal {
            Signal::Traces => self.traces.clone(),
            Signal::Logs => self.logs.clone(),
        }
    }
}

impl Sampler {
    /// Returns true if a call of this trace is exported.
    pub(super) fn takes(self, parent: Option<ParentSpan>, trace: u128) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent.is_sampled,
            Some(_) | None => {
                // Every program compares the same digits, so they all choose the same traces.
                let digits = u32::try_from(trace & u128::from(u32::MAX)).unwrap_or(u32::MAX);
                f64::from(digits) < self.share * (f64::from(u32::MAX) + 1.0)
            }
        }
    }

    fn from_env(get: &impl Fn(&str) -> Option<String>) -> Result<Self, OtlpError> {
        let name = get(SAMPLER).unwrap_or_else(|| "parentbased_always_on".to_owned());
        let (follows_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name.as_str()),
        };
        let share = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                let given = get(SAMPLER_ARGUMENT).unwrap_or_else(|| "1".to_owned());
                let share = given.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
                share.ok_or_else(|| bad(SAMPLER_ARGUMENT, format!("must be a number from 0 to 1, not {given:?}")))?
            }
            _ => {
                let known = "always_on, always_off, traceidratio or one of these after parentbased_";
                return Err(bad(SAMPLER, format!("must be {known}, not {name:?}")));
            }
        };
        Ok(Self { follows_parent, share })
    }
}

/// Returns where a signal goes, or `None` if nobody asked for it.
fn endpoint(signal: Signal, get: &impl Fn(&str) -> Option<String>) -> Result<Option<Endpoint>, OtlpError> {
    let (word, path) = match signal {
        Signal::Traces => ("TRACES", "v1/traces"),
        Signal::Logs => ("LOGS", "v1/logs"),
    };
    let exporter = format!("OTEL_{word}_EXPORTER");
    let wanted = match get(&exporter).as_deref() {
        Some("none") => return Ok(None),
        Some("otlp") => true,
        None => false,
        Some(other) => return Err(bad(&exporter, format!("must be otlp or none, not {other:?}"))),
    };
    let own = format!("OTEL_EXPORTER_OTLP_{word}_ENDPOINT");
    let (variable, text) = match (get(&own), get(ENDPOINT)) {
        (Some(whole), _) => (own.as_str(), whole),
        (None, Some(base)) => (ENDPOINT, format!("{}/{path}", base.trim_end_matches('/'))),
        (None, None) if wanted => (ENDPOINT, format!("{DEFAULT_ENDPOINT}/{path}")),
        (None, None) => return Ok(None),
    };
    check_protocol(word, get)?;
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| bad(variable, "must be a URL such as http://localhost:4318".to_owned()))?;
    let own = format!("OTEL_EXPORTER_OTLP_{word}_HEADERS");
    let headers = match (get(&own), get(HEADERS)) {
        (Some(text), _) => headers(&own, &text)?,
        (None, Some(text)) => headers(HEADERS, &text)?,
        (None, None) => HeaderMap::new(),
    };
    Ok(Some(Endpoint { url, headers }))
}

fn check_protocol(word: &str, get: &impl Fn(&str) -> Option<String>) -> Result<(), OtlpError> {
    let own = format!("OTEL_EXPORTER_OTLP_{word}_PROTOCOL");
    let (variable, protocol) = match (get(&own), get(PROTOCOL)) {
        (Some(protocol), _) => (own.as_str(), protocol),
        (None, Some(protocol)) => (PROTOCOL, protocol),
        (None, None) => return Ok(()),
    };
    match protocol.as_str() {
        // A collector accepts JSON where it accepts the binary form, and tells them apart by the content type.
        "http/json" | "http/protobuf" => Ok(()),
        other => Err(OtlpError {
            hint: format!("export {variable}=http/json"),
            ..bad(
                variable,
                format!("is {other:?}. The gateway sends over HTTP, to port 4318 of a collector by default"),
            )
        }),
    }
}

/// Reads `key=value,key=value`. Values are percent-encoded.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, OtlpError> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        Some((key.trim().to_owned(), decoded(value.trim())?))
    };
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let pairs: Option<Vec<_>> = parts.map(pair).collect();
    // The value may be a secret, so it is not in the message.
    pairs.ok_or_else(|| bad(variable, "must be a list such as key=value,key2=value2".to_owned()))
}

fn decoded(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.bytes());
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn headers(variable: &str, text: &str) -> Result<HeaderMap, OtlpError> {
    let mut headers = HeaderMap::new();
    for (key, value) in pairs(variable, text)? {
        let name = HeaderName::from_bytes(key.as_bytes()).ok();
        let value = HeaderValue::from_str(&value).ok();
        let (name, mut value) =
            name.zip(value).ok_or_else(|| bad(variable, "has a name or value that no header can have".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn resource(get: &impl Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, OtlpError> {
    const VARIABLE: &str = "OTEL_RESOURCE_ATTRIBUTES";
    const NAME: &str = "service.name";
    let mut all = get(VARIABLE).map_or_else(|| Ok(Vec::new()), |text| pairs(VARIABLE, &text))?;
    let given = all.iter().position(|(key, _)| key == NAME).map(|at| all.remove(at).1);
    let name = get("OTEL_SERVICE_NAME").or(given).unwrap_or_else(|| "mcpproxy".to_owned());
    all.push((NAME.to_owned(), name));
    all.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    Ok(all)
}

fn milliseconds(variable: &str, default: u64, get: &impl Fn(&str) -> Option<String>) -> Result<Duration, OtlpError> {
    let Some(given) = get(variable) else { return Ok(Duration::from_millis(default)) };
    let number = given.parse().ok().filter(|number| (1..=MAX_MS).contains(number));
    let number = number
        .ok_or_else(|| bad(variable, format!("must be a number of milliseconds from 1 to {MAX_MS}, not {given:?}")))?;
    Ok(Duration::from_millis(number))
}

fn bad(variable: &str, problem: String) -> OtlpError {
    OtlpError { variable: variable.to_owned(), problem, hint: format!("unset {variable}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, OtlpError> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        OtlpSettings::from_env(find)
    }

    #[test]
    fn nothing_is_exported_unless_asked() {
        assert!(read(&[]).unwrap().is_none());
        assert!(read(&[(ENDPOINT, "")]).unwrap().is_none());
        assert!(read(&[(ENDPOINT, "http://a:1"), ("OTEL_SDK_DISABLED", "TRUE")]).unwrap().is_none());
        let off = [(ENDPOINT, "http://a:1"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")];
        assert!(read(&off).unwrap().is_none());
    }

    #[test]
    fn endpoints_follow_the_standard() {
        let url = |variables: &[(&str, &str)], signal| {
            read(variables).unwrap().and_then(|all| all.endpoint(signal)).map(|one| one.url.to_string())
        };
        let base = [(ENDPOINT, "http://a:1/x/")];
        assert_eq!(url(&base, Signal::Traces).as_deref(), Some("http://a:1/x/v1/traces"));
        assert_eq!(url(&base, Signal::Logs).as_deref(), Some("http://a:1/x/v1/logs"));
        let own = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a/spans")];
        assert_eq!(url(&own, Signal::Traces).as_deref(), Some("https://a/spans"));
        assert_eq!(url(&own, Signal::Logs), None);
        let wanted = [("OTEL_LOGS_EXPORTER", "otlp")];
        assert_eq!(url(&wanted, Signal::Logs).as_deref(), Some("http://localhost:4318/v1/logs"));
    }

    #[test]
    fn headers_and_attributes_are_decoded() {
        let all = read(&[
            (ENDPOINT, "http://a:1"),
            (HEADERS, "authorization=Bearer%20x, b = c"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=one,place=caf%C3%A9"),
            (SAMPLER, "traceidratio"),
            (SAMPLER_ARGUMENT, "0.5"),
            (DELAY, "100"),
        ]);
        let all = all.unwrap().unwrap();
        let endpoint = all.endpoint(Signal::Traces).unwrap();
        assert_eq!(endpoint.headers.get("authorization").unwrap(), "Bearer x");
        assert_eq!(endpoint.headers.get("b").unwrap(), "c");
        assert!(!format!("{:?}", endpoint.headers).contains("Bearer"), "headers can be secrets");
        let find = |name: &str| all.resource.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!((find("service.name"), find("place")), (Some("one"), Some("café")));
        assert_eq!(all.sampler, Sampler { follows_parent: false, share: 0.5 });
        assert_eq!(all.delay, Duration::from_millis(100));
    }

    #[test]
    fn bad_values_are_named_with_a_next_step() {
        for (variable, value) in [
            (ENDPOINT, "localhost:4318"),
            (PROTOCOL, "grpc"),
            (HEADERS, "no pair"),
            (HEADERS, "a=%zz"),
            (HEADERS, "a b=c"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            (SAMPLER, "sometimes"),
            (DELAY, "0"),
            (TIMEOUT, "-1"),
        ] {
            let all = [(variable, value), (ENDPOINT, "http://a:1")];
            let error = read(&all).unwrap_err();
            assert_eq!(error.variable, variable, "{value}");
            assert!(error.hint.contains(variable), "{error:?}");
        }
    }

    #[test]
    fn a_sampler_takes_its_share() {
        let parent = |is_sampled| Some(ParentSpan { trace: 1, span: 1, is_sampled });
        let always = Sampler { follows_parent: true, share: 1.0 };
        assert!(always.takes(None, u128::MAX) && always.takes(parent(true), 1) && !always.takes(parent(false), 1));
        let never = Sampler { follows_parent: true, share: 0.0 };
        assert!(!never.takes(None, 0) && never.takes(parent(true), 1));
        let half = Sampler { follows_parent: false, share: 0.5 };
        assert!(half.takes(parent(false), 0x7fff_ffff) && !half.takes(parent(true), 0x8000_0000));
    }
}
