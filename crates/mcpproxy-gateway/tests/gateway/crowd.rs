//! Many agents at once on servers that crash and lose sessions: every call gets one answer and one record.

use futures::future::join_all;
use mcpproxy_store::{Kind, Status};

use crate::agent::{Agent, WAYS};
use crate::rig::{Rig, misbehaving, settings};

const AGENTS: usize = 24;
const CALLS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_call_has_one_answer_and_one_record() {
    let rig =
        Rig::start(settings([misbehaving("steady", &[], None), misbehaving("falling", &["--exit-after", "7"], None)]))
            .await;
    let work = (0..AGENTS).map(async |n| {
        let mut agent = Agent::new(&rig, WAYS[n % WAYS.len()], &format!("agent-{n}")).await;
        let mut answers = 0;
        for call in 0..CALLS {
            let server = if call % 3 == 0 { "falling" } else { "steady" };
            let marker = n * 1000 + call;
            let arguments = format!(r#"{{"name":"{server}:echo","args":{{"marker":{marker}}}}}"#);
            let found = agent.call(&rig, "call_tool_read", &arguments).await.brief();
            let is_own = found == format!(r#"{{"marker":{marker}}}"#);
            let fell = server == "falling" && found.starts_with("upstream_unavailable ");
            assert!(is_own || fell, "{server} {marker}: {found}");
            answers += usize::from(is_own);
        }
        answers
    });
    let answers: usize = join_all(work).await.into_iter().sum();
    let records = rig.whole_records().await;
    let calls: Vec<_> = records.iter().filter(|whole| whole.record.kind == Kind::Call).collect();
    assert_eq!(calls.len(), AGENTS * CALLS);
    assert_eq!(calls.iter().filter(|whole| whole.record.status == Status::Success).count(), answers);
    assert_eq!(calls.iter().filter(|whole| whole.record.status == Status::Error).count(), AGENTS * CALLS - answers);
    for whole in calls.iter().filter(|whole| whole.record.status == Status::Success) {
        let (args, result) = (whole.args.as_ref().unwrap().for_json(), whole.result.as_ref().unwrap().for_json());
        assert!(result.contains(&args.replace('"', "\\\"")), "{args}: {result}");
    }
}
