//! Every lint code, with a case that has this finding and no other.

use super::*;

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
