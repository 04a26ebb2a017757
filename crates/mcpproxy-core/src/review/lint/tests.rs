//! Tests every lint code with a case that has this finding and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::catalog::Offer;
use crate::contract::{
    Confirmation, DRAFT_MARKER, DryRun, Idempotency, RateLimit, Sensitive, StepUp, ToolPattern, Written,
};
use crate::schema::Schema;
use crate::{Pointer, RiskLevel, ServerName, Untrusted, Variant};

fn written<T>(value: T) -> Option<Written<T>> {
    Some(Written { value, line: 7, column: 3 })
}

fn schema(text: &str) -> Arc<Schema> {
    Arc::new(Schema::parse(text).unwrap())
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Parses a contract such as `risk=high operation=read …`. `quiet` adds the fields that a high level should have.
fn contract(text: &str) -> Contract {
    let mut contract = Contract::default();
    for pair in text.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "risk" => contract.risk = written(RiskLevel::parse(value).unwrap()),
            "operation" => contract.operation = written(Variant::from_operation(value).unwrap()),
            "alone" => contract.autonomous = written(value == "true"),
            "confirmation" => {
                contract.confirmation = written(match value {
                    "none" => Confirmation::None,
                    "when" => Confirmation::When(crate::schema::Schema::parse("{}").unwrap().into()),
                    _ => Confirmation::Required,
                });
            }
            "stepUp" => {
                contract.step_up = written(match value {
                    "never" => StepUp::Never,
                    "when" => StepUp::When(schema("{}")),
                    _ => StepUp::Always,
                });
            }
            "permissions" => contract.permissions = written(words(value)),
            "failures" => contract.failure_modes = written(words(value)),
            "rate" => contract.rate_limit = written(RateLimit { calls: 1, per: Duration::from_secs(1) }),
            "dryRun" => {
                let parameter = (!value.is_empty() && value != "none").then(|| value.to_owned());
                contract.dry_run = written(if value == "none" { DryRun::None } else { DryRun::Required { parameter } });
            }
            "keyFrom" => {
                let ttl = Duration::from_secs(60);
                contract.idempotency = written(Idempotency::Natural { key_from: words(value), ttl, valid_until: None });
            }
            "validUntil" => {
                let (key_from, ttl) = (words("id"), Duration::from_secs(60));
                let valid_until = Some(value.to_owned());
                contract.idempotency = written(Idempotency::Natural { key_from, ttl, valid_until });
            }
            "sensitive" => {
                let pointer = Pointer::parse(value).unwrap();
                contract.sensitive = written(vec![Sensitive { text: value.to_owned(), pointer }]);
            }
            "input" => contract.input_schema = written(schema(&format!("{{\"properties\":{{\"{value}\":{{}}}}}}"))),
            "when" => {
                let needed = schema(&format!("{{\"required\":[\"{value}\"]}}"));
                contract.confirmation = written(Confirmation::When(needed));
            }
            "quiet" => {
                contract.side_effects = written(vec![Untrusted::new("x")]);
                contract.audit_event = written("x".to_owned());
                contract.permissions = written(words("a:b"));
                contract.failure_modes =
                    written(words("permission_denied,confirmation_required,rate_limit_exceeded,dry_run_required"));
            }
            _ => panic!("{key}"),
        }
    }
    contract
}

fn pattern(text: &str) -> ToolPattern {
    let (server, tool) = text.split_once(':').unwrap();
    let prefix = tool.strip_suffix('*');
    ToolPattern {
        server: ServerName::parse(server).unwrap(),
        prefix: prefix.unwrap_or(tool).to_owned(),
        is_exact: prefix.is_none(),
    }
}

const ARGUMENTS: &str = r#""inputSchema":{"properties":{"to":{},"id":{}}},"outputSchema":{"properties":{"link":{}}}"#;

/// Findings that most contracts of these tests have. They have tests of their own.
const USUAL: [&str; 5] = ["C203", "C204", "C205", "C306", "C307"];

/// As `all_findings`, without the usual ones.
fn findings(tool: &str, hints: &str, own: Option<&str>, operator: Option<(&str, &str)>) -> Vec<Finding> {
    let mut findings = all_findings(tool, hints, own, operator);
    findings.retain(|finding| !USUAL.contains(&finding.code));
    findings
}

/// Lints a server `fx` with one tool, its own contract, and the operator's contract for a pattern.
fn all_findings(tool: &str, hints: &str, own: Option<&str>, operator: Option<(&str, &str)>) -> Vec<Finding> {
    let server = ServerName::parse("fx").unwrap();
    let json = format!("{{\"name\":\"{tool}\",{ARGUMENTS},\"annotations\":{{{hints}}}}}");
    let offered = Offered::parse(&server, &json).map(|offered| Offered { contract: own.map(contract), ..offered });
    let catalog = Catalog::new([(server, Arc::new(Offer::new([offered]).0))]);
    let contracts: Contracts = operator
        .into_iter()
        .map(|(tools, text)| (pattern(tools), Contract { file: Some("contracts/fx.yaml".into()), ..contract(text) }))
        .collect();
    let findings = lint(&contracts, &catalog);
    let about_tools = findings.iter().filter(|finding| finding.code == "C002").cloned().collect::<Vec<_>>();
    assert_eq!(unmatched(&contracts, &catalog), about_tools, "the same findings, without the other checks");
    findings
}

fn told(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        let place = finding.place.as_ref().map(|(file, line)| format!(" {file}:{line}")).unwrap_or_default();
        format!(
            "{} {} {}{place}: {}; {}",
            finding.code,
            finding.severity.as_str(),
            finding.subject,
            finding.message,
            finding.fix
        )
    };
    findings.iter().map(line).collect()
}

const READ_ONLY: &str = "\"readOnlyHint\":true";
const DESTRUCTIVE: &str = "\"destructiveHint\":true";

type Case =
    (&'static str, &'static str, Option<&'static str>, Option<(&'static str, &'static str)>, &'static [&'static str]);

const LEAVE: &str = "keep it if this is intended, otherwise remove the field";

const CASES: &[Case] = &[
    ("act", "", None, Some(("fx:act", "risk=low")), &[]),
    (
        "act",
        "",
        None,
        None,
        &["C004 hint fx: 1 of 1 tools have no risk level; run `mcpproxy contract draft fx` for a first file"],
    ),
    (
        "act",
        "",
        Some("risk=low"),
        Some(("other:act", "risk=low")),
        &[
            "C001 warning other:act contracts/fx.yaml:7: no server `other` is connected; correct the name before the colon, or connect the server",
        ],
    ),
    (
        "act",
        "",
        Some("risk=low"),
        Some(("fx:acts", "risk=low")),
        &["C002 warning fx:acts contracts/fx.yaml:7: server `fx` has no such tool; did you mean `fx:act`?"],
    ),
    (
        "act",
        "",
        None,
        Some(("fx:*", "operation=write")),
        &[
            "C004 hint fx: 1 of 1 tools have no risk level; run `mcpproxy contract draft fx` for a first file",
            "C003 warning fx:act contracts/fx.yaml:7: the tool has a contract, but no risk level; add `riskLevel`",
        ],
    ),
    (
        "act",
        "",
        Some("risk=high alone=false confirmation=required stepUp=always dryRun=to permissions=a:b,c:d operation=write"),
        Some((
            "fx:act",
            "risk=low alone=true confirmation=none stepUp=when dryRun=none permissions=a:b operation=read",
        )),
        &[
            "C101 warning fx:act contracts/fx.yaml:7: `autonomousExecution: true`, but the server's contract says false; LEAVE",
            "C101 warning fx:act contracts/fx.yaml:7: `confirmation: none`, but the server's contract says required; LEAVE",
            "C101 warning fx:act contracts/fx.yaml:7: `dryRun.mode: none`, but the server's contract says required; LEAVE",
            "C101 warning fx:act contracts/fx.yaml:7: `operation: read`, but the server's contract says write; LEAVE",
            "C101 warning fx:act contracts/fx.yaml:7: `permissions: 1 of them`, but the server's contract says 1 more; LEAVE",
            "C101 warning fx:act contracts/fx.yaml:7: `riskLevel: low`, but the server's contract says high; LEAVE",
            "C101 warning fx:act contracts/fx.yaml:7: `stepUpAuth: when`, but the server's contract says always; LEAVE",
        ],
    ),
    (
        "act",
        DESTRUCTIVE,
        None,
        Some(("fx:act", "risk=low operation=read")),
        &[
            "C102 warning fx:act contracts/fx.yaml:7: `operation: read`, but the server's annotations say destructive; LEAVE",
        ],
    ),
    (
        "act",
        DESTRUCTIVE,
        Some("risk=low operation=write"),
        None,
        &[
            "C103 warning fx:act: the server's contract says write, its annotations say destructive; the stricter one applies; to decide it, write `operation` in your own contract",
        ],
    ),
    (
        "act",
        "",
        Some("risk=high alone=true confirmation=none quiet"),
        None,
        &[
            "C104 hint fx:act: the server's contract says high and `autonomousExecution: true`; the risk level applies; you need to do nothing, but tell the author of the server",
            "C104 hint fx:act: the server's contract says high and `confirmation: none`; the risk level applies; you need to do nothing, but tell the author of the server",
        ],
    ),
    (
        "act",
        "",
        None,
        Some(("fx:act", "risk=critical alone=true confirmation=none stepUp=never quiet")),
        &[
            "C105 warning fx:act contracts/fx.yaml:7: `autonomousExecution: true` has no effect at level critical; remove the field, or lower `riskLevel`",
            "C105 warning fx:act contracts/fx.yaml:7: `confirmation: none` has no effect at level critical; remove the field, or lower `riskLevel`",
            "C106 warning fx:act contracts/fx.yaml:7: critical, but no approval needs a second factor; remove `stepUpAuth`, or limit it to some arguments with `when`",
        ],
    ),
    (
        "read_private_key",
        READ_ONLY,
        Some("risk=low"),
        None,
        &[
            "C201 hint fx:read_private_key: it seems to return a private key; write `riskLevel: forbidden` in a contract for this tool alone, or another level if it is harmless",
        ],
    ),
    (
        "read_private_key",
        READ_ONLY,
        None,
        Some(("fx:*", "risk=low")),
        &[
            "C201 hint fx:read_private_key contracts/fx.yaml:7: it seems to return a private key; write `riskLevel: forbidden` in a contract for this tool alone, or another level if it is harmless",
        ],
    ),
    ("read_private_key", READ_ONLY, None, Some(("fx:*", "risk=forbidden")), &[]),
    ("read_private_key", READ_ONLY, Some("risk=forbidden"), None, &[]),
    ("read_private_key", READ_ONLY, None, Some(("fx:read_private_key", "risk=low")), &[]),
    (
        "send_mail",
        READ_ONLY,
        Some("risk=low"),
        None,
        &[
            "C202 warning fx:send_mail: `send` in its name suggests write, but it is marked as reading; write the right `operation` in a contract for this tool alone",
        ],
    ),
    (
        "send_mail",
        "",
        None,
        Some(("fx:send*", "risk=low operation=read")),
        &[
            "C202 warning fx:send_mail contracts/fx.yaml:7: `send` in its name suggests write, but it is marked as reading; write the right `operation` in a contract for this tool alone",
        ],
    ),
    ("send_mail", READ_ONLY, None, Some(("fx:send_mail", "risk=low operation=read")), &[]),
    (
        "act",
        "",
        None,
        Some(("fx:act", "risk=high")),
        &[
            "C301 warning fx:act contracts/fx.yaml:7: high without `sideEffects`; describe the effects of a call for the user who approves it",
            "C302 hint fx:act contracts/fx.yaml:7: high without `auditEvent`; name the record, such as `email.sent`",
            "C303 hint fx:act contracts/fx.yaml:7: high without `failureModes`; list the error codes that agents can expect",
            "C304 warning fx:act contracts/fx.yaml:7: high without `permissions`; list the permissions that a token needs, such as `emails:send`",
        ],
    ),
    (
        "bulk_act",
        "",
        None,
        Some(("fx:bulk_act", "risk=medium")),
        &[
            "C305 warning fx:bulk_act contracts/fx.yaml:7: its name suggests a bulk operation, and there is no `dryRun`; add `dryRun: { mode: required }`",
        ],
    ),
    ("bulk_act", "", None, Some(("fx:bulk_act", "risk=medium dryRun")), &[]),
    (
        "act",
        "",
        None,
        Some(("fx:act", "risk=low dryRun=dry keyFrom=id,user,nope sensitive=/body input=cc")),
        &[
            "C401 error fx:act contracts/fx.yaml:7: `dryRun.parameter` names `dry`, which is not an argument of the tool; known arguments: `to`, `id`",
            "C402 error fx:act contracts/fx.yaml:7: `idempotency.keyFrom` names `nope`, which is not an argument of the tool; known arguments: `to`, `id`",
            "C402 error fx:act contracts/fx.yaml:7: `idempotency.keyFrom` names `user`, which is not an argument of the tool; known arguments: `to`, `id`",
            "C403 warning fx:act contracts/fx.yaml:7: `/body` matches no argument and no result of the tool; known arguments: `to`, `id`",
            "C404 warning fx:act contracts/fx.yaml:7: `inputSchema` names `cc`, which is not an argument of the tool; known arguments: `to`, `id`",
        ],
    ),
    ("act", "", None, Some(("fx:a*", "risk=low dryRun=to keyFrom=id sensitive=/link/url input=to")), &[]),
    ("act", "", None, Some(("fx:act", "risk=low when=to")), &[]),
    (
        "act",
        "",
        None,
        Some(("fx:act", "risk=low when=too")),
        &[
            "C404 warning fx:act contracts/fx.yaml:7: `confirmation.when` names `too`, which is not an argument of the tool; known arguments: `to`, `id`",
        ],
    ),
    ("act", "", None, Some(("fx:act", "risk=low validUntil=/link/until")), &[]),
    ("act", "", None, Some(("fx:act", "risk=low validUntil=/to")), &[]),
    (
        "act",
        "",
        None,
        Some(("fx:act", "risk=low validUntil=/nope")),
        &[
            "C402 error fx:act contracts/fx.yaml:7: `idempotency.validUntil` is `/nope`, which matches no argument and no result of the tool; known arguments: `to`, `id`",
        ],
    ),
    (
        "act",
        "",
        Some("risk=low sensitive=/body"),
        None,
        &["C403 warning fx:act: `/body` matches no argument and no result of the tool; known arguments: `to`, `id`"],
    ),
    (
        "act",
        "",
        None,
        Some(("fx:act", "risk=low permissions=a:b rate dryRun confirmation=required failures=x")),
        &[
            "C501 hint fx:act contracts/fx.yaml:7: the gateway itself can return `permission_denied`, `rate_limit_exceeded`, `dry_run_required`, `confirmation_required`; add them to `failureModes`",
        ],
    ),
];

#[test]
fn each_doubt_by_itself() {
    for (tool, hints, own, operator, expected) in CASES {
        let expected: Vec<String> = expected.iter().map(|line| line.replace("LEAVE", LEAVE)).collect();
        assert_eq!(told(&findings(tool, hints, *own, *operator)), expected, "{tool} {hints} {own:?} {operator:?}");
    }
}

#[test]
fn every_code_is_listed_once_and_occurs() {
    let listed: Vec<&str> = CODES.iter().map(|code| code.code).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(listed, sorted);
    let mut found: BTreeSet<&str> = CASES
        .iter()
        .flat_map(|(tool, hints, own, operator, _)| all_findings(tool, hints, *own, *operator))
        .map(|finding| finding.code)
        .collect();
    let open = "\"openWorldHint\":true";
    for hints in [open.to_owned(), format!("{open},{READ_ONLY}")] {
        found.extend(all_findings("act", &hints, Some("risk=low"), None).iter().map(|finding| finding.code));
    }
    found.extend(lint_files(&drafts()).iter().map(|finding| finding.code));
    found.extend(unchecked().iter().map(|finding| finding.code));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), listed);
}

/// Lints a tool whose schema has patterns that only a backtracking engine can run.
fn unchecked() -> Vec<Finding> {
    let server = ServerName::parse("fx").unwrap();
    let json = r#"{"name":"act","inputSchema":{"properties":{"a":{"pattern":"(?=x)"},"b":{"pattern":"(?!x)"}}}}"#;
    let own = Some(contract("risk=low"));
    let offered = Offered::parse(&server, json).map(|offered| Offered { contract: own, ..offered });
    let mut findings = lint(&Contracts::default(), &Catalog::new([(server, Arc::new(Offer::new([offered]).0))]));
    findings.retain(|finding| !USUAL.contains(&finding.code));
    findings
}

#[test]
fn patterns_that_are_left_to_the_server() {
    assert_eq!(
        told(&unchecked()),
        [
            "C405 hint fx:act: `/properties/a/pattern` of its `inputSchema` and 1 more is left to the server; if it matters, write a simpler `pattern` in the contract's own schema"
        ]
    );
}

fn drafts() -> Vec<(String, String)> {
    let draft = format!("\n{DRAFT_MARKER}: contracts for x\n- tool: x:y\n");
    let with_byte_order_mark = format!("\u{FEFF}{DRAFT_MARKER}\n- tool: x:z\n");
    [("a.yaml", draft.as_str()), ("b.yaml", "- tool: x:y\n"), ("c.yaml", with_byte_order_mark.as_str())]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .to_vec()
}

#[test]
fn a_file_that_is_still_a_draft() {
    assert_eq!(
        told(&lint_files(&drafts())),
        [
            "C019 hint a.yaml a.yaml:2: the file is still marked as a draft; review and correct its contracts, then remove the line",
            "C019 hint c.yaml c.yaml:1: the file is still marked as a draft; review and correct its contracts, then remove the line"
        ]
    );
}

#[test]
fn words_of_strangers_are_shown_escaped() {
    let found = findings("act", "", Some("risk=low keyFrom=\u{1b}[2J"), None);
    assert_eq!(
        told(&found),
        [
            "C402 error fx:act: `idempotency.keyFrom` names `\\u{1b}[2J`, which is not an argument of the tool; known arguments: `to`, `id`"
        ]
    );
}

/// Lints a server `fx` with tools of these names, and contracts from a file.
fn found_in(file: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let server = ServerName::parse("fx").unwrap();
    let tool = |name: String| Offered::parse(&server, &format!("{{\"name\":\"{name}\",\"inputSchema\":{{}}}}"));
    let catalog = Catalog::new([(server.clone(), Arc::new(Offer::new(names.into_iter().map(tool)).0))]);
    told(&lint(&Contracts::parse(&[("a.yaml".to_owned(), file.to_owned())]).unwrap(), &catalog))
}

#[test]
fn every_doubt_about_a_contract_has_a_line() {
    let file = "- tool: fx:act\n- category: x\n  tool: fx:other\n- tool: fx:gone\n";
    let found = found_in(file, ["act".to_owned(), "other".to_owned()]);
    let begin: Vec<&str> = found.iter().filter_map(|line| line.split_once(": ")).map(|(begin, _)| begin).collect();
    assert_eq!(
        begin,
        [
            "C004 hint fx",
            "C003 warning fx:act a.yaml:1",
            "C307 warning fx:act a.yaml:1",
            "C002 warning fx:gone a.yaml:4",
            "C003 warning fx:other a.yaml:2",
            "C307 warning fx:other a.yaml:2"
        ]
    );
}

/// Names are compared for the first contracts only, because thousands would take minutes.
#[test]
fn many_contracts_for_nothing() {
    let file: String = (0..300).map(|n| format!("- {{ tool: \"fx:tool_{n}x\", riskLevel: low }}\n")).collect();
    let begun = std::time::Instant::now();
    let found = found_in(&file, (0..3_000).map(|n| format!("tool_{n}")));
    let count = |text: &str| found.iter().filter(|line| line.starts_with("C002") && line.contains(text)).count();
    assert_eq!(
        (count("did you mean `fx:tool_"), count("run `mcpproxy tools list --server fx` to see its tools")),
        (20, 280)
    );
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn levels_are_compared_with_their_definition() {
    let check = |tool: &str, hints: &str, contract: &str, expected: &[&str]| {
        let found = all_findings(tool, hints, None, Some(("fx:*", contract)));
        let found = found.iter().filter(|finding| matches!(finding.code, "C203" | "C204" | "C205"));
        let found: Vec<String> = found.map(|finding| format!("{} {}", finding.code, finding.message)).collect();
        assert_eq!(found, expected, "{tool} {hints} {contract}");
    };
    check("delete_item", "", "risk=low", &["C203 low, but `delete` in its name suggests that nobody can undo it"]);
    check(
        "delete_item",
        "",
        "risk=medium",
        &["C203 medium, but `delete` in its name suggests that nobody can undo it"],
    );
    check("delete_item", "", "risk=high", &[]);
    check("send_mail", "", "risk=low", &["C203 low, but `send` in its name suggests that nobody can undo it"]);
    check("change_permissions", "", "risk=medium", &["C203 medium, but it changes permissions"]);
    check("create_payment_link", "", "risk=low", &["C203 low, but it is about payments"]);
    check("reset_password", "", "risk=low", &["C203 low, but it changes passwords or secrets"]);
    check("rotate_api_key", "", "risk=medium", &["C203 medium, but it makes or removes keys"]);
    check("read_private_key", "", "risk=low", &["C203 low, but it seems to return a private key"]);
    for tool in ["get_api_key", "list_passwords", "find_password"] {
        check(tool, READ_ONLY, "risk=high", &[]);
        let found = all_findings(tool, READ_ONLY, None, Some(("fx:*", "risk=low")));
        assert!(found.iter().any(|finding| finding.code == "C203"), "{tool}");
    }
    check("act", DESTRUCTIVE, "risk=medium", &["C203 medium, but the server says that it is destructive"]);
    check("list_permissions", "", "risk=low", &[]);
    let open = "\"openWorldHint\":true";
    check("act", open, "risk=low", &["C204 low, but it acts outside of its server (`openWorldHint`)"]);
    check("act", open, "risk=medium", &[]);
    check("act", "\"openWorldHint\":false", "risk=low", &[]);
    let reads = format!("{open},{READ_ONLY}");
    check("act", &reads, "risk=low", &["C205 low, and it reads from outside of its server (`openWorldHint`)"]);
}

#[test]
fn repeatable_tools_speak_of_repetition() {
    let check = |contract: &str, expected: usize| {
        let contracts =
            Contracts::parse(&[("contracts/fx.yaml".to_owned(), format!("tool: fx:act\n{contract}"))]).unwrap();
        let server = ServerName::parse("fx").unwrap();
        let json = format!("{{\"name\":\"act\",{ARGUMENTS}}}");
        let catalog = Catalog::new([(server.clone(), Arc::new(Offer::new([Offered::parse(&server, &json)]).0))]);
        let found = lint(&contracts, &catalog);
        assert_eq!(found.iter().filter(|finding| finding.code == "C306").count(), expected, "{contract}");
    };
    check("idempotency: { mode: natural, keyFrom: [id] }", 1);
    check("idempotency: key\nsideEffects: [A mail is sent.]", 1);
    check("idempotency: key\nsideEffects: [A mail is sent., Repeating the call sends nothing.]", 0);
    check("sideEffects: [A mail is sent.]", 0);
    // Words that only contain a word of repetition.
    check("idempotency: key\nsideEffects: [Mails those concerned and guards against loss within seconds.]", 1);
    check("idempotency: key\nsideEffects: [It is idempotent.]", 0);
    check("idempotency: key\nsideEffects: [A second call sends nothing.]", 0);
}

#[test]
fn missing_fields_are_counted() {
    let server = ServerName::parse("fx").unwrap();
    let json = format!("{{\"name\":\"act\",\"description\":\"Acts.\",{ARGUMENTS}}}");
    let catalog = Catalog::new([(server.clone(), Arc::new(Offer::new([Offered::parse(&server, &json)]).0))]);
    let text = "tool: fx:act\nriskLevel: low\npermissions: []\n";
    let contracts = Contracts::parse(&[("contracts/fx.yaml".to_owned(), text.to_owned())]).unwrap();
    let found: Vec<Finding> = lint(&contracts, &catalog).into_iter().filter(|finding| finding.code == "C307").collect();
    assert_eq!(
        told(&found),
        ["C307 warning fx:act contracts/fx.yaml:2: 4 of 13 fields are missing: `category`, `sideEffects`, \
          `auditEvent`, `failureModes`; add them; `mcpproxy contract coverage` counts them for all tools"]
    );
}
