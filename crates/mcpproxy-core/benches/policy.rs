//! Measures the operator's policies: loading, selecting those of each tool, and evaluating them for each call.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on has failed")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion};
use mcpproxy_core::policy::{Clock, Policies};
use mcpproxy_core::{Agent, Catalog, Intent, Offer, Offered, Scope, ServerName, Untrusted, Variant};

const COUNTS: [usize; 4] = [1, 10, 100, 1_000];
const SERVERS: usize = 100;

/// Conditions that do not hold for the benchmark call, each with the inputs that its evaluation needs.
const CONDITIONS: [(&str, &str); 4] = [
    ("tool", "resource.riskRank >= 3 && resource.operation == \"destructive\""),
    ("time", "context.time.hour < 7 || context.time.isWeekend"),
    ("instant", "context.now < datetime(\"1960-01-01\")"),
    ("agent", "principal.grants.contains(\"mail:*\")"),
];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    calls(&mut criterion);
    selection(&mut criterion);
    heavy();
    criterion.final_summary();
}

fn calls(criterion: &mut Criterion) {
    let tools = catalog(1_000);
    let mut group = criterion.benchmark_group("call");
    for (name, condition) in CONDITIONS {
        for count in COUNTS {
            let policies = policies(count, |_| format!("(principal, action, resource) when {{ {condition} }}"));
            bench_call(
                &mut group,
                BenchmarkId::new(format!("matching policies, about the {name}"), count),
                &policies,
                &tools,
            );
        }
    }
    for count in COUNTS {
        let policies = policies(count, |number| {
            let (server, condition) = (number % SERVERS, CONDITIONS.get(number % 4).unwrap().1);
            format!("(principal, action, resource in Server::\"srv{server}\") when {{ {condition} }}")
        });
        bench_call(&mut group, BenchmarkId::new("policies over a hundred servers", count), &policies, &tools);
        let policies = self::policies(count, |number| {
            format!("(principal == Agent::\"agent{number}\", action, resource) when {{ context.time.hour < 7 }}")
        });
        bench_call(&mut group, BenchmarkId::new("policies for other agents", count), &policies, &tools);
    }
    group.finish();
}

fn bench_call(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    id: BenchmarkId,
    policies: &Policies,
    catalog: &Catalog,
) {
    let tool = catalog.tools().next().unwrap();
    let tool_policies = policies.for_tool(tool.subject()).unwrap();
    let (agent, intent, clock) = call();
    assert_eq!(tool_policies.violations(&agent, tool.subject(), &intent, clock), []);
    group.bench_function(id, |bencher| {
        bencher.iter(|| tool_policies.violations(black_box(&agent), tool.subject(), &intent, clock));
    });
}

/// Measures selecting the policies for 10,000 tools, and loading a policy file.
fn selection(criterion: &mut Criterion) {
    let tools = catalog(10_000);
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for count in COUNTS {
        let text = |number: usize| {
            let (server, condition) = (number % SERVERS, CONDITIONS.get(number % 4).unwrap().1);
            let resource =
                if number.is_multiple_of(2) { String::new() } else { format!(" in Server::\"srv{server}\"") };
            format!("(principal, action, resource{resource}) when {{ {condition} }}")
        };
        let policies = policies(count, text);
        group.bench_function(BenchmarkId::new("for 10,000 tools, policies", count), |bencher| {
            bencher.iter(|| tools.tools().filter_map(|tool| policies.for_tool(tool.subject())).count());
        });
        let files = file(count, text);
        group.bench_function(BenchmarkId::new("read policies", count), |bencher| {
            bencher.iter(|| Policies::parse(black_box(&files)).is_ok());
        });
    }
    group.finish();
}

/// Measures the most expensive policies that the limits allow. One call must stay below a millisecond.
fn heavy() {
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(", ");
    let pattern = format!("resource.name like \"*{}b\"", "a".repeat(64));
    let record = format!("{{{}}}", many(120, &|n| format!("a{n}: {n}")));
    let text = |n: usize| format!("\"{n:050}\"");
    let conditions = [
        ("a set", format!("[{}].contains(resource.name)", many(499, &text))),
        ("sets", format!("[{}].contains([resource.name])", many(90, &|n| format!("[{}]", text(n))))),
        ("a set of all", format!("resource.permissions.containsAll([{}])", many(499, &text))),
        ("a record", format!("{record} != {record}")),
        ("patterns", [pattern.as_str(); 28].join(" || ")),
        ("and", vec!["context.variant == \"read\""; 31].join(" && ")),
        ("sums", format!("0 == {}", vec!["1"; 93].join(" + "))),
        ("else if", format!("{} true", "if context.hasReason then false else ".repeat(45))),
        (
            "tests in tests",
            format!(
                "{}context.hasReason && !context.hasReason{}",
                "if (".repeat(11),
                ") then true else false".repeat(11)
            ),
        ),
    ];
    let server = ServerName::parse("s").unwrap();
    let name = "a".repeat(128);
    let catalog = Catalog::new([(server.clone(), Arc::new(offer(&server, [name])))]);
    let tool = catalog.tools().next().unwrap();
    for (name, condition) in conditions {
        let files = [("a".to_owned(), format!("forbid (principal, action, resource) when {{ {condition} }};"))];
        let began = Instant::now();
        let policies = Policies::parse(&files).unwrap();
        let read = began.elapsed();
        let tool_policies = policies.for_tool(tool.subject()).unwrap();
        let (agent, intent, clock) = call();
        let one = |_| {
            let began = Instant::now();
            let outcome = tool_policies.explain(&agent, tool.subject(), &intent, clock);
            (began.elapsed(), format!("{:?}", outcome.first().unwrap().1))
        };
        let mut times: Vec<_> = (0..101).map(one).collect();
        times.sort();
        let (median, outcome) = times.get(50).unwrap();
        println!("heavy: {name}: read in {read:?}, evaluated in {median:?} ({outcome})");
    }
}

fn file(count: usize, text: impl Fn(usize) -> String) -> [(String, String); 1] {
    let policy = |number| format!("@id(\"r{number}\") @message(\"No\") forbid {};\n", text(number));
    [("a.cedar".to_owned(), (0..count).map(policy).collect())]
}

fn policies(count: usize, text: impl Fn(usize) -> String) -> Policies {
    Policies::parse(&file(count, text)).unwrap()
}

fn call() -> (Agent, Intent, Clock) {
    let grants = ["files:*", "emails:send", "contacts:read"].map(str::to_owned).to_vec();
    let agent = Agent { name: "laptop".to_owned(), scope: Scope { grants, ..Scope::everything() } };
    let reason = Some(Untrusted::new("list what is open"));
    // Noon on a Monday.
    let clock = Clock { now_ms: 1_704_110_400_000, utc_offset_s: 3600 };
    (agent, Intent { variant: Variant::Read, is_declared: true, sensitivity: None, reason }, clock)
}

fn catalog(size: usize) -> Catalog {
    let servers = (0..SERVERS).map(|number| {
        let server = ServerName::parse(&format!("srv{number}")).unwrap();
        let offer = offer(&server, (0..size / SERVERS).map(|tool| format!("list_records_{tool}")));
        (server, Arc::new(offer))
    });
    let catalog = Catalog::new(servers);
    assert_eq!(catalog.tools().count(), size);
    catalog
}

fn offer(server: &ServerName, names: impl IntoIterator<Item = String>) -> Offer {
    let tool = |name: String| {
        let json = format!(
            r#"{{"name":"{name}","description":"Does it","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}}"#
        );
        Offered::parse(server, &json)
    };
    Offer::new(names.into_iter().map(tool)).0
}
