//! The settings in force, in groups, with the source of each value.

use mcpproxy_core::settings::{EffectiveSetting, SettingSource};

use crate::Overridden;
use crate::ui::pages::amount::{counted, items, one_line};
use crate::visible::{Visible, plain};

const VALUE_CHARS: usize = 300;

/// The groups in the order of the page: heading, and the start of the keys. Keys of the top level have no dot.
const GROUPS: [(&str, &str); 12] = [
    ("TLS", "tls."),
    ("Intent declaration", "intent_declaration."),
    ("Contracts", "contracts."),
    ("Quarantine", "trust."),
    ("Approvals", "approvals."),
    ("Users", "people."),
    ("Agents", "agents."),
    ("Activity log", "activity."),
    ("Storage", "storage."),
    ("Metrics", "metrics."),
    ("Export", "export."),
    ("Search", "search."),
];
const LIMITS: (&str, &str) = ("Limits", "limits.");

#[derive(Debug)]
pub(crate) struct SettingGroup {
    pub(crate) name: &'static str,
    /// Counts the values that are not defaults.
    pub(crate) summary: String,
    pub(crate) is_open: bool,
    pub(crate) rows: Vec<SettingRow>,
}

#[derive(Debug)]
pub(crate) struct SettingRow {
    pub(crate) key: &'static str,
    pub(crate) value: Visible,
    pub(crate) is_default: bool,
    pub(crate) source: Visible,
    /// Says that the running gateway uses another value.
    pub(crate) note: Option<String>,
}

/// Facts about the running gateway that say where a value comes from.
pub(crate) struct Running<'a> {
    /// The name of the settings file.
    pub(crate) file: &'a str,
    /// The version with the settings that gateways share. `None` if the settings file has all of them.
    pub(crate) version: Option<i64>,
    /// The address that the gateway listens on.
    pub(crate) address: &'a str,
    pub(crate) overridden: &'a [Overridden],
}

pub(crate) fn groups(settings: &[EffectiveSetting], running: &Running<'_>) -> Vec<SettingGroup> {
    let of = |name, start: &str| {
        let own = settings.iter().filter(|setting| setting.key.starts_with(start));
        SettingGroup::new(name, own.map(|setting| SettingRow::new(setting, running)).collect())
    };
    let top = settings.iter().filter(|setting| !setting.key.contains('.'));
    let gateway = SettingGroup::new("Gateway", top.map(|setting| SettingRow::new(setting, running)).collect());
    let others = GROUPS.into_iter().chain([LIMITS]).map(|(name, start)| of(name, start));
    [gateway].into_iter().chain(others).collect()
}

impl SettingGroup {
    fn new(name: &'static str, rows: Vec<SettingRow>) -> Self {
        let set = rows.iter().filter(|row| !row.is_default).count();
        let summary =
            if set == 0 { "all defaults".to_owned() } else { format!("{} set", counted(items(set), "value")) };
        Self { name, summary, is_open: set > 0 || rows.iter().any(|row| row.note.is_some()), rows }
    }
}

impl SettingRow {
    fn new(setting: &EffectiveSetting, running: &Running<'_>) -> Self {
        let address = running.address;
        let file = match running.version {
            Some(number) if !setting.is_of_machine() => format!("version {number}, {}", running.file),
            Some(_) | None => running.file.to_owned(),
        };
        let source = match &setting.source {
            SettingSource::Default => "default".to_owned(),
            SettingSource::File { line } => format!("{file}:{line}"),
            SettingSource::Environment { line, variable } => format!("environment variable {variable} ({file}:{line})"),
            SettingSource::OtherFile { line, path } => format!("file {path} ({file}:{line})"),
        };
        if let Some(overridden) = running.overridden.iter().find(|overridden| overridden.key == setting.key) {
            return Self::overridden(setting, overridden, &source);
        }
        let differs = setting.key == "listen" && setting.value != address;
        Self {
            key: setting.key,
            value: Visible::of(&one_line(&setting.value, VALUE_CHARS)),
            is_default: setting.source == SettingSource::Default,
            source: Visible::of(&source),
            note: differs.then(|| format!("The gateway listens on {address} until its next restart.")),
        }
    }

    fn overridden(setting: &EffectiveSetting, by: &Overridden, source: &str) -> Self {
        let differs = setting.value != by.value;
        Self {
            key: setting.key,
            value: Visible::of(&one_line(&by.value, VALUE_CHARS)),
            is_default: false,
            source: Visible::of(&format!("command line ({})", by.by)),
            note: differs.then(|| format!("Without it: {} ({source})", plain(&one_line(&setting.value, VALUE_CHARS)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running<'a>(address: &'a str, overridden: &'a [Overridden]) -> Running<'a> {
        Running { file: "mcp_config.json", version: None, address, overridden }
    }

    #[test]
    fn the_command_line_is_a_source() {
        let setting = |key, value: &str, source| EffectiveSetting { key, value: value.to_owned(), source };
        let all = [
            setting("listen", "127.0.0.1:8080", SettingSource::Default),
            setting("direct_mode", "false", SettingSource::Default),
            setting("trust.changes", "quarantine", SettingSource::File { line: 3 }),
        ];
        let replaced = [
            Overridden { key: "listen", value: "127.0.0.1:9".to_owned(), by: "--listen" },
            Overridden { key: "trust.changes", value: "only the lock file".to_owned(), by: "--locked" },
        ];
        let groups = groups(&all, &running("127.0.0.1:9", &replaced));
        let rows: Vec<String> = groups
            .iter()
            .flat_map(|group| &group.rows)
            .map(|row| format!("{} {} {}: {}", row.key, row.value, row.source, row.note.as_deref().unwrap_or("-")))
            .collect();
        assert_eq!(
            rows,
            [
                "listen 127.0.0.1:9 command line (--listen): Without it: 127.0.0.1:8080 (default)",
                "direct_mode false default: -",
                "trust.changes only the lock file command line (--locked): Without it: quarantine (mcp_config.json:3)",
            ]
        );
        let opened = |name: &str| groups.iter().find(|group| group.name == name).unwrap();
        assert_eq!((opened("Gateway").summary.as_str(), opened("Gateway").is_open), ("1 value set", true));
    }

    #[test]
    fn every_setting_is_in_one_group() {
        let all = mcpproxy_core::settings::demo().effective();
        let groups = groups(&all, &running("127.0.0.1:8080", &[]));
        assert_eq!(groups.iter().map(|group| group.rows.len()).sum::<usize>(), all.len());
        assert!(groups.iter().all(|group| !group.is_open && group.summary == "all defaults"), "{groups:?}");
    }

    #[test]
    fn sources_are_named() {
        let variable = "TOKEN<b>".to_owned();
        let setting = |key, source| EffectiveSetting { key, value: "1".to_owned(), source };
        let all = [
            setting("listen", SettingSource::File { line: 3 }),
            setting("storage.url", SettingSource::Environment { line: 4, variable }),
        ];
        let groups = groups(&all, &running("127.0.0.1:9", &[]));
        let row = |group: &str| groups.iter().find(|found| found.name == group).unwrap().rows.first().unwrap();
        assert_eq!(row("Gateway").source.to_string(), "mcp_config.json:3");
        assert!(row("Gateway").note.as_deref().unwrap().contains("127.0.0.1:9"));
        let source = "environment variable TOKEN&lt;b&gt; (mcp_config.json:4)";
        assert_eq!(row("Storage").source.to_string(), source);

        let shared = setting("approvals.wait", SettingSource::File { line: 5 });
        let all = [shared, setting("listen", SettingSource::File { line: 3 })];
        let groups = super::groups(&all, &Running { version: Some(7), ..running("127.0.0.1:9", &[]) });
        let row = |group: &str| groups.iter().find(|found| found.name == group).unwrap().rows.first().unwrap();
        assert_eq!(row("Approvals").source.to_string(), "version 7, mcp_config.json:5");
        assert_eq!(row("Gateway").source.to_string(), "mcp_config.json:3");
    }
}
