//! Idempotency keys: a call is sent once, and repeats get the stored answer.

use std::time::Duration;

use futures::future::join_all;
use mcpproxy_core::Digest;
use mcpproxy_core::settings::{ServerSettings, Settings};
use mcpproxy_gateway::Files;
use mcpproxy_store::{NewClaim, Step};
use serde_json::{Value, json};

use crate::agent::{ALL_CAPABILITIES, Agent, Way};
use crate::asked::{
    ARGS, Got, HIGH, OTHER_ARGS, SAME_ARGS, SEND, Stage, files, never_held, now_ms, send, with_approval,
};
use crate::peer::{Script, Speaks, text_result};
use crate::rig::within;

const LOW: &str = "riskLevel: low";
const NATURAL: &str = "riskLevel: low\nidempotency: { mode: natural, keyFrom: [to] }";
const KEY: &str = r#","idempotency_key":"k1""#;

async fn stage(contract: &str) -> (Stage, Agent) {
    let stage = Stage::new(contract, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    (stage, agent)
}

/// Removes the members of `_meta` that differ in a repeated answer.
fn without_marks(got: &Got) -> Value {
    let mut got = got.0.clone();
    let meta = got.pointer_mut("/result/_meta").unwrap().as_object_mut().unwrap();
    meta.retain(|key, _| !["mcpproxy/record", "mcpproxy/replayed", "mcpproxy/first_record"].contains(&key.as_str()));
    got
}

#[tokio::test]
async fn the_same_key_gets_the_first_answer_again() {
    let (stage, mut agent) = stage(LOW).await;
    let first = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
    let record = first.result()["_meta"]["mcpproxy/record"].clone();
    for args in [ARGS, SAME_ARGS] {
        let again = Got::of(&mut agent, &stage.rig, &send(args, KEY)).await;
        let meta = &again.result()["_meta"];
        assert_eq!((&meta["mcpproxy/replayed"], &meta["mcpproxy/first_record"]), (&json!(true), &record), "{args}");
        assert_ne!(meta["mcpproxy/record"], record, "a repeat is on the record by itself");
        assert_eq!(without_marks(&again), without_marks(&first), "{args}");
    }
    assert!(first.result()["_meta"]["mcpproxy/replayed"].is_null());
    let other = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, KEY)).await;
    assert_eq!((other.code(), other.details()), ("idempotency_conflict".to_owned(), &json!({"tool": "fx:send"})));
    assert_eq!(stage.sent(), [ARGS]);
    // Keys are separate per agent. Another key is another call.
    let mut second = Agent::new(&stage.rig, Way::Session, "b").await;
    assert_eq!(Got::of(&mut second, &stage.rig, &send(OTHER_ARGS, KEY)).await.code(), "sent");
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, r#","idempotency_key":"k2""#)).await.code(), "sent");
    assert_eq!(stage.sent(), [ARGS, OTHER_ARGS, ARGS]);
    let lines: Vec<String> = stage.rig.records().await;
    let expected = [
        "call success a fx:send write -: -",
        "call success a fx:send write replayed: -",
        "call success a fx:send write replayed: -",
        "refusal refused a fx:send write idempotency_conflict: This idempotency_key was used for 'fx:send' with other arguments. Set a new idempotency_key for a new call.",
        "call success b fx:send write -: -",
        "call success a fx:send write -: -",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn keys_that_are_none() {
    let (stage, mut agent) = stage(LOW).await;
    for key in [r#""""#, r#""a b""#, r#""é""#, &format!("\"{}\"", "k".repeat(256))] {
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, &format!(r#","idempotency_key":{key}"#))).await;
        assert_eq!(got.code(), "invalid_idempotency_key", "{key}");
    }
    assert_eq!(stage.sent(), [""; 0]);
}

#[tokio::test]
async fn a_hundred_at_once_are_one_call() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| None;
    let mut stage = Stage::with(script, LOW, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let params = [send(ARGS, KEY), send(SAME_ARGS, KEY)];
    let calls = (0..100).map(|n: usize| stage.rig.send(agent.http(1, "tools/call", &params[n % 2])));
    let calls = join_all(calls);
    let (answers, ()) = tokio::join!(within(calls), async {
        let only = stage.peer.next().await;
        only.answer_text("sent once").await;
    });
    let answers: Vec<Got> = answers.iter().map(|answer| Got(serde_json::from_str(&answer.body).unwrap())).collect();
    let replayed = answers.iter().filter(|got| got.result()["_meta"]["mcpproxy/replayed"] == true).count();
    assert_eq!((stage.peer.calls().len(), replayed), (1, 99));
    for answer in &answers {
        assert_eq!(without_marks(answer), without_marks(&answers[0]));
        assert_eq!(answer.code(), "sent once");
    }
}

const QUOTA: &str =
    r#"{"content":[{"type":"text","text":"no"}],"structuredContent":{"error":{"code":"quota"}},"isError":true}"#;

/// A tool's own error does not prove that nothing happened. So with an agent's key the call is not sent again.
#[tokio::test]
async fn a_failure_with_a_key_is_neither_repeated_nor_made_again() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(QUOTA.to_owned());
    let contract = "riskLevel: low\nfailureModes: [quota]";
    let mut stage = Stage::with(script, contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let first = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
    assert_eq!(first.result()["_meta"]["mcpproxy/failure"], json!({"code": "quota", "declared": true}));
    let record = first.result()["_meta"]["mcpproxy/record"].as_str().unwrap().to_owned();
    stage.peer.rewrite(|script| script.call = |_| Some(text_result("sent")));
    for _ in 0..2 {
        let again = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
        assert_eq!(again.code(), "outcome_unknown");
        let text = format!(
            "This call of 'fx:send' was sent before (record {record}), but it failed and may have had an effect, so it is \
             not sent again. Find out if it took effect and tell the user. If it did not, repeat the call with a new \
             idempotency_key."
        );
        assert_eq!(again.text(), text);
    }
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, r#","idempotency_key":"k2""#)).await.code(), "sent");
    assert_eq!(stage.sent().len(), 2);
    // Of the JSON-RPC errors, those that say that the server rejected the call are repeated.
    stage.peer.rewrite(|script| script.call = |_| None);
    for (code, repeated) in [(-32602, "-32602 broken"), (-32601, "-32601 broken"), (-32000, "outcome_unknown")] {
        let params = send(OTHER_ARGS, &format!(r#","idempotency_key":"k{code}""#));
        let (first, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            let error = format!(r#"{{"code":{code},"message":"broken","data":{{"x":1}}}}"#);
            stage.peer.next().await.refuse(&error).await;
        });
        assert_eq!((first.code(), &first.0["error"]["data"]["x"]), (format!("{code} broken"), &json!(1)));
        let again = Got::of(&mut agent, &stage.rig, &params).await;
        assert_eq!(again.code(), repeated);
        if repeated.starts_with('-') {
            assert_eq!(again.0["error"]["data"]["mcpproxy/replayed"], true);
        }
    }
    assert_eq!(stage.sent().len(), 5);
}

/// After the server has recovered, a natural call runs again, whatever the error was.
#[tokio::test]
async fn a_natural_failure_is_never_repeated() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(QUOTA.to_owned());
    let mut stage = Stage::with(script, NATURAL, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    for _ in 0..2 {
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
        assert_eq!((got.code().as_str(), &got.result()["_meta"]["mcpproxy/replayed"]), ("no", &Value::Null));
    }
    stage.peer.rewrite(|script| script.call = |_| None);
    let params = send(ARGS, "");
    let (refused, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        stage.peer.next().await.refuse(r#"{"code":-32602,"message":"no"}"#).await;
    });
    assert_eq!(refused.code(), "-32602 no");
    stage.peer.rewrite(|script| script.call = |_| Some(text_result("sent")));
    for replayed in [Value::Null, Value::from(true)] {
        let got = Got::of(&mut agent, &stage.rig, &params).await;
        assert_eq!((got.code().as_str(), &got.result()["_meta"]["mcpproxy/replayed"]), ("sent", &replayed));
    }
    assert_eq!(stage.sent().len(), 4);
}

/// Calls that wait for the first one are the same call, so they share even an error that no later call gets.
#[tokio::test]
async fn parallel_calls_share_a_failure() {
    for (contract, more) in [(NATURAL, ""), (LOW, KEY)] {
        let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
        script.call = |_| None;
        let mut stage = Stage::with(script, contract, never_held()).await;
        let agent = Agent::new(&stage.rig, Way::Session, "a").await;
        let params = send(ARGS, more);
        let calls = join_all((0..20).map(|_| stage.rig.send(agent.http(1, "tools/call", &params))));
        let mut sharing = stage.rig.gateway.sharing();
        let (answers, ()) = tokio::join!(within(calls), async {
            let only = stage.peer.next().await;
            within(sharing.wait_for(|waiting| *waiting == 19)).await.unwrap();
            only.answer(QUOTA).await;
        });
        let answers = answers.iter().map(|answer| Got(serde_json::from_str(&answer.body).unwrap()).code());
        assert_eq!(answers.collect::<Vec<_>>(), vec!["no"; 20], "{contract}");
        assert_eq!(stage.peer.calls().len(), 1, "{contract}");
        let records = stage.rig.records().await;
        let replayed = records.iter().filter(|line| *line == "call error a fx:send write replayed: -").count();
        assert_eq!(replayed, 19, "a replayed failure is no success: {records:?}");
    }
}

/// A call that finds another one running may read its answer only after that one has failed. It still gets an answer of
/// the server: the failure, or that of a call of its own.
#[tokio::test]
async fn a_failure_between_two_looks_is_no_failure_of_the_gateway() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(QUOTA.to_owned());
    let stage = Stage::with(script, NATURAL, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let params = send(ARGS, "");
    for round in 0..5 {
        let calls = join_all((0..50).map(|_| stage.rig.send(agent.http(1, "tools/call", &params))));
        let answers = within(calls).await;
        let answers = answers.iter().map(|answer| Got(serde_json::from_str(&answer.body).unwrap()).code());
        assert_eq!(answers.collect::<Vec<_>>(), vec!["no"; 50], "{round}");
    }
}

/// A link that has expired is not given out again, although its key would be kept for a day.
#[tokio::test]
async fn a_result_is_repeated_while_it_is_valid() {
    const UNTIL: &str = "riskLevel: low\nidempotency: { mode: natural, keyFrom: [to], validUntil: /link/until }";
    let valid = |until_ms: i64| format!(r#"{{"content":[],"structuredContent":{{"link":{{"until":{until_ms}}}}}}}"#);
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| None;
    let mut stage = Stage::with(script, UNTIL, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let params = send(ARGS, "");
    let unclear = r#"{"content":[],"structuredContent":{"link":{"until":"2099-01-01"}}}"#.to_owned();
    for result in [valid(now_ms() - 1), unclear, valid(now_ms() + 60_000)] {
        let (got, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            stage.peer.next().await.answer(&result).await;
        });
        assert_eq!(got.result()["_meta"]["mcpproxy/replayed"], Value::Null, "{result}");
    }
    let again = Got::of(&mut agent, &stage.rig, &params).await;
    assert_eq!((&again.result()["_meta"]["mcpproxy/replayed"], stage.sent().len()), (&json!(true), 3));
    // With the agent's own key, a call runs at most once.
    let params = send(OTHER_ARGS, KEY);
    let (first, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        stage.peer.next().await.answer(&valid(now_ms() - 1)).await;
    });
    assert_eq!(first.result()["_meta"]["mcpproxy/replayed"], Value::Null);
    let again = Got::of(&mut agent, &stage.rig, &params).await;
    assert_eq!((&again.result()["_meta"]["mcpproxy/replayed"], stage.sent().len()), (&json!(true), 4));
}

/// A result that the contract blocks is blocked in repeated answers too.
#[tokio::test]
async fn what_was_withheld_stays_withheld() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(r#"{"content":[],"structuredContent":{"id":"not for you"}}"#.to_owned());
    let contract = "riskLevel: low\noutputSchema: { strict: true, properties: { id: { const: 1 } } }";
    let stage = Stage::with(script, contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    for replayed in [Value::Null, Value::from(true)] {
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
        assert_eq!((got.code().as_str(), &got.result()["_meta"]["mcpproxy/replayed"]), ("output_mismatch", &replayed));
        assert!(got.result()["structuredContent"]["id"].is_null(), "{}", got.0);
    }
    assert_eq!(stage.sent().len(), 1);
}

/// Builds a stage with these limits for its server.
async fn limited(script: Script, contract: &str, call_timeout: Duration, max_concurrent_calls: usize) -> Stage {
    let stage = Stage::with(script, contract, never_held()).await;
    let limited = ServerSettings { call_timeout, max_concurrent_calls, ..stage.peer.settings("fx") };
    let before = files(&stage.peer, contract, never_held());
    let settings = Settings { servers: vec![limited], ..(*before.settings).clone() };
    stage.rig.gateway.reload(Files { settings: settings.into(), ..before });
    within(stage.rig.gateway.ready()).await;
    stage
}

#[tokio::test]
async fn what_may_have_run_is_not_sent_again() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| None;
    let stage = limited(script, LOW, Duration::from_millis(200), 4).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let first = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
    assert_eq!(first.code(), "upstream_timeout");
    let record = &first.result()["_meta"]["mcpproxy/record"];
    for _ in 0..2 {
        let again = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
        assert_eq!(again.code(), "outcome_unknown");
        assert_eq!(again.details(), &json!({"tool": "fx:send", "record": record}));
    }
    assert_eq!(stage.sent().len(), 1);
}

/// If the contract declares a repeat harmless, a call with unknown outcome is sent again.
#[tokio::test]
async fn natural_keys() {
    let (named, mut agent) = stage(NATURAL).await;
    let first = Got::of(&mut agent, &named.rig, &send(ARGS, "")).await;
    let again = Got::of(&mut agent, &named.rig, &send(SAME_ARGS, "")).await;
    assert_eq!((without_marks(&again), named.sent().len()), (without_marks(&first), 1));
    assert_eq!(again.result()["_meta"]["mcpproxy/replayed"], true);
    let other = Got::of(&mut agent, &named.rig, &send(r#"{"to":"ada","body":"other"}"#, "")).await;
    assert_eq!(other.code(), "idempotency_conflict");
    assert_eq!(Got::of(&mut agent, &named.rig, &send(OTHER_ARGS, "")).await.code(), "sent");
    // Without any of the `keyFrom` arguments a call has no key.
    for _ in 0..2 {
        assert_eq!(Got::of(&mut agent, &named.rig, &send(r#"{"body":"x"}"#, "")).await.code(), "sent");
    }
    assert_eq!(named.sent().len(), 4);

    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| None;
    let unsure = limited(script, NATURAL, Duration::from_millis(200), 4).await;
    let mut agent = Agent::new(&unsure.rig, Way::Session, "a").await;
    assert_eq!(Got::of(&mut agent, &unsure.rig, &send(ARGS, "")).await.code(), "upstream_timeout");
    unsure.peer.rewrite(|script| script.call = |_| Some(text_result("sent")));
    assert_eq!(Got::of(&mut agent, &unsure.rig, &send(ARGS, "")).await.code(), "sent");
    let again = Got::of(&mut agent, &unsure.rig, &send(ARGS, "")).await;
    assert_eq!((again.code(), &again.result()["_meta"]["mcpproxy/replayed"]), ("sent".to_owned(), &json!(true)));
    assert_eq!(unsure.sent().len(), 2);
}

/// A call that waits for its agent takes the only slot at the server, so the next call is never sent.
#[tokio::test]
async fn a_key_is_free_again_when_nothing_was_sent() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |params| params.contains("eve").then(|| text_result("sent"));
    let mut stage = limited(script, LOW, Duration::from_millis(200), 1).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let other = Agent::at(&stage.rig, Way::Session, "b", "/mcp", ALL_CAPABILITIES).await;
    let (hanging, params) = (send(ARGS, ""), send(OTHER_ARGS, KEY));
    let (_, got) = tokio::join!(stage.rig.send(other.http(1, "tools/call", &hanging)), async {
        let call = stage.peer.next().await;
        call.send(r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Who?"}}"#).await;
        let got = Got::of(&mut agent, &stage.rig, &params).await;
        call.answer_text("done").await;
        got
    });
    assert_eq!((got.code(), stage.sent()), ("upstream_busy".to_owned(), vec![ARGS.to_owned()]));
    let again = Got::of(&mut agent, &stage.rig, &params).await;
    assert_eq!((again.code(), &again.result()["_meta"]["mcpproxy/replayed"]), ("sent".to_owned(), &Value::Null));
    assert_eq!(stage.sent(), [ARGS, OTHER_ARGS]);
}

/// If the first call's outcome is unknown, a repeat that waited for it has no answer to return. It is made if that does
/// no harm, and refused otherwise.
#[tokio::test]
async fn a_repeat_of_a_call_that_got_lost_is_made_if_that_does_no_harm() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| None;
    for (contract, more, expected, sent) in [(NATURAL, "", "sent", 2), (LOW, KEY, "outcome_unknown", 1)] {
        let mut stage = limited(script.clone(), contract, Duration::from_secs(1), 4).await;
        let agent = Agent::new(&stage.rig, Way::Session, "a").await;
        let params = send(ARGS, more);
        let call = |id| stage.rig.send(agent.http(id, "tools/call", &params));
        let (first, again) = tokio::join!(call(1), async {
            let _lost = stage.peer.next().await;
            stage.peer.rewrite(|script| script.call = |_| Some(text_result("sent")));
            call(2).await
        });
        let codes = [first, again].map(|answer| Got(serde_json::from_str(&answer.body).unwrap()).code());
        assert_eq!(codes, ["upstream_timeout", expected], "{contract}");
        assert_eq!(stage.sent().len(), sent, "{contract}");
    }
}

#[tokio::test]
async fn a_key_ends_with_its_time() {
    let (stage, mut agent) = stage(LOW).await;
    let now = now_ms();
    stage
        .write(Step::Claim(Box::new(NewClaim {
            agent: "a".to_owned(),
            tool: "fx:send".to_owned(),
            key: "key:k1".to_owned(),
            args_digest: Digest::of(b"other arguments"),
            now_ms: now - 10_000,
            expires_ms: now - 1,
        })))
        .await;
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await.code(), "sent");
    let again = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await;
    assert_eq!((again.code(), stage.sent().len()), ("sent".to_owned(), 1));
}

#[tokio::test]
async fn a_repeat_of_an_approved_call_needs_no_approval() {
    let (stage, mut agent) = stage(HIGH).await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await.id();
    let shared = Got::of(&mut agent, &stage.rig, &send(ARGS, r#","idempotency_key":"k2""#)).await.id();
    assert_eq!(shared, id, "the key is no part of the question");
    stage.approve(&id).await.unwrap();
    let named = format!("{KEY}{}", with_approval(&id));
    let answers = [named.as_str(), KEY, &named, KEY].map(|more| send(ARGS, more));
    for (index, params) in answers.iter().enumerate() {
        let got = Got::of(&mut agent, &stage.rig, params).await;
        let replayed = if index == 0 { Value::Null } else { Value::from(true) };
        assert_eq!((got.code().as_str(), &got.result()["_meta"]["mcpproxy/replayed"]), ("sent", &replayed), "{index}");
    }
    assert_eq!((stage.sent().len(), stage.rig.store.count_pending().await.unwrap()), (1, 0));
    let conflict = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, KEY)).await;
    assert_eq!(conflict.code(), "idempotency_conflict", "and nobody is asked about what cannot be made");
    assert_eq!(stage.rig.store.count_pending().await.unwrap(), 0);
}

#[tokio::test]
async fn approved_and_keyed_and_fifty_times_at_once() {
    let (stage, mut agent) = stage(HIGH).await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, KEY)).await.id();
    stage.approve(&id).await.unwrap();
    let params = [send(ARGS, &format!("{KEY}{}", with_approval(&id))), send(SAME_ARGS, KEY)];
    let calls = (0..50).map(|n: usize| stage.rig.send(agent.http(1, "tools/call", &params[n % 2])));
    let answers = within(join_all(calls)).await;
    let codes = answers.iter().map(|answer| Got(serde_json::from_str(&answer.body).unwrap()).code());
    let others: Vec<String> = codes.filter(|code| code != "sent").collect();
    assert_eq!((others, stage.sent().len()), (Vec::<String>::new(), 1));
}

/// A server that requests input has not finished the call, so the retry keeps the same key.
#[tokio::test]
async fn a_request_for_input_releases_the_key() {
    the_retry_reaches_the_server("").await;
}

/// A request for input that is marked as an error is still a request for input.
#[tokio::test]
async fn a_request_for_input_with_is_error_releases_the_key() {
    the_retry_reaches_the_server(r#""isError":true,"#).await;
}

async fn the_retry_reaches_the_server(mark: &str) {
    let request = format!(
        r#"{{{mark}"resultType":"input_required","inputRequests":{{"who":{{"method":"elicitation/create","params":{{"message":"Who?"}}}}}},"requestState":"s1"}}"#
    );
    let script = Script::new(Speaks::Modern, &format!("[{SEND}]"));
    let mut stage = Stage::with(script, LOW, never_held()).await;
    let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", ALL_CAPABILITIES).await;
    let params = send(ARGS, KEY);
    let (asked, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        stage.peer.next().await.answer(&request).await;
    });
    assert_eq!((asked.code().as_str(), &asked.result()["requestState"]), ("input_required", &json!("s1")));
    let params = params.strip_suffix('}').unwrap();
    let back = format!(r#"{params},"inputResponses":{{"who":{{"action":"accept"}}}},"requestState":"s1"}}"#);
    let (answered, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &back), async {
        let call = stage.peer.next().await;
        assert!(call.params().contains(r#""requestState":"s1""#), "{}", call.params());
        call.answer(r#"{"content":[{"type":"text","text":"sent"}],"resultType":"complete"}"#).await;
    });
    assert_eq!(answered.code(), "sent");
    let again = Got::of(&mut agent, &stage.rig, &back).await;
    assert_eq!((again.code(), &again.result()["_meta"]["mcpproxy/replayed"]), ("sent".to_owned(), &json!(true)));
    assert_eq!(stage.peer.calls().len(), 2);
}
