//! The pages about the activity log: filters in the address, pages of records, one record, and a session.

use http::{Method, StatusCode};
use mcpproxy_core::mask;
use mcpproxy_store::{Kind, NewRecord, Payload, RecordId, Status, WaitFor};

use super::people::Person;
use super::{Fixture, HOUR_MS, NOW_MS, refusal, text};

struct Reader {
    fixture: Fixture,
    person: Person,
}

impl Reader {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let person = fixture.person("anna", "no hash").await;
        Self { fixture, person }
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.fixture.send(Method::GET, path, &[("cookie", &self.person.cookie)]).await;
        (response.status(), text(response).await)
    }

    /// Returns a page that must be there.
    async fn read(&self, path: &str) -> String {
        let (status, html) = self.get(path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        html
    }

    async fn location(&self, path: &str) -> Option<String> {
        let response = self.fixture.send(Method::GET, path, &[("cookie", &self.person.cookie)]).await;
        response.headers().get("location").map(|location| location.to_str().unwrap().to_owned())
    }
}

/// Lists the ids of the rows.
fn ids(html: &str) -> Vec<&str> {
    html.split("class=\"row rec\" href=\"/ui/activity/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// Returns the address of the link with this relation.
fn related(html: &str, rel: &str) -> Option<String> {
    let (before, _) = html.split_once(&format!("\" rel=\"{rel}\""))?;
    Some(before.rsplit('"').next()?.replace("&#38;", "&"))
}

fn texts(ids: &[RecordId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_list_shows_what_its_address_says() {
    let reader = Reader::new().await;
    let note = async |record: NewRecord| reader.fixture.note(record).await;
    let old = note(refusal(48)).await;
    let claude = note(NewRecord { agent: Some("claude".into()), ..refusal(3) }).await;
    let failed = note(NewRecord { status: Status::Error, kind: Kind::Call, ..refusal(2) }).await;
    let coded = note(NewRecord { code: Some("policy_violation".into()), ..refusal(1) }).await;
    let check = async |query: &str, expected: &[RecordId]| {
        let html = reader.read(&format!("/ui/activity{query}")).await;
        assert_eq!(ids(&html), texts(expected), "{query}");
        html
    };
    let html = check("", &[coded, failed, claude, old]).await;
    assert!(html.contains("data-live=\"/ui/events?about=calls\"") && html.contains("id=\"records\" data-part"));
    assert!(
        html.contains("demo:<wbr>delete_<wbr>user")
            && html.contains("High risk")
            && html.contains("annotations say that the tool does more than the variant declares."),
        "{html}"
    );
    check("?agent=claude", &[claude]).await;
    check("?status=error&type=call&intent_type=destructive&risk=high", &[failed]).await;
    check("?tool=demo:delete_user&server=demo&since=24h", &[coded, failed, claude]).await;
    check("?code=policy_violation", &[coded]).await;
    check("?q=CALL_TOOL&until=24h", &[old]).await;
    let none = check("?agent=nobody", &[]).await;
    assert!(none.contains("No record matches these filters") && none.contains("value=\"nobody\" selected"));

    let html = check("?agent=claude&since=24h", &[claude]).await;
    assert!(html.contains("href=\"/ui/activity?since=24h\"") && html.contains("href=\"/ui/activity?agent=claude\""));
    let export = "/api/v1/activity/export?agent=claude&since=24h&format=jsonl";
    assert!(html.contains(&export.replace('&', "&#38;")), "{html}");
    let exported = reader.read(export).await;
    assert!(exported.lines().count() == 1 && exported.contains(&claude.to_string()), "{exported}");
    reader.fixture.stop().await;
}

#[tokio::test]
async fn an_empty_log_teaches_the_next_step() {
    let reader = Reader::new().await;
    let html = reader.read("/ui/activity").await;
    assert!(html.contains("No activity yet") && html.contains("&#39;/my data&#39; connect"));
    reader.fixture.stop().await;
}

#[tokio::test]
async fn empty_fields_of_the_form_leave_the_address() {
    let reader = Reader::new().await;
    let check = async |path: &str, expected: Option<&str>| {
        assert_eq!(reader.location(path).await.as_deref(), expected, "{path}");
    };
    check("/ui/activity?q=&agent=&since=1h", Some("/ui/activity?since=1h")).await;
    check("/ui/activity?q=+&agent=a%26b", Some("/ui/activity?agent=a%26b")).await;
    check("/ui/activity?q=", Some("/ui/activity")).await;
    check("/ui/activity?since=1h", None).await;
    reader.fixture.stop().await;
}

#[tokio::test]
async fn a_bad_filter_is_a_sentence_on_the_page() {
    let reader = Reader::new().await;
    reader.fixture.note(refusal(1)).await;
    for (query, sentence) in [
        ("status=refusd", "Did you mean <code>refused</code>?"),
        ("statu=refused", "Did you mean <code>status</code>?"),
        ("since=yesterday", "an age such as 24h or 7d."),
        ("since=1h&until=2h", "<code>since</code> is later than <code>until</code>"),
        ("cursor=nonsense", "Not a cursor of an earlier page"),
        ("agent=%ff", "is not encoded correctly"),
        ("agent=a&agent=b", "Give each parameter once."),
        ("dry_run=maybe", "Leave it out for the default."),
    ] {
        let (status, html) = reader.get(&format!("/ui/activity?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        let shown = html.to_lowercase();
        assert!(shown.contains(&sentence.to_lowercase()), "{query} {html}");
        assert!(html.contains("role=\"alert\"") && html.contains("<form class=\"filters\"") && ids(&html).is_empty());
    }
    let long = "x".repeat(8_000);
    let (status, html) = reader.get(&format!("/ui/activity?agent={long}")).await;
    assert!(status == StatusCode::BAD_REQUEST && html.contains("at most 256 characters") && html.len() < 30_000);
    reader.fixture.stop().await;
}

#[tokio::test]
async fn pages_lead_to_the_oldest_record_and_back() {
    let reader = Reader::new().await;
    let mut written = Vec::new();
    for _ in 0..119 {
        written.push(reader.fixture.ledger.append(refusal(1), WaitFor::Queue).await.unwrap());
    }
    written.push(reader.fixture.note(refusal(1)).await);
    written.reverse();
    let written = texts(&written);
    let mut path = "/ui/activity?agent=cursor".to_owned();
    let mut pages = Vec::new();
    for expected in written.chunks(50) {
        let html = reader.read(&path).await;
        assert_eq!(ids(&html), expected, "{path}");
        assert_eq!(html.contains("about=calls"), pages.is_empty(), "only the newest page is live");
        path = related(&html, "next").unwrap_or_default();
        pages.push(html);
    }
    assert_eq!(path, "", "the last page has no older one");
    let back = reader.read(&related(&pages[2], "prev").unwrap()).await;
    assert_eq!(ids(&back), ids(&pages[1]));
    let back = reader.read(&related(&back, "prev").unwrap()).await;
    assert_eq!(ids(&back), ids(&pages[0]));
    assert_eq!(related(&back, "prev"), None);
    reader.fixture.stop().await;
}

#[tokio::test]
async fn a_record_has_a_page() {
    let reader = Reader::new().await;
    let metadata = r#"{"intent":{"operation_type":"destructive","reason":"the user asked","data_sensitivity":"private"},"tool_variant":"call_tool_destructive","contract":{"digest":"abc","version":"2.1"},"approved_by":"anna"}"#;
    let call = NewRecord { kind: Kind::Call, code: None, message: None, metadata: metadata.into(), ..refusal(1) };
    let id = reader.fixture.call(call, r#"{"content":[{"type":"text","text":"gone"}]}"#).await;
    let html = reader.read(&format!("/ui/activity/{id}")).await;
    for expected in [
        "<strong>anna</strong> approved it",
        "It ran in 1.5 ms.",
        "the user asked",
        "private",
        "2.1",
        "gone",
        "/ui/activity?agent=cursor&#38;tool=demo%3Adelete_user",
        "/session",
        "call_tool_destructive",
        "Position",
    ] {
        assert!(html.contains(expected), "{expected}\n{html}");
    }
    let refused = reader.fixture.note(refusal(2)).await.to_string();
    let html = reader.read(&format!("/ui/activity/{}", refused.to_lowercase())).await;
    assert!(
        html.contains("SERVER_MISMATCH")
            && html.contains("The agent was told which variant to use.")
            && html.contains("What the agent was told")
            && html.contains("&quot;id&quot;: &quot;1&quot;")
    );
    for unknown in ["01", "nope", "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "%3Cscript%3E", "%ff"] {
        let (status, html) = reader.get(&format!("/ui/activity/{unknown}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{unknown}");
        assert!(html.contains("Record not found") && !html.contains("<script>"), "{unknown}");
    }
    reader.fixture.stop().await;
}

#[tokio::test]
async fn a_session_is_what_one_agent_did_without_a_pause() {
    let reader = Reader::new().await;
    let at = |minutes: i64| NewRecord { time_ms: NOW_MS - HOUR_MS * 10 + minutes * 60_000, ..refusal(0) };
    let note = async |record: NewRecord| reader.fixture.note(record).await;
    note(at(0)).await;
    let first = note(at(60)).await;
    note(NewRecord { agent: Some("claude".into()), ..at(61) }).await;
    note(NewRecord { client: Some("Other 1".into()), ..at(62) }).await;
    let here = note(at(65)).await;
    let last = note(at(80)).await;
    note(at(200)).await;
    let html = reader.read(&format!("/ui/activity/{here}/session")).await;
    assert_eq!(ids(&html), texts(&[first, here, last]));
    assert!(html.contains("5 min later") && html.contains("Records have no session id") && html.contains("<circle"));
    let nobody = note(NewRecord { agent: None, ..at(201) }).await;
    let (status, html) = reader.get(&format!("/ui/activity/{nobody}/session")).await;
    assert!(status == StatusCode::NOT_FOUND && html.contains("belongs to no agent"));
    reader.fixture.stop().await;
}

#[tokio::test]
async fn hostile_records_do_nothing_on_the_pages() {
    let reader = Reader::new().await;
    let hostile = "</li><script>alert(1)</script>\u{202e}\u{1b}[2J\"><img src=x>";
    let long = hostile.repeat(1_000_000 / hostile.len());
    let args = serde_json::json!({ "text": long }).to_string();
    let record = NewRecord {
        agent: Some(hostile.into()),
        client: Some(long.clone()),
        server: Some(hostile.into()),
        tool: Some(long.clone()),
        code: Some(hostile.into()),
        message: Some(long.clone()),
        metadata: serde_json::json!({"intent": {"reason": hostile.repeat(20)}}).to_string(),
        args: Some(Payload::of(mask(&args, &[]), args.len())),
        ..refusal(1)
    };
    let id = reader.fixture.note(record).await;
    for path in ["/ui/activity".to_owned(), format!("/ui/activity/{id}"), format!("/ui/activity/{id}/session")] {
        let html = reader.read(&path).await;
        let raw = ["<script>alert", "<img", "\u{202e}", "\u{1b}"];
        assert!(raw.iter().all(|raw| !html.contains(raw)) && html.contains("&lt;script&gt;"), "{path}");
        assert!(html.len() < 200_000, "{path} {}", html.len());
    }
    reader.fixture.stop().await;
}
