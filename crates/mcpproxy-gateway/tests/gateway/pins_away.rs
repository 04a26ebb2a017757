//! Lists of servers while the database cannot be read.

use std::str::FromStr;

use mcpproxy_core::settings::{Settings, TrustSettings};
use mcpproxy_core::trust::{OnChange, Welcome};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor};

use crate::agent::{Agent, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, settings, within};

const LIST_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn with_changes(peer: &Peer, changes: OnChange) -> Settings {
    let trust = TrustSettings { first_sight: Welcome::Accept, changes };
    Settings { trust, ..settings([peer.settings("notes")]) }
}

/// A judgement is repeated at any time: after a reload, or two seconds after the start. If the database is away just
/// then, tools that it accepted a moment ago must not vanish. A list that nobody has judged is still held.
#[tokio::test]
async fn an_unchanged_list_keeps_its_judgement_while_the_pins_cannot_be_read() {
    let mut peer = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("read", READ_ONLY)))).await;
    let rig = Rig::start(with_changes(&peer, OnChange::Review)).await;
    rig.until("notes", |status| status.tools == 1).await;

    let path = format!("sqlite://{}", rig.database_file().display());
    let mut database: SqliteConnection = SqliteConnectOptions::from_str(&path).unwrap().connect().await.unwrap();
    database.execute("ALTER TABLE pins_version RENAME TO gone_pins_version").await.unwrap();
    // Other rules make the gateway judge every list again.
    rig.gateway.reload(with_changes(&peer, OnChange::Warn));
    within(rig.gateway.ready()).await;
    assert_eq!(rig.server("notes").tools, 1, "an accepted tool vanished");

    peer.rewrite(|script| script.tools = format!("[{},{}]", tool("read", READ_ONLY), tool("send", "{}")));
    // A call leads to the server's connection.
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let called = agent.request(&rig, "tools/call", r#"{"name":"call_tool_read","arguments":{"name":"notes:read"}}"#);
    let announced = async {
        let heard = peer.next().await;
        heard.send(LIST_CHANGED).await;
        heard.answer_text("done").await;
    };
    tokio::join!(called, announced);
    let status = rig.until("notes", |status| status.quarantined > 0).await;
    assert_eq!(status.tools, 0, "a list that was never judged is held: {status:?}");
}
