//! A call that needs no approval reads no approval tables.

use std::str::FromStr;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, OTHER_ARGS, Stage, files, never_held, send};

const TABLES: [&str; 4] = ["approvals", "claims", "dry_runs", "grants"];

/// With the approval tables renamed, every query of them fails. A call that needs none of them still succeeds.
#[tokio::test]
async fn a_call_without_approval_reads_no_approvals() {
    let stage = Stage::new("riskLevel: medium", never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let path = format!("sqlite://{}", stage.rig.database_file().display());
    let mut database: SqliteConnection = SqliteConnectOptions::from_str(&path).unwrap().connect().await.unwrap();
    for table in TABLES {
        database.execute(sqlx::AssertSqlSafe(format!("ALTER TABLE {table} RENAME TO gone_{table}"))).await.unwrap();
    }
    for contract in [
        "riskLevel: low",
        "riskLevel: medium",
        "",
        "riskLevel: low\ndryRun: supported",
        "riskLevel: low\nidempotency: key",
    ] {
        stage.rig.gateway.reload(files(&stage.peer, contract, never_held()));
        for call in ["call_tool_write", "call_tool_destructive"] {
            let params = send(ARGS, "").replace("call_tool_write", call);
            assert_eq!(Got::of(&mut agent, &stage.rig, &params).await.code(), "sent", "{contract}");
        }
    }
    let sent = stage.sent().len();
    // These calls do need the tables, so they fail and nothing is sent.
    for (contract, more) in [
        ("riskLevel: high", ""),
        ("riskLevel: low\ndryRun: required", ""),
        ("riskLevel: low\nidempotency: { mode: natural, keyFrom: [to] }", ""),
        ("riskLevel: low", r#","idempotency_key":"k""#),
        ("riskLevel: low", r#","dry_run":true"#),
    ] {
        stage.rig.gateway.reload(files(&stage.peer, contract, never_held()));
        let got = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, more)).await;
        assert_eq!(got.code(), "audit_unavailable", "{contract} {more}");
    }
    assert_eq!(stage.sent().len(), sent);
}
