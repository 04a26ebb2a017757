//! Tests for the bounds of sessions and of their open requests.

use super::*;
use crate::agents::usage::Usages;
use mcpproxy_store::SessionChanges;

fn session(usages: &Usages, agent: &str) -> Session {
    let session = Session::new(&usages.of(agent), EndpointMode::Four, None, "{}".into());
    Session { id: format!("{}.sealed", session.uid), ..session }
}

#[test]
fn an_agent_with_too_many_sessions_loses_its_own_oldest() {
    let (sessions, usages) = (Sessions::default(), Usages::default());
    let stranger = sessions.open(session(&usages, "stranger")).unwrap();
    let first = sessions.open(session(&usages, "greedy")).unwrap();
    let busy = sessions.open(session(&usages, "greedy")).unwrap();
    let _open_request = busy.begin("1", CancellationToken::new());
    for _ in 0..SESSIONS_PER_AGENT * 3 {
        sessions.open(session(&usages, "greedy")).unwrap();
    }
    let is_open = |session: &Session| sessions.find(&session.id, &session.agent, &EndpointMode::Four).is_some();
    assert!(is_open(&stranger) && is_open(&busy) && !is_open(&first));
    assert!(first.ended.is_cancelled() && !stranger.ended.is_cancelled());
    assert_eq!(sessions.list().len(), SESSIONS_PER_AGENT + 1);
}

#[test]
fn an_agent_whose_sessions_are_all_busy_gets_no_more() {
    let (sessions, usages) = (Sessions::default(), Usages::default());
    let open: Vec<_> = (0..SESSIONS_PER_AGENT).map(|_| sessions.open(session(&usages, "greedy")).unwrap()).collect();
    let _busy: Vec<_> = open.iter().map(|session| session.begin("1", CancellationToken::new())).collect();
    assert_eq!(sessions.open(session(&usages, "greedy")).err(), Some(OverLimit::Sessions));
    assert!(sessions.open(session(&usages, "other")).is_ok());
}

#[test]
fn of_too_many_sessions_in_all_the_agent_with_the_most_loses_one() {
    let (sessions, usages) = (Sessions::default(), Usages::default());
    for number in 0..SESSIONS_MAX - 1 {
        // Not with `open`, which looks at all sessions each time.
        let one = session(&usages, &format!("agent {}", number / 99));
        sessions.table().insert(one.uid.clone(), Arc::new(one));
    }
    let one = sessions.open(session(&usages, "one")).unwrap();
    let two = sessions.open(session(&usages, "two")).unwrap();
    assert_eq!(sessions.list().len(), SESSIONS_MAX);
    assert!(!one.ended.is_cancelled() && !two.ended.is_cancelled());
}

#[test]
fn requests_that_nobody_waits_for_do_not_pile_up() {
    let session = session(&Usages::default(), "agent");
    let ask = || {
        let (answer, answered) = oneshot::channel();
        let (method, params) = ("sampling/createMessage".to_owned(), "{}".to_owned());
        (session.ask(ServerRequest { method, params, answer }), answered)
    };
    let (_, mut awaited) = ask();
    for _ in 0..1000 {
        let (_, given_up) = ask();
        drop(given_up);
    }
    assert!(lock(&session.server_requests).len() <= 2);
    assert!(session.answer("\"mcpproxy-1\"", Ok("{}")));
    assert!(awaited.try_recv().unwrap().is_ok_and(|answer| answer == "{}"));
}

/// A session takes over changes that other gateways stored. Servers hear of its subscriptions once its stream is here.
#[test]
fn changes_of_other_gateways_are_taken_over() {
    let session = session(&Usages::default(), "agent");
    session.uris.insert("memo://gone").unwrap();
    let uris = vec!["memo://a".to_owned(), "memo://b".to_owned()];
    let level = Some("error".to_owned());
    let changes = SessionChanges { is_ended: false, level, stream_at: Some("there".to_owned()), uris: uris.clone() };
    session.take_over(&changes, "here");
    assert_eq!(session.level(), Some(LogLevel::Error));
    assert!(uris.iter().all(|uri| session.uris.contains(uri)) && !session.uris.contains("memo://gone"));
    assert!(session.take_untold_uris().is_none(), "nobody here would hear of an update");
    let (send, receive) = mpsc::channel(1);
    let agent = Arc::new(Agent { name: "agent".to_owned(), scope: mcpproxy_core::Scope::everything() });
    session.stands_on(send, agent);
    session.take_over(&SessionChanges { level: None, ..changes.clone() }, "here");
    assert_eq!(session.level(), Some(LogLevel::Error), "a level that was not set changes nothing");
    assert_eq!(session.take_untold_uris().map(|(_, uris)| uris), Some(uris));
    assert!(session.take_untold_uris().is_none(), "each is told once");
    drop(receive);
    session.take_over(&SessionChanges { uris: vec!["memo://c".to_owned()], ..changes }, "here");
    assert!(session.take_untold_uris().is_none(), "the stream was closed");
}

#[tokio::test]
async fn the_id_of_a_question_names_the_gateway_that_asked() {
    let folder = tempfile::tempdir().unwrap();
    let location = mcpproxy_store::Location::Sqlite(folder.path().join("mcpproxy.db"));
    let bus = Arc::new(Bus::new(mcpproxy_store::Store::open(&location).await.unwrap()));
    let alone = session(&Usages::default(), "agent");
    assert_eq!(alone.asked_at("\"mcpproxy-1@other\""), None);
    let shared = Session { bus: Some(Arc::clone(&bus)), ..session(&Usages::default(), "agent") };
    let (answer, _) = oneshot::channel();
    let asked = shared.ask(ServerRequest { method: "m".to_owned(), params: "{}".to_owned(), answer });
    let own = format!("\"mcpproxy-1@{}\"", bus.name());
    assert!(asked.contains(&own), "{asked}");
    for (id, expected) in [
        (own.as_str(), None),
        ("\"mcpproxy-1@other\"", Some("other")),
        ("\"mcpproxy-1\"", None),
        ("1", None),
        ("\"a@other\"", None),
    ] {
        assert_eq!(shared.asked_at(id), expected, "{id}");
    }
}
