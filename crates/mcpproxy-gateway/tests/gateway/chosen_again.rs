//! A server that a user removes, and adds again with their consent.

use std::str::FromStr;

use mcpproxy_core::Digest;
use mcpproxy_core::settings::{Settings, TrustSettings};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor};

use crate::agent::{Agent, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, settings};

const LIST_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// The consent counts for the first list only, also if that list is the accepted one. Otherwise, tools of a later list
/// would be accepted unseen as soon as nothing else of the server is.
#[tokio::test]
async fn consent_counts_for_one_list() {
    let mut peer = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("read", READ_ONLY)))).await;
    let server = peer.settings("notes");
    let identity = Digest::parse(server.identity.key()).unwrap();
    let with = Settings { trust: TrustSettings::default(), ..settings([server]) };
    let without = Settings { trust: TrustSettings::default(), ..settings([]) };
    let rig = Rig::start(with.clone()).await;
    rig.until("notes", |status| status.tools == 1).await;
    rig.gateway.reload(without);
    rig.gateway.choose(identity);
    rig.gateway.reload(with);
    rig.until("notes", |status| status.tools == 1).await;

    // A rejection of a damaged definition removes what was accepted.
    let path = format!("sqlite://{}", rig.database_file().display());
    let mut database: SqliteConnection = SqliteConnectOptions::from_str(&path).unwrap().connect().await.unwrap();
    database.execute("DELETE FROM accepted_pins").await.unwrap();
    database.execute("UPDATE pins_version SET version = version + 1").await.unwrap();
    peer.rewrite(|script| script.tools = format!("[{}]", tool("send", "{}")));
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let called = agent.request(&rig, "tools/call", r#"{"name":"call_tool_read","arguments":{"name":"notes:read"}}"#);
    let announced = async {
        let heard = peer.next().await;
        heard.send(LIST_CHANGED).await;
        heard.answer_text("done").await;
    };
    tokio::join!(called, announced);
    let status = rig.until("notes", |status| status.quarantined > 0 || status.tools != 1).await;
    assert_eq!((status.tools, status.quarantined), (0, 1), "a tool that nobody has seen: {status:?}");
}
