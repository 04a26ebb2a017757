//! Tests for the settings in force and their sources.

use serde_json::Value;

use super::super::{EffectiveSetting, SettingSource, demo, schema};
use super::*;

fn found<'s>(all: &'s [EffectiveSetting], key: &str) -> &'s EffectiveSetting {
    all.iter().find(|setting| setting.key == key).unwrap()
}

/// Lists the paths of all values in the schema, except the servers.
fn leaves(path: &str, schema: &Value, out: &mut Vec<String>) {
    for (name, value) in schema["properties"].as_object().unwrap() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value.get("properties") {
            Some(_) => leaves(&path, value, out),
            None if ["$schema", "mcpServers"].contains(&name.as_str()) => {}
            None => out.push(path),
        }
    }
}

#[test]
fn every_setting_is_listed_once() {
    let mut expected = Vec::new();
    leaves("", &schema(), &mut expected);
    let mut listed: Vec<String> = demo().effective().into_iter().map(|setting| setting.key.to_owned()).collect();
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected);
}

#[test]
fn without_a_file_all_are_defaults() {
    let all = demo().effective();
    assert!(all.iter().all(|setting| setting.source == SettingSource::Default), "{all:?}");
    let values = ["listen", "approvals.wait", "limits.disk", "activity.retention.records", "storage.url"];
    let values = values.map(|key| found(&all, key).value.as_str());
    assert_eq!(values, ["127.0.0.1:8080", "45s", "64GiB", "forever", ""]);
}

#[test]
fn a_value_has_the_place_where_it_is_written() {
    let all = parse(
        r#"{
  "listen": "localhost:9",
  "approvals": {
    "wait": "0s",
    "notify": { "webhook": {
      "url": "https://hooks.example.com/hidden",
      "secret": "${env:GITHUB_TOKEN}-and-more"
    } }
  },
  "tools_refresh": "5m",
  "env_passthrough": ["A", "B"]
}"#,
        &World,
    )
    .unwrap()
    .effective();
    let check = |key: &str, value: &str, source: SettingSource| {
        let setting = found(&all, key);
        assert_eq!((setting.value.as_str(), &setting.source), (value, &source), "{key}");
    };
    check("listen", "127.0.0.1:9", SettingSource::File { line: 2 });
    check("approvals.wait", "0ms", SettingSource::File { line: 4 });
    check("approvals.expire", "10m", SettingSource::Default);
    check("approvals.notify.webhook.url", "set, not shown", SettingSource::File { line: 6 });
    let variable = "GITHUB_TOKEN".to_owned();
    check("approvals.notify.webhook.secret", "set, not shown", SettingSource::Environment { line: 7, variable });
    check("tools_refresh", "5m", SettingSource::File { line: 10 });
    check("env_passthrough", "A, B", SettingSource::File { line: 11 });
}

#[test]
fn nothing_secret_is_listed() {
    let listed = format!("{:?}", parse(PASTED, &World).unwrap().effective());
    assert!(!listed.contains("hidden"), "{listed}");
}
