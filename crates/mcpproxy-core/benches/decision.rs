//! Measures the path from the bytes of a request to the decision, with catalogs of 10 to 10,000 tools.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion};
use mcpproxy_core::json::{self, members, string_value};
use mcpproxy_core::policy::Clock;
use mcpproxy_core::settings::{ContractSettings, IntentSettings, TwoKey, Unannotated, Unclassified, Weakening};
use mcpproxy_core::{
    Agent, Catalog, Decision, DecisionInputs, Denial, Limits, Moment, Offer, Offered, PriorState, Scope, ServerName,
    Variant, decide, declare,
};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const SERVERS_MAX: usize = 20;
const SETTINGS: IntentSettings =
    IntentSettings { strict_server_validation: true, two_key: TwoKey::Optional, unannotated: Unannotated::Warn };

const CONTRACTS: ContractSettings =
    ContractSettings { unclassified: Unclassified::Allow, weakening: Weakening::Confirm };

/// The expected decision of a benchmark call. The benchmark fails if a call is decided otherwise.
type Expected = &'static str;

const CALLS: [(&str, Variant, &str, Expected); 7] = [
    ("read", Variant::Read, "srv0:list_records_0", "allow"),
    ("write", Variant::Write, "srv0:update_records_0", "allow"),
    ("destructive", Variant::Destructive, "srv0:delete_records_0", "allow"),
    ("refused: contradicts the server", Variant::Read, "srv0:delete_records_0", "SERVER_MISMATCH"),
    ("refused: no such tool, a slip", Variant::Read, "srv0:list_recodrs_0", "tool_not_found"),
    ("refused: no such tool, a stranger", Variant::Read, "srv0:compose_a_symphony", "tool_not_found"),
    ("refused: no such server", Variant::Read, "nowhere:list_records_0", "tool_not_found"),
];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let agent = Agent { name: "local".to_owned(), scope: Scope::everything() };
    let catalogs = SIZES.map(|size| (size, catalog(size)));
    for (name, variant, tool, expected) in CALLS {
        let request = request(variant, tool);
        let mut group = criterion.benchmark_group(name);
        for (size, catalog) in &catalogs {
            assert_eq!(outcome(&decision(request.as_bytes(), &agent, catalog)), expected, "{name}");
            group.bench_with_input(BenchmarkId::from_parameter(size), catalog, |bencher, catalog| {
                bencher.iter(|| decision(black_box(request.as_bytes()), &agent, catalog));
            });
        }
        group.finish();
    }
    pieces(&mut criterion);
    criterion.final_summary();
}

/// Measures the steps one by one, and hostile requests.
fn pieces(criterion: &mut Criterion) {
    let read = request(Variant::Read, "srv0:list_records_0");
    let mut group = criterion.benchmark_group("pieces");
    group.bench_function("strict reader", |bencher| bencher.iter(|| json::read(black_box(read.as_bytes())).is_ok()));
    let parameters = parameters(&read);
    group.bench_function("intent", |bencher| {
        bencher.iter(|| declare(Variant::Read, black_box(parameters), TwoKey::Optional).is_ok());
    });
    let text = format!("\"{}\"", "plain text, as in a file ".repeat(40_000));
    group.bench_function("strict reader, string of 1 MB", |bencher| {
        bencher.iter(|| json::read(black_box(text.as_bytes())).is_ok());
    });
    let numbers = format!("[{}0]", "{\"a\":1,\"b\":[2.5,null]},".repeat(40_000));
    group.bench_function("strict reader, objects of 1 MB", |bencher| {
        bencher.iter(|| json::read(black_box(numbers.as_bytes())).is_ok());
    });
    let long_key = format!("{{\"{}\":1}}", "x".repeat(1_000_000));
    group.sample_size(10).bench_function("unknown field of 1 MB", |bencher| {
        bencher.iter(|| declare(Variant::Read, black_box(&long_key), TwoKey::Optional).is_err());
    });
    group.finish();
}

/// Runs a call through the gateway without I/O: read, split, declare, resolve, decide.
fn decision(bytes: &[u8], agent: &Agent, catalog: &Catalog) -> Decision {
    let text = json::read(bytes).unwrap();
    let params = member(text, "params");
    let variant = Variant::from_tool(&string_value(member(params, "name")).unwrap()).unwrap();
    match declare(variant, member(params, "arguments"), SETTINGS.two_key) {
        Ok(declared) => {
            let tool = catalog.resolve(&declared.name);
            let ground = DecisionInputs { intent: &SETTINGS, contracts: &CONTRACTS, catalog };
            decide(
                ground,
                agent,
                declared,
                tool,
                Moment {
                    clock: Clock::default(),
                    limits: &Limits::default(),
                    prior: PriorState::default(),
                    session_began_ms: None,
                },
            )
        }
        Err(denial) => Decision::Deny(denial),
    }
}

fn member<'t>(object: &'t str, wanted: &str) -> &'t str {
    members(object).unwrap().into_iter().find(|(key, _)| key == wanted).unwrap().1
}

fn parameters(request: &str) -> &str {
    member(member(request, "params"), "arguments")
}

fn outcome(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow(_) => "allow",
        Decision::Ask(_) => "ask",
        Decision::Preview(_) => "preview",
        Decision::Repeat(_) => "repeat",
        Decision::Deny(denial) => Denial::code(denial),
    }
}

/// A request of about 200 bytes, as an editor sends it.
fn request(variant: Variant, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"{}","arguments":{{"name":"{tool}","args_json":"{{\"owner\":\"acme\",\"limit\":20}}","intent_reason":"list what is open"}}}}}}"#,
        variant.tool()
    )
}

/// Builds a catalog with several servers. One third of the tools read, one third write, one third destroy.
fn catalog(size: usize) -> Catalog {
    let hints = [
        ("list", r#"{"readOnlyHint":true}"#),
        ("update", r#"{"readOnlyHint":false,"destructiveHint":false}"#),
        ("delete", r#"{"destructiveHint":true}"#),
    ];
    // At least three tools per server, so that the smallest catalog has every tool that the benchmark calls.
    let servers = (size / hints.len()).min(SERVERS_MAX);
    let servers = (0..servers).map(|number| {
        let server = ServerName::parse(&format!("srv{number}")).unwrap();
        let count = size / servers + usize::from(number < size % servers);
        let tools = (0..count).zip(hints.iter().cycle()).map(|(tool, (verb, annotations))| {
            let json = format!(
                r#"{{"name":"{verb}_records_{}","description":"Does it","inputSchema":{{"type":"object"}},"annotations":{annotations}}}"#,
                tool / hints.len()
            );
            Offered::parse(&server, &json)
        });
        let (offer, hidden) = Offer::new(tools);
        assert_eq!(hidden.len(), 0);
        (server, Arc::new(offer))
    });
    let catalog = Catalog::new(servers);
    assert_eq!(catalog.tools().count(), size);
    catalog
}
