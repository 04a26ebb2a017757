//! Tests for drafts, compared as whole texts.

use super::*;
use crate::Pointer;
use crate::contract::{Confirmation, DryRun, Sensitive};

fn offer(tools: &[&str]) -> Offer {
    let server = ServerName::parse("fx").unwrap();
    let (offer, hidden) = Offer::new(tools.iter().map(|json| Offered::parse(&server, json)));
    assert_eq!(hidden, []);
    offer
}

/// Returns the draft without its header.
fn body(tools: &[&str]) -> String {
    let text = draft(&ServerName::parse("fx").unwrap(), &offer(tools));
    text.split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn the_head_says_what_it_is() {
    let text = draft(&ServerName::parse("fx").unwrap(), &Offer::default());
    assert_eq!(
        text,
        "\
# DRAFT: contracts for the tools of `fx`, derived from their schemas, annotations and names.
# A gateway enforces this file as soon as it is in its folder `contracts/`. Review and correct each contract,
# then remove the first line. `mcpproxy contract lint` checks the contracts that are in force.
# The server's own sentences are comments, because a user who approves a call would read them as yours.

# The server offers no tools.
[]
"
    );
}

#[test]
fn one_contract_for_each_tool() {
    let tools = [
        r#"{"name":"list_items","description":"Lists items. More words.","inputSchema":{},"annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"email_send","description":"","inputSchema":{"properties":{"to":{},"api_key":{},"page_token":{},"dry_run":{"type":"boolean"}}},"annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"delete_item","inputSchema":{"properties":{"preview":{"type":"string"}}},"annotations":{"idempotentHint":true}}"#,
        r#"{"name":"frobnicate","inputSchema":{}}"#,
        r#"{"name":"read_private_key","inputSchema":{},"_meta":{"SecretHint":true}}"#,
        r#"{"name":"bulk_update","inputSchema":{},"annotations":{"destructiveHint":false,"category":"rows"}}"#,
    ];
    assert_eq!(
        body(&tools),
        "\
# list_items: low, because annotations say read; `list` in its name suggests read.
- tool: fx:list_items
  category: fx
  riskLevel: low
  operation: read
  # description: \"Lists items.\"  # the server's words
  # permissions: [fx:list]

# email_send: critical, because annotations say read; `send` in its name suggests write; these differ, so the stricter one is used.
- tool: fx:email_send
  category: fx
  riskLevel: critical
  operation: write
  sideEffects: [\"Changes data on fx.\"]
  dryRun: { mode: supported, parameter: dry_run }
  sensitive: [\"/api_key\"]
  # permissions: [fx:send]
  # auditEvent: fx.email_send

# delete_item: critical, because `delete` in its name suggests destructive.
- tool: fx:delete_item
  category: fx
  riskLevel: critical
  operation: destructive
  sideEffects: [\"Changes data on fx in a way that may be impossible to undo.\"]
  # permissions: [fx:delete]
  # auditEvent: fx.delete_item
  # idempotency: { mode: natural, keyFrom: [] }  # the server says that it is idempotent: name the arguments that identify a call

# frobnicate: medium, because nothing states what it does, so it is treated as a write.
- tool: fx:frobnicate
  category: fx
  riskLevel: medium
  operation: write
  sideEffects: [\"Changes data on fx.\"]
  # permissions: [fx:write]
  # auditEvent: fx.frobnicate

# read_private_key: high, because `read` in its name suggests read; it handles passwords or keys.
# Consider `riskLevel: forbidden`: it seems to return a private key.
# The server marks it with `SecretHint`: its results hold secrets.
- tool: fx:read_private_key
  category: fx
  riskLevel: high
  operation: read
  # permissions: [fx:read]

# bulk_update: critical, because `update` in its name suggests write; it works on many things at once.
- tool: fx:bulk_update
  category: rows
  riskLevel: critical
  operation: write
  sideEffects: [\"Changes data on fx.\"]
  # permissions: [fx:update]
  # auditEvent: fx.bulk_update
"
    );
}

#[test]
fn what_servers_already_say_counts_where_it_is_stricter() {
    let tools = [
        r#"{"name":"policy-delete","inputSchema":{},"annotations":{"readOnlyHint":false,"destructiveHint":true},"_meta":{"mcp.digitalocean.com/registry":{"operation":"delete","risk":"medium","permission":"tools.policy_delete"}}}"#,
        r#"{"name":"pods_exec","inputSchema":{},"_meta":{"io.kubernetes-mcp-server/rbac":{"bounded":{"requirements":[{"verbs":["create"],"target":{"resource":{"resource":"pods","subresource":"exec"}}}]}}}}"#,
    ];
    assert_eq!(
        body(&tools),
        "\
# policy-delete: critical, because `mcp.digitalocean.com/registry` says destructive and medium; annotations say destructive; `delete` in its name suggests destructive; its name and annotations suggest critical; these differ, so the stricter one is used.
- tool: fx:policy-delete
  category: fx
  riskLevel: critical
  operation: destructive
  permissions: [tools.policy_delete]
  sideEffects: [\"Changes data on fx in a way that may be impossible to undo.\"]
  # auditEvent: fx.policy-delete

# pods_exec: high, because `io.kubernetes-mcp-server/rbac` says write; `exec` in its name suggests write.
- tool: fx:pods_exec
  category: fx
  riskLevel: high
  operation: write
  permissions: [pods/exec:create]
  sideEffects: [\"Changes data on fx.\"]
  # auditEvent: fx.pods_exec
"
    );
}

/// Users read the fields of a contract file as the operator's words.
#[test]
fn sentences_of_the_server_are_comments() {
    let tool = r#"{"name":"delete_item","description":"Old.","inputSchema":{},"_meta":{"mcp-first/contract":{"description":"Harmless.","sideEffects":["Nothing is changed.\nx: y"]}}}"#;
    let text = body(&[tool]);
    assert_eq!(
        text,
        "\
# delete_item: critical, because `delete` in its name suggests destructive.
- tool: fx:delete_item
  category: fx
  riskLevel: critical
  operation: destructive
  sideEffects: [\"Changes data on fx in a way that may be impossible to undo.\"]
  # description: Harmless.  # the server's words
  # sideEffects: [\"Nothing is changed.\\nx: y\"]  # the server's words
  # permissions: [fx:delete]
  # auditEvent: fx.delete_item
"
    );
    assert!(crate::contract::Contracts::parse(&[("fx.yaml".to_owned(), text)]).is_ok());
}

/// Text from a server always stays inside one quoted string of a comment.
#[test]
fn a_description_cannot_become_a_field() {
    let tool = r#"{"name":"list","description":"a\u0085\u2028riskLevel: low #\u202e \"} - &x *y\u001b[2J","inputSchema":{"properties":{"pass\nriskLevel: low":{},"password\"":{}}},"annotations":{"category":"a\nb"}}"#;
    assert_eq!(
        body(&[tool]),
        "\
# list: low, because `list` in its name suggests read.
- tool: fx:list
  category: fx
  riskLevel: low
  operation: read
  # description: \"a\\u0085\\u2028riskLevel: low #\\u202e \\\"} - &x *y\\u001b[2J\"  # the server's words
  # permissions: [fx:list]
"
    );
}

#[test]
fn first_sentences() {
    let check = |text: &str, expected: Option<&str>| assert_eq!(first_sentence(text).as_deref(), expected, "{text}");
    check("", None);
    check(" \n \n", None);
    check("One. Two.", Some("One."));
    check("\n  Version 1.5 of it\nmore", Some("Version 1.5 of it"));
    check(&"x".repeat(300), Some(&format!("{}…", "x".repeat(200))));
}

fn written<T>(value: T) -> Option<Written<T>> {
    Some(Written { value, line: 0, column: 0 })
}

fn own(risk: Option<RiskLevel>) -> Contract {
    let when = crate::schema::Schema::parse("{\"required\":[\"to\"]}").unwrap();
    Contract {
        risk: risk.and_then(written),
        operation: written(Variant::Read),
        autonomous: written(true),
        confirmation: written(Confirmation::None),
        step_up: written(StepUp::When(when.into())),
        dry_run: written(DryRun::Supported { parameter: None }),
        sensitive: written(vec![Sensitive { text: "/a b".to_owned(), pointer: Pointer::parse("/a b").unwrap() }]),
        ..Contract::default()
    }
}

/// The server's own contract is written into the draft, so that an operator can change it.
#[test]
fn a_contract_of_the_server_is_taken_over() {
    let check = |contract: Contract, expected: &[&str]| {
        let server = ServerName::parse("fx").unwrap();
        let json = r#"{"name":"act","inputSchema":{},"annotations":{"readOnlyHint":false}}"#;
        let offered = Offered::parse(&server, json).map(|offered| Offered { contract: Some(contract), ..offered });
        let text = draft(&server, &Offer::new([offered]).0);
        let fields: Vec<&str> =
            text.lines().filter(|line| !line.contains('#')).filter_map(|line| line.strip_prefix("  ")).collect();
        let (first, last) = (["category: fx"], ["sensitive: [\"/a b\"]"]);
        assert_eq!(fields, [&first[..], expected, &last].concat());
    };
    let when = "stepUpAuth: { when: { required: [to] } }";
    let changes = "sideEffects: [\"Changes data on fx.\"]";
    let dry_run = "dryRun: { mode: supported }";
    check(own(Some(RiskLevel::Critical)), &["riskLevel: critical", "operation: write", when, changes, dry_run]);
    let medium = ["riskLevel: medium", "operation: write"];
    check(own(None), &[&medium[..], &[when, changes, dry_run]].concat());
    // A forbidden tool is never called, so its draft has no fields about calls.
    check(own(Some(RiskLevel::Forbidden)), &["riskLevel: forbidden", "operation: write", changes]);
    // If two sources contradict each other, the stricter one is written.
    let not_alone = Contract { autonomous: written(false), ..own(None) };
    check(not_alone, &[&medium[..], &["autonomousExecution: false", when, changes, dry_run]].concat());
}

/// A server's harmless-looking values must not become the operator's values, which are final.
#[test]
fn a_server_cannot_talk_its_tools_down() {
    let weak = r#""riskLevel":"low","operation":"read","autonomousExecution":true,"confirmation":"none","permissions":[],"sideEffects":[]"#;
    let tool = |name: &str, rest: &str, annotations: &str| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{}},"annotations":{{{annotations}}},"_meta":{{"mcp-first/contract":{{{weak},{rest}}}}}}}"#
        )
    };
    let tools = [
        tool("delete_users", r#""stepUpAuth":false"#, "\"readOnlyHint\":true"),
        tool("drop_rows", r#""stepUpAuth":{"when":{"required":["all"]}}"#, ""),
        tool("read_private_key", r#""failureModes":["gone"]"#, ""),
        tool("bulk_update", r#""rateLimit":{"calls":1,"per":"1m"}"#, ""),
        tool("list_items", r#""stepUpAuth":{"when":{"required":["all"]}}"#, ""),
    ];
    assert_eq!(
        body(&tools.iter().map(String::as_str).collect::<Vec<_>>()),
        "\
# delete_users: critical, because the server's contract says read and low; annotations say read; `delete` in its name suggests destructive; its name and annotations suggest critical; these differ, so the stricter one is used.
- tool: fx:delete_users
  category: fx
  riskLevel: critical
  operation: destructive
  sideEffects: [\"Changes data on fx in a way that may be impossible to undo.\"]
  # permissions: [fx:delete]
  # auditEvent: fx.delete_users

# drop_rows: critical, because the server's contract says read and low; `drop` in its name suggests destructive; its name and annotations suggest critical; these differ, so the stricter one is used.
- tool: fx:drop_rows
  category: fx
  riskLevel: critical
  operation: destructive
  sideEffects: [\"Changes data on fx in a way that may be impossible to undo.\"]
  # permissions: [fx:drop]
  # auditEvent: fx.drop_rows

# read_private_key: high, because the server's contract says read and low; `read` in its name suggests read; it handles passwords or keys; its name and annotations suggest high; these differ, so the stricter one is used.
# Consider `riskLevel: forbidden`: it seems to return a private key.
- tool: fx:read_private_key
  category: fx
  riskLevel: high
  operation: read
  failureModes: [gone]
  # permissions: [fx:read]

# bulk_update: critical, because the server's contract says read and low; `update` in its name suggests write; it works on many things at once; its name and annotations suggest critical; these differ, so the stricter one is used.
- tool: fx:bulk_update
  category: fx
  riskLevel: critical
  operation: write
  sideEffects: [\"Changes data on fx.\"]
  rateLimit: { calls: 1, per: \"1m\" }
  # permissions: [fx:update]
  # auditEvent: fx.bulk_update

# list_items: low, because the server's contract says read and low; `list` in its name suggests read.
- tool: fx:list_items
  category: fx
  riskLevel: low
  operation: read
  stepUpAuth: { when: { required: [all] } }
  # permissions: [fx:list]
"
    );
}

#[test]
fn a_hint_about_its_reach_lowers_no_tool() {
    for reach in [true, false] {
        let tool = format!(r#"{{"name":"send_note","inputSchema":{{}},"annotations":{{"openWorldHint":{reach}}}}}"#);
        let text = body(&[&tool]);
        assert!(text.contains("\n  riskLevel: critical\n"), "{reach}: {text}");
    }
}

/// Without a verb that says what the tool does, the subject in its name still counts.
#[test]
fn a_delicate_subject_counts_without_a_verb() {
    let tool = r#"{"name":"vault_password","inputSchema":{},"_meta":{"mcp-first/contract":{"riskLevel":"low"}}}"#;
    let text = body(&[tool]);
    assert!(text.contains("\n  riskLevel: high\n"), "{text}");
}

/// A server's schemas are not compiled before the draft, and the draft must still be a valid file.
#[test]
fn a_schema_that_no_file_could_have_is_left_out() {
    let tool = r#"{"name":"list","inputSchema":{},"_meta":{"mcp-first/contract":{"stepUpAuth":{"when":{"pattern":"(?=a)"}},"inputSchema":{"required":["a","a"]},"outputSchema":{"required":["a"]}}}}"#;
    let text = body(&[tool]);
    assert_eq!(
        text,
        "\
# list: low, because `list` in its name suggests read.
# The schema in `stepUpAuth` of the server's contract cannot be used. Write one here that can. It replaces the server's.
# The schema in `inputSchema` of the server's contract cannot be used. Write one here that can. It replaces the server's.
- tool: fx:list
  category: fx
  riskLevel: low
  operation: read
  outputSchema: { required: [a] }
  # permissions: [fx:list]
"
    );
    assert!(crate::contract::Contracts::parse(&[("fx.yaml".to_owned(), text)]).is_ok());
}
