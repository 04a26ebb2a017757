//! Risk levels, repetition and missing fields, compared with their definitions.

use super::*;

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
    let check = |contract: &str, expected: Option<&str>| {
        let text = format!("tool: fx:act\n{contract}\n");
        let contracts = Contracts::parse(&[("contracts/fx.yaml".to_owned(), text)]).unwrap();
        let found = lint(&contracts, &catalog).into_iter().filter(|finding| finding.code == "C307");
        let found: Vec<String> = found.map(|finding| finding.message).collect();
        assert_eq!(found, Vec::from_iter(expected), "{contract}");
    };
    check(
        "riskLevel: low\npermissions: []",
        Some("4 of 13 fields are missing: `category`, `sideEffects`, `auditEvent`, `failureModes`"),
    );
    // C301 and C304 are about the other two.
    check("riskLevel: high", Some("3 more of 13 fields are missing: `category`, `auditEvent`, `failureModes`"));
    check("riskLevel: high\ncategory: x\nauditEvent: a.b\nfailureModes: [confirmation_required]", None);
}
