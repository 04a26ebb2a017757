//! Contracts at work: every field changes what happens, forbidden tools do not exist, and no call has two generations.

use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::review::lint::Finding;
use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Agent as Identity, Scope};
use mcpproxy_gateway::Files;
use mcpproxy_store::{Record, Status, WholeRecord};
use serde_json::Value;

use crate::agent::{Agent, Reply, Way};
use crate::asked::never_held;
use crate::peer::{Peer, Script, Speaks, tool};
use crate::rig::{Rig, demo, line, settings, stdio};

/// A tool that says nothing about itself.
const PLAIN: &str = r#"{"name":"work","description":"Works.","inputSchema":{"type":"object","properties":{"to":{"type":"array"},"body":{"type":"string"},"fail":{"type":"string"}}}}"#;
const WRITE: &str = r#"{"name":"fx:work","args":{"to":["a"],"body":"hello"}}"#;

/// Fails with the code it is asked to fail with, else gives a small result.
fn work(params: &str) -> Option<String> {
    let params: Value = serde_json::from_str(params).unwrap();
    Some(match params["arguments"]["fail"].as_str() {
        Some(code) => format!(
            r#"{{"content":[{{"type":"text","text":"{code}: no"}}],"structuredContent":{{"error":{{"code":"{code}"}}}},"isError":true}}"#
        ),
        None => r#"{"content":[{"type":"text","text":"{\"id\":1,\"body\":\"echo\"}"}],"structuredContent":{"id":1,"body":"echo"}}"#.to_owned(),
    })
}

async fn peer(tools: &str) -> Peer {
    let mut script = Script::new(Speaks::Legacy, tools);
    script.call = work;
    Peer::new(script).await
}

/// The operator's contracts, in the form they are written.
pub(crate) fn contracts(text: &str) -> Arc<Contracts> {
    let parsed = Contracts::parse(&[("contracts/test.yaml".to_owned(), text.to_owned())]);
    Arc::new(parsed.unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}")))
}

pub(crate) fn policies(text: &str) -> Arc<Policies> {
    let parsed = Policies::parse(&[("policies/test.cedar".to_owned(), text.to_owned())]);
    Arc::new(parsed.unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}")))
}

fn files(settings: Settings, contracts: Arc<Contracts>) -> Files {
    Files { settings: Arc::new(settings), contracts, policies: Arc::default() }
}

/// A contract for `fx:work` with these further lines.
fn for_work(lines: &str) -> Arc<Contracts> {
    match lines {
        "" => Arc::default(),
        lines => contracts(&format!("tool: fx:work\n{lines}\n")),
    }
}

/// Compares what an agent and the operator see of one tool under one contract.
struct Observed {
    replies: Vec<Reply>,
    found: Value,
    listed: Value,
    records: Vec<WholeRecord>,
}

impl Observed {
    /// The codes of the calls' answers, `ok` where there is none.
    fn codes(&self) -> String {
        let code = |reply: &Reply| {
            let Reply::Result(text) = reply else { return "rpc error".to_owned() };
            let result: Value = serde_json::from_str(text).unwrap();
            let failure = &result["_meta"]["mcpproxy/failure"]["code"];
            let warning = &result["_meta"]["mcpproxy/warnings"][0]["code"];
            let own = &result["_meta"]["mcpproxy/error"];
            [own, failure, warning].into_iter().find_map(Value::as_str).unwrap_or("ok").to_owned()
        };
        self.replies.iter().map(code).collect::<Vec<_>>().join(" ")
    }

    fn metadata(&self, key: &str) -> String {
        let of = |record: &WholeRecord| {
            let metadata = [Some(&record.record.metadata), record.record.end_metadata.as_ref()].into_iter().flatten();
            let mut metadata = metadata.map(|text| serde_json::from_str::<Value>(text.for_json()).unwrap());
            metadata.find_map(|one| one.get(key).map(Value::to_string)).unwrap_or_else(|| "null".to_owned())
        };
        self.records.iter().map(of).collect::<Vec<_>>().join(" ")
    }

    fn args(&self) -> String {
        self.records.iter().map(|record| record.args.as_ref().unwrap().for_json().to_owned()).collect()
    }

    fn results(&self) -> String {
        let text = |record: &WholeRecord| record.result.as_ref().map_or_else(String::new, |r| r.for_json().to_owned());
        self.records.iter().map(text).collect()
    }
}

async fn look(contract: &str, scope: Scope, calls: &[(&str, &str)]) -> Observed {
    let peer = peer(&format!("[{PLAIN}]")).await;
    let settings = Settings { approvals: never_held(), ..settings([peer.settings("fx")]) };
    let rig = Rig::start(files(settings, for_work(contract))).await;
    let identity = Identity { name: "agent".to_owned(), scope };
    let mut agent = Agent::with(&rig, Way::Session, identity, "/mcp", "{}").await;
    let mut direct = Agent::at(&rig, Way::Session, "direct", "/mcp/s/fx", "{}").await;
    let mut replies = Vec::new();
    for (variant, parameters) in calls {
        replies.push(agent.call(&rig, variant, parameters).await);
    }
    let found = agent.call(&rig, "retrieve_tools", r#"{"query":"work","detail":"full"}"#).await.result();
    let found: Value = serde_json::from_str(&found).unwrap();
    let listed: Value = serde_json::from_str(&direct.request(&rig, "tools/list", "{}").await.result()).unwrap();
    let found = found["structuredContent"]["tools"][0].clone();
    let records = rig.whole_records().await;
    let records = records.into_iter().filter(|whole| whole.record.tool.is_some()).collect();
    Observed { replies, found, listed: listed["tools"][0].clone(), records }
}

/// Two contracts that differ in one field, and what differs with it.
async fn check(
    (one, other): (&str, &str),
    calls: &[(&str, &str)],
    what: impl Fn(&Observed) -> String,
    (expected_one, expected_other): (&str, &str),
) {
    let write_only = Scope { grants: vec!["mail:send".to_owned()], ..Scope::everything() };
    for (contract, expected) in [(one, expected_one), (other, expected_other)] {
        let seen = look(contract, write_only.clone(), calls).await;
        assert_eq!(what(&seen), expected, "{contract}");
    }
}

const ONE_WRITE: &[(&str, &str)] = &[("call_tool_write", WRITE)];

#[tokio::test]
async fn fields_that_decide_whether_a_call_is_made() {
    check(("riskLevel: medium", "riskLevel: high"), ONE_WRITE, Observed::codes, ("ok", "confirmation_required")).await;
    check(("riskLevel: low", "riskLevel: forbidden"), ONE_WRITE, Observed::codes, ("ok", "tool_not_found")).await;
    check(("operation: write", "operation: destructive"), ONE_WRITE, Observed::codes, ("ok", "contract_mismatch"))
        .await;
    let autonomous = ("autonomousExecution: true", "autonomousExecution: false");
    check(autonomous, ONE_WRITE, Observed::codes, ("ok", "confirmation_required")).await;
    let confirmation = ("confirmation: none", "confirmation: required");
    check(confirmation, ONE_WRITE, Observed::codes, ("ok", "confirmation_required")).await;
    let step_up = (
        "stepUpAuth: { when: { properties: { to: { minItems: 2 } } } }",
        "stepUpAuth: { when: { properties: { to: { minItems: 1 } } } }",
    );
    check(step_up, ONE_WRITE, Observed::codes, ("ok", "confirmation_required")).await;
    let permissions = ("permissions: [mail:send]", "permissions: [mail:send, files:read]");
    check(permissions, ONE_WRITE, Observed::codes, ("ok", "permission_denied")).await;
    let schema = (
        "inputSchema: { properties: { to: { maxItems: 1 } } }",
        "inputSchema: { properties: { to: { maxItems: 0 } } }",
    );
    check(schema, ONE_WRITE, Observed::codes, ("ok", "invalid_arguments")).await;
    check(("dryRun: supported", "dryRun: required"), ONE_WRITE, Observed::codes, ("ok", "dry_run_required")).await;
    let twice = [("call_tool_write", WRITE), ("call_tool_write", WRITE)];
    let limit = ("rateLimit: { calls: 2, per: 1h }", "rateLimit: { calls: 1, per: 1h }");
    check(limit, &twice, Observed::codes, ("ok ok", "ok rate_limit_exceeded")).await;
}

#[tokio::test]
async fn fields_that_decide_what_becomes_of_the_answer() {
    let output =
        ("outputSchema: { properties: { id: { const: 1 } } }", "outputSchema: { properties: { id: { const: 2 } } }");
    check(output, ONE_WRITE, Observed::codes, ("ok", "output_mismatch")).await;
    let strict = (
        "outputSchema: { properties: { id: { const: 2 } } }",
        "outputSchema: { strict: true, properties: { id: { const: 2 } } }",
    );
    let withheld = |seen: &Observed| seen.replies[0].brief().contains("do not repeat it").to_string();
    check(strict, ONE_WRITE, withheld, ("false", "true")).await;
    let failing = [("call_tool_write", r#"{"name":"fx:work","args":{"fail":"quota"}}"#)];
    let modes = ("failureModes: [quota]", "failureModes: [not_found]");
    check(modes, &failing, Observed::codes, ("quota", "undeclared_failure")).await;
    let on_record = |seen: &Observed| {
        let record = &seen.records[0].record;
        let end: Value = serde_json::from_str(record.end_metadata.as_ref().unwrap().for_json()).unwrap();
        format!("{} {}", record.code.as_ref().unwrap().for_json(), end["failure"])
    };
    let expected = (
        r#"quota {"code":"quota","declared":true}"#,
        r#"undeclared_failure {"code":"undeclared_failure","declared":false,"original":"quota"}"#,
    );
    check(modes, &failing, on_record, expected).await;
}

#[tokio::test]
async fn fields_that_decide_what_is_written_down() {
    let event = |seen: &Observed| seen.metadata("audit_event");
    check(
        ("auditEvent: mail.sent", "auditEvent: mail.queued"),
        ONE_WRITE,
        event,
        (r#""mail.sent""#, r#""mail.queued""#),
    )
    .await;
    let risk = |seen: &Observed| format!("{:?}", seen.records[0].record.risk.map(|risk| risk.as_str()));
    check(("riskLevel: low", "riskLevel: medium"), ONE_WRITE, risk, (r#"Some("low")"#, r#"Some("medium")"#)).await;
    let sensitive = ("sensitive: [/to]", "sensitive: [/body]");
    let expected = (r#"{"to":["***"],"body":"hello"}"#, r#"{"to":["a"],"body":"***"}"#);
    check(sensitive, ONE_WRITE, Observed::args, expected).await;
    let expected = (
        r#"{"content":[{"type":"text","text":"{\"id\":1,\"body\":\"echo\"}"}],"structuredContent":{"id":1,"body":"echo"}}"#,
        r#"{"content":[{"type":"text","text":"{\"id\":1,\"body\":\"***\"}"}],"structuredContent":{"id":1,"body":"***"}}"#,
    );
    check(sensitive, ONE_WRITE, Observed::results, expected).await;
    // A refusal is written down too, and says as little.
    let refused = [
        ("call_tool_write", r#"{"name":"fx:work","args":{"body":7}}"#),
        ("call_tool_write", r#"{"name":"fx:work","args_json":"{\"body\":\"plain\",\"to\":1}"}"#),
        // This one before its tool was even looked for.
        ("call_tool_write", r#"{"name":"fx:work","args":{"body":"x","to":2},"typo":1}"#),
        // Arguments beside `args`, and under a wrong name.
        ("call_tool_write", r#"{"name":"fx:work","args":{},"body":"x","input":{"to":2}}"#),
        // A tool that does not exist, with a name in it that does.
        ("call_tool", r#"{"name":"fx:work","args":{"body":"x","to":2}}"#),
        ("fx__work", r#"{"body":"x","to":2}"#),
        ("work", r#"{"body":"x","to":2}"#),
    ];
    let expected = (
        r#"{"name":"fx:work","args":{"body":7}}{"name":"fx:work","args_json":"{\"body\":\"plain\",\"to\":\"***\"}"}{"name":"fx:work","args":{"body":"x","to":"***"},"typo":1}{"name":"fx:work","args":{},"body":"x","input":{"to":"***"}}{"name":"fx:work","args":{"body":"x","to":"***"}}{"body":"x","to":"***"}{"body":"x","to":"***"}"#,
        r#"{"name":"fx:work","args":{"body":"***"}}{"name":"fx:work","args_json":"{\"body\":\"***\",\"to\":1}"}{"name":"fx:work","args":{"body":"***","to":2},"typo":1}{"name":"fx:work","args":{},"body":"***","input":{"to":2}}{"name":"fx:work","args":{"body":"***","to":2}}{"body":"***","to":2}{"body":"***","to":2}"#,
    );
    check(sensitive, &refused, Observed::args, expected).await;
}

/// A bare name that several tools have is refused. Until then nobody knows whose fields are sensitive, so all are.
#[tokio::test]
async fn an_ambiguous_name_is_masked_by_the_contracts_of_all_tools_that_it_may_mean() {
    let (one, two) = (peer(&format!("[{PLAIN}]")).await, peer(&format!("[{PLAIN}]")).await);
    let text = "tool: fx:work\nsensitive: [/to]\n---\ntool: fy:work\nsensitive: [/body]\n---\ntool: fz:work\nsensitive: [/fail]\n";
    let unreachable = mcpproxy_core::settings::ServerSettings { enabled: false, ..one.settings("fz") };
    let settings = settings([one.settings("fx"), two.settings("fy"), unreachable]);
    let rig = Rig::start(files(settings, contracts(text))).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let call = r#"{"name":"work","args":{"to":"a","body":"b","fail":"c","else":"d"}}"#;
    let reply = agent.call(&rig, "call_tool_write", call).await.brief();
    assert!(reply.starts_with("invalid_tool_name Several servers have a tool of this name."), "{reply}");
    let records = rig.whole_records().await;
    let refused = records.iter().find(|whole| whole.record.tool.is_some()).unwrap();
    assert_eq!(
        refused.args.as_ref().unwrap().for_json(),
        r#"{"name":"work","args":{"to":"***","body":"***","fail":"***","else":"d"}}"#
    );
}

#[tokio::test]
async fn fields_that_decide_what_agents_are_told() {
    let found = |pointer: &'static str| {
        move |seen: &Observed| seen.found.pointer(pointer).map(ToString::to_string).unwrap_or_default()
    };
    check(("riskLevel: low", "riskLevel: high"), &[], found("/risk_level"), (r#""low""#, r#""high""#)).await;
    check(("riskLevel: low", "riskLevel: critical"), &[], found("/needs"), ("[]", r#"["confirmation","step_up"]"#))
        .await;
    check(("dryRun: none", "dryRun: required"), &[], found("/needs"), ("[]", r#"["dry_run"]"#)).await;
    let call_with = (r#""call_tool_read""#, r#""call_tool_destructive""#);
    check(("operation: read", "operation: destructive"), &[], found("/call_with"), call_with).await;
    let texts = ("description: Sends.", "description: Mails.");
    check(texts, &[], found("/contract/description"), (r#""Sends.""#, r#""Mails.""#)).await;
    check(("category: mail", "category: files"), &[], found("/contract/category"), (r#""mail""#, r#""files""#)).await;
    let effects = ("sideEffects: [One.]", "sideEffects: [Two.]");
    check(effects, &[], found("/contract/sideEffects"), (r#"["One."]"#, r#"["Two."]"#)).await;
    let hints = |seen: &Observed| seen.listed["annotations"].to_string();
    let expected =
        (r#"{"readOnlyHint":true,"destructiveHint":false}"#, r#"{"readOnlyHint":false,"destructiveHint":true}"#);
    check(("operation: read", "operation: destructive"), &[], hints, expected).await;
    let idempotency = ("idempotency: none", "idempotency: { mode: natural, keyFrom: [to] }");
    check(idempotency, &[], hints, ("{}", r#"{"idempotentHint":true}"#)).await;
}

/// Every way to ask for a forbidden tool and for one that does not exist, answer by answer.
#[tokio::test]
async fn a_forbidden_tool_is_one_that_does_not_exist() {
    let tools = format!("[{PLAIN},{},{}]", tool("read_secret", r#"{"readOnlyHint":true}"#), tool("read_notes", "{}"));
    let peer = peer(&tools).await;
    let forbid = contracts("tool: fx:read_secret\nriskLevel: forbidden\n");
    let rig = Rig::start(files(settings([peer.settings("fx")]), forbid)).await;
    // The names differ in what cannot be guessed at: neither is near another tool's.
    let absent = "rear_sacred";
    for (name, path, prefix) in [("four", "/mcp", ""), ("direct", "/mcp/direct", "fx__"), ("own", "/mcp/s/fx", "")] {
        let mut agent = Agent::at(&rig, Way::Session, name, path, "{}").await;
        let listed = agent.ask(&rig, "tools/list", "{}").await;
        let resources = agent.ask(&rig, "resources/list", "{}").await;
        assert!(!listed.contains("read_secret") && !resources.contains("read_secret"), "{listed} {resources}");
        let mut answers = Vec::new();
        for name in ["read_secret", absent] {
            let mut all = String::new();
            let requests = match path {
                "/mcp" => ["read", "write", "destructive"]
                    .map(|variant| {
                        format!(r#"{{"name":"call_tool_{variant}","arguments":{{"name":"fx:{name}","args":{{}}}}}}"#)
                    })
                    .to_vec(),
                _ => vec![format!(r#"{{"name":"{prefix}{name}","arguments":{{}}}}"#)],
            };
            for params in requests {
                let reply = agent.request(&rig, "tools/call", &params).await;
                all.push_str(&reply.result().replace(name, "NAME"));
            }
            let uri = format!(r#"{{"uri":"contract://fx/{name}"}}"#);
            all.push_str(&agent.ask(&rig, "resources/read", &uri).await.replace(name, "NAME"));
            answers.push(all);
        }
        assert_eq!(answers[0], answers[1], "{path}");
    }
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let found = agent.call(&rig, "retrieve_tools", r#"{"query":"read secret notes","limit":50,"detail":"full"}"#).await;
    assert!(!found.result().contains("read_secret"));
    let near = agent.call(&rig, "call_tool_read", r#"{"name":"fx:read_secre"}"#).await.brief();
    assert!(!near.contains("read_secret'"), "{near}");
    // The operator sees it, and who tried.
    let tools = rig.gateway.tools(None);
    let seen = tools.iter().find(|tool| tool["name"] == "fx:read_secret").unwrap();
    assert_eq!(seen["risk_level"], "forbidden");
    assert!(peer.calls().is_empty());
    let records = rig.all_records().await;
    let is_attempt = |record: &&Record| record.code.as_ref().is_some_and(|code| code.for_json() == "forbidden_attempt");
    let attempts: Vec<&Record> = records.iter().filter(is_attempt).collect();
    assert_eq!(attempts.len(), 5, "{records:?}");
    for attempt in attempts {
        assert!(attempt.metadata.for_json().contains(r#""contract":{"digest":""#), "{attempt:?}");
    }
}

/// Two generations that differ before the call, in the record and after the call, and change while calls are under
/// way: each call has one of them whole.
#[tokio::test]
async fn a_reload_under_load_never_mixes_two_generations() {
    const ROUNDS: usize = 40;
    const AGENTS: [&str; 3] = ["a", "b", "c"];
    let mut peer = Peer::new(Script::new(Speaks::Legacy, &format!("[{PLAIN}]"))).await;
    let fx = settings([peer.settings("fx")]);
    let generation = |risk: &str, event: &str, id: u8| {
        let output = format!("{{ strict: true, properties: {{ id: {{ const: {id} }} }} }}");
        for_work(&format!("riskLevel: {risk}\nauditEvent: {event}\noutputSchema: {output}"))
    };
    let (one, two) = (generation("low", "gen.one", 1), generation("medium", "gen.two", 2));
    let rig = Rig::start(files(fx.clone(), Arc::clone(&one))).await;
    let mut agents = Vec::new();
    for name in AGENTS {
        agents.push(Agent::new(&rig, Way::Stateless, name).await);
    }
    for round in 0..ROUNDS {
        let next = if round % 2 == 0 { &two } else { &one };
        let calls = agents.iter_mut().map(|agent| agent.call(&rig, "call_tool_write", WRITE));
        let served = async {
            let mut heard = Vec::new();
            for _ in AGENTS {
                heard.push(peer.next().await);
            }
            rig.gateway.reload(files(fx.clone(), Arc::clone(next)));
            for call in heard {
                call.answer(r#"{"content":[],"structuredContent":{"id":1}}"#).await;
            }
        };
        tokio::join!(futures::future::join_all(calls), served);
    }
    let records = rig.all_records().await;
    let calls: Vec<_> = records.iter().filter(|record| record.tool.is_some()).collect();
    let mut seen = [0, 0];
    for record in calls {
        let end = record.end_metadata.as_ref().map(|end| end.for_json().to_owned());
        let risk = record.risk.map(|risk| risk.as_str()).unwrap();
        match (end.as_deref(), risk, record.status) {
            (Some(r#"{"audit_event":"gen.one"}"#), "low", Status::Success) => seen[0] += 1,
            // The agent did not get the result, so its event is not recorded.
            (None, "medium", Status::Error) => seen[1] += 1,
            mixed => panic!("{mixed:?}: {}", line(record)),
        }
    }
    assert_eq!(seen, [ROUNDS / 2 * AGENTS.len(); 2]);
}

#[tokio::test]
async fn a_policy_of_the_operator_is_named_in_the_refusal() {
    let peer = peer(&format!("[{PLAIN}]")).await;
    let forbid = r#"@id("no-work") @message("Work is over.") forbid (principal, action == Action::"write", resource in Server::"fx");"#;
    let files = Files { policies: policies(forbid), ..files(settings([peer.settings("fx")]), Arc::default()) };
    let rig = Rig::start(files).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let refused = agent.call(&rig, "call_tool_write", WRITE).await;
    assert_eq!(refused.brief(), "policy_violation Tool 'fx:work' is refused by policy 'no-work': Work is over.");
    let other = agent.call(&rig, "call_tool_destructive", WRITE).await;
    assert_eq!(other.brief(), r#"{"id":1,"body":"echo"}"#);
}

#[tokio::test]
async fn a_contract_can_be_read_before_the_call() {
    let peer = peer(&format!("[{PLAIN},{}]", tool("other", "{}"))).await;
    let rig =
        Rig::start(files(settings([peer.settings("fx")]), for_work("riskLevel: high\nsideEffects: [It works.]"))).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let listed = agent.request(&rig, "resources/list", "{}").await.result();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let uris: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().filter_map(|one| one["uri"].as_str()).collect();
    assert_eq!(uris, ["contract://fx/work"]);
    let templates = agent.request(&rig, "resources/templates/list", "{}").await.result();
    assert!(templates.contains("contract://{server}/{tool}"), "{templates}");
    let read = agent.request(&rig, "resources/read", r#"{"uri":"contract://fx/work"}"#).await.result();
    let read: Value = serde_json::from_str(&read).unwrap();
    let contract: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&contract["tool"], &contract["riskLevel"]), (&Value::from("fx:work"), &Value::from("high")));
    assert_eq!(contract["sideEffects"][0], "It works.");
    let mut newer = Agent::new(&rig, Way::Stateless, "newer").await;
    let read = newer.request(&rig, "resources/read", r#"{"uri":"contract://fx/work"}"#).await.result();
    assert!(read.ends_with(r#","ttlMs":60000,"cacheScope":"private"}"#), "{read}");
    let narrow =
        Identity { name: "narrow".to_owned(), scope: Scope { servers: Some(Vec::new()), ..Scope::everything() } };
    let mut narrow = Agent::with(&rig, Way::Session, narrow, "/mcp", "{}").await;
    let hidden = narrow.request(&rig, "resources/read", r#"{"uri":"contract://fx/work"}"#).await;
    assert_eq!(hidden.brief(), "-32602 Resource not found");
}

/// A contract for a server that was never reached may match a tool later, so nothing is said about it.
#[tokio::test]
async fn contracts_of_a_server_without_a_list_are_not_compared() {
    let text = "tool: demo:gone\nriskLevel: low\n---\ntool: away:send\nriskLevel: low\n";
    let away = stdio("away", "/no/such/program", &[]);
    let rig = Rig::start(files(settings([demo("demo"), away]), contracts(text))).await;
    let subjects = |findings: Vec<Finding>| findings.into_iter().map(|one| (one.code, one.subject)).collect::<Vec<_>>();
    assert_eq!(subjects(rig.gateway.unmatched_contracts()), [("C002", "demo:gone".to_owned())]);
    let mut linted = subjects(rig.gateway.contract_lint().findings);
    linted.retain(|(code, _)| ["C001", "C002"].contains(code));
    assert_eq!(linted, [("C001", "away:send".to_owned()), ("C002", "demo:gone".to_owned())]);
}

#[tokio::test]
async fn every_contract_of_the_demo_server_counts() {
    let rig = Rig::start(settings([demo("demo")])).await;
    assert_eq!(rig.server("demo").hidden_tools, []);
    let levels: Vec<String> = rig
        .gateway
        .tools(None)
        .iter()
        .map(|tool| format!("{} {}", tool["name"].as_str().unwrap(), tool["risk_level"].as_str().unwrap()))
        .collect();
    assert_eq!(levels.len(), 26, "{levels:?}");
    let count = |level: &str| levels.iter().filter(|one| one.ends_with(level)).count();
    assert_eq!(["low", "medium", "high", "critical", "forbidden"].map(count), [5, 5, 4, 7, 5], "{levels:?}");
}
