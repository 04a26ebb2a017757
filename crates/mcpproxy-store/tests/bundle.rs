//! Tests for bundles: they prove the records they show, and every change to them is detected.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on should stop"
)]

mod common;

use common::{Place, call, key, payload, refusal, success};
use mcpproxy_core::Variant;
use mcpproxy_store::{
    BundleError, BundleVerdict, ExportError, Exported, Filter, KeyFrom, Ledger, LedgerOptions, NewRecord, RecordId,
    Selection, SigningKey, Store, Verifier, WaitFor, verify_bundle,
};

on_both!(
    everything_is_shown_and_proved,
    what_was_not_asked_for_is_there_as_a_digest,
    one_record_is_enough,
    a_bundle_begins_at_the_checkpoint_before,
    what_is_not_signed_yet_needs_the_key,
    payloads_that_are_gone_are_no_damage,
    a_damaged_log_proves_nothing,
    a_bundle_is_about_one_chain,
    nothing_is_signed_against_the_newest_checkpoint,
);

const NOW_MS: i64 = 1_700_000_100_000;

/// Positions: 1 a refusal, 2 and 4 a destructive call, 3 a refusal; signed. 5 and 6 a call with a long result, 7 and 8
/// a destructive call; signed.
async fn write(place: &Place) -> (Store, Vec<RecordId>) {
    let (store, ledger) = place.open().await;
    let destructive = |n: u32| NewRecord { intent_type: Some(Variant::Destructive), ..call(n) };
    let mut ids = vec![ledger.append(refusal(1), WaitFor::Disk).await.unwrap()];
    let open = ledger.open(destructive(2), WaitFor::Disk).await.unwrap();
    ids.push(open.id());
    ids.push(ledger.append(refusal(3), WaitFor::Disk).await.unwrap());
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    let open = ledger.open(call(4), WaitFor::Disk).await.unwrap();
    ids.push(open.id());
    let long = mcpproxy_store::Outcome { result: Some(payload(&"\u{1}€\"".repeat(20_000))), ..success() };
    ledger.close(open, long, WaitFor::Disk).await.unwrap();
    let open = ledger.open(destructive(5), WaitFor::Disk).await.unwrap();
    ids.push(open.id());
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    (store, ids)
}

fn selected<'k>(filter: Filter, key: Option<&'k SigningKey>) -> Selection<'k> {
    Selection { filter, id: None, chain: None, key, newest: None, now_ms: NOW_MS }
}

fn everything() -> Selection<'static> {
    selected(Filter::default(), None)
}

fn destructive() -> Filter {
    Filter { intent_type: Some(Variant::Destructive), ..Filter::default() }
}

async fn export(store: &Store, selection: &Selection<'_>) -> Result<(Exported, String), ExportError> {
    let mut out = Vec::new();
    let exported = store.export_signed(selection, &mut out, &mut |_| {}).await?;
    Ok((exported, String::from_utf8(out).unwrap()))
}

fn verify(text: &str, trusted: Option<&Verifier>) -> Result<BundleVerdict, BundleError> {
    verify_bundle(text.as_bytes(), trusted, &mut |_| {})
}

async fn everything_is_shown_and_proved(place: &Place) {
    let (store, ids) = write(place).await;
    let (exported, text) = export(&store, &everything()).await.unwrap();
    let chain = key(1).verifier().chain().to_owned();
    assert_eq!(exported, Exported { chain: chain.clone(), first: 1, last: 8, records: 5 });
    let verdict = verify(&text, None).unwrap();
    assert!(!verdict.first_signed.is_empty() && verdict.first_signed <= verdict.last_signed);
    let expected = BundleVerdict {
        chain,
        verifier: key(1).verifier().to_string(),
        key_from: KeyFrom::Bundle,
        first: 1,
        last: 8,
        lines: 8,
        digests: 0,
        payloads: 8,
        erased: 0,
        checkpoints: 2,
        first_signed: verdict.first_signed.clone(),
        last_signed: verdict.last_signed.clone(),
        exported: "2023-11-14T22:15:00.000Z".into(),
        is_sealed: false,
        ids,
    };
    assert_eq!(verdict, expected);
    let trusted = verify(&text, Some(key(1).verifier())).unwrap();
    assert_eq!(trusted, BundleVerdict { key_from: KeyFrom::Outside, ..expected });
    let refused = verify(&text, Some(key(2).verifier()));
    assert!(matches!(refused, Err(BundleError::OtherKey { .. })), "{refused:?}");
    let first = text.lines().next().unwrap();
    assert!(first.ends_with(r#","exported":"2023-11-14T22:15:00.000Z","filter":{}}"#), "{first}");
}

async fn what_was_not_asked_for_is_there_as_a_digest(place: &Place) {
    let (store, ids) = write(place).await;
    let (exported, text) = export(&store, &selected(destructive(), None)).await.unwrap();
    assert_eq!((exported.first, exported.last, exported.records), (1, 8, 2));
    let verdict = verify(&text, None).unwrap();
    assert_eq!((verdict.lines, verdict.digests, verdict.payloads), (4, 4, 4));
    assert_eq!(verdict.ids, [ids[1], ids[4]]);
    assert!(!text.contains(&ids[0].to_string()) && !text.contains("intent_mismatch"), "the others stay secret");
    assert!(text.lines().next().unwrap().ends_with(r#""filter":{"intent_type":"destructive"}}"#));
}

async fn one_record_is_enough(place: &Place) {
    let (store, ids) = write(place).await;
    let one = |id: RecordId| Selection { id: Some(id), ..everything() };
    let (exported, text) = export(&store, &one(ids[1])).await.unwrap();
    assert_eq!((exported.first, exported.last, exported.records), (1, 4, 1));
    let verdict = verify(&text, None).unwrap();
    assert_eq!((verdict.lines, verdict.digests, verdict.ids), (2, 2, vec![ids[1]]));
    let unknown = RecordId::parse("01HF7YAT000000000000000001").unwrap();
    let refused = export(&store, &one(unknown)).await;
    assert!(matches!(refused, Err(ExportError::Nothing)), "{refused:?}");
    let nobody = Filter { agent: Some("nobody".into()), ..Filter::default() };
    assert!(matches!(export(&store, &selected(nobody, None)).await, Err(ExportError::Nothing)));
}

async fn a_bundle_begins_at_the_checkpoint_before(place: &Place) {
    let (store, ids) = write(place).await;
    let since = Filter { since_ms: Some(call(4).time_ms), ..destructive() };
    let (exported, text) = export(&store, &selected(since, None)).await.unwrap();
    assert_eq!((exported.first, exported.last), (5, 8));
    let verdict = verify(&text, None).unwrap();
    assert_eq!((verdict.lines, verdict.digests, verdict.checkpoints), (2, 2, 2));
    assert_eq!(verdict.ids, [ids[4]]);
    assert_ne!(verdict.first_signed, "");
}

async fn what_is_not_signed_yet_needs_the_key(place: &Place) {
    let (store, _) = write(place).await;
    let ledger = place.ledger(&store).await;
    ledger.append(refusal(8), WaitFor::Disk).await.unwrap();
    let refused = export(&store, &everything()).await;
    assert!(matches!(refused, Err(ExportError::NotSignedYet { seq: 9 })), "{refused:?}");
    assert_eq!(export(&store, &selected(destructive(), None)).await.unwrap().0.last, 8, "this much is signed");
    let own = key(1);
    let (exported, text) = export(&store, &selected(Filter::default(), Some(&own))).await.unwrap();
    assert_eq!(exported.last, 9);
    let verdict = verify(&text, Some(own.verifier())).unwrap();
    assert_eq!((verdict.last, verdict.last_signed.as_str()), (9, "2023-11-14T22:15:00.000Z"));
    assert!(verdict.is_sealed);
    let other = key(2);
    let refused = export(&store, &selected(Filter::default(), Some(&other))).await;
    assert!(matches!(refused, Err(ExportError::OtherKey { .. })), "{refused:?}");
    ledger.finish().await.unwrap();
}

async fn payloads_that_are_gone_are_no_damage(place: &Place) {
    let (store, _) = write(place).await;
    place.sql("DELETE FROM payloads").await;
    let (_, text) = export(&store, &everything()).await.unwrap();
    let verdict = verify(&text, None).unwrap();
    assert_eq!((verdict.lines, verdict.payloads, verdict.erased), (8, 0, 8));
}

async fn a_damaged_log_proves_nothing(place: &Place) {
    let (store, ids) = write(place).await;
    place.sql("UPDATE records SET agent = 'eve' WHERE seq = 3").await;
    let refused = export(&store, &everything()).await.unwrap_err();
    let ExportError::Damaged { source } = refused else { panic!("{refused:?}") };
    assert_eq!((source.seq, source.id), (3, Some(ids[2])));
    // The damage does not affect lines after the next checkpoint.
    let since = Filter { since_ms: Some(call(4).time_ms), ..Filter::default() };
    let (_, text) = export(&store, &selected(since, None)).await.unwrap();
    assert_eq!(verify(&text, None).unwrap().first, 5);
}

/// An attacker with access to the database can remove its last checkpoint, but not the copy in the data folder.
async fn nothing_is_signed_against_the_newest_checkpoint(place: &Place) {
    let (store, _) = write(place).await;
    let newest = Some(std::fs::read_to_string(place.newest_checkpoint()).unwrap());
    let own = key(1);
    let selection = Selection { newest, ..selected(Filter::default(), Some(&own)) };
    assert_eq!(export(&store, &selection).await.unwrap().0.last, 8);
    place.sql("DELETE FROM checkpoints WHERE seq = 8").await;
    place.sql("DELETE FROM records WHERE seq = 7").await;
    let refused = export(&store, &selection).await.unwrap_err();
    assert!(matches!(&refused, ExportError::Damaged { source } if source.seq == 7), "{refused:?}");
    // Without the copy, only the checkpoints in the database can be compared.
    assert_eq!(export(&store, &selected(Filter::default(), Some(&own))).await.unwrap().0.last, 6);
}

async fn a_bundle_is_about_one_chain(place: &Place) {
    let (store, ids) = write(place).await;
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let other = Ledger::start(&store, options).await.unwrap();
    other.append(refusal(3), WaitFor::Disk).await.unwrap();
    other.finish().await.unwrap();
    let refused = export(&store, &everything()).await.unwrap_err();
    assert!(matches!(&refused, ExportError::WhichChain { names } if names.len() == 2), "{refused:?}");
    let (first, second) = (key(1), key(2));
    let check = async |selection: Selection<'_>, chain: &SigningKey, last: i64| {
        let (exported, text) = export(&store, &selection).await.unwrap();
        assert_eq!((exported.chain.as_str(), exported.last), (chain.verifier().chain(), last));
        assert_eq!(verify(&text, Some(chain.verifier())).unwrap().last, last);
    };
    let named = |key: &SigningKey| Selection { chain: Some(key.verifier().chain().to_owned()), ..everything() };
    check(named(&first), &first, 8).await;
    check(named(&second), &second, 1).await;
    check(selected(Filter::default(), Some(&second)), &second, 1).await;
    check(Selection { id: Some(ids[0]), ..everything() }, &first, 4).await;
    let refused = export(&store, &named(&key(3))).await.unwrap_err();
    assert!(matches!(refused, ExportError::NoSuchChain { .. }), "{refused:?}");
}

// -- tests that change bundles ---------------------------------------------------------------------------------

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seal {
    Yes,
    No,
}

async fn small_bundle(seal: Seal) -> String {
    let place = Place::sqlite();
    let (store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    let open = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(3), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let filter = Filter { tool: Some("send".into()), text: Some("write".into()), ..Filter::default() };
    let calls = Filter { kind: Some(mcpproxy_store::Kind::Call), ..filter };
    let key = key(1);
    export(&store, &selected(calls, (seal == Seal::Yes).then_some(&key))).await.unwrap().1
}

#[tokio::test]
async fn no_byte_can_be_another() {
    let text = small_bundle(Seal::No).await;
    assert!(verify(&text, None).is_ok_and(|verdict| !verdict.is_sealed));
    // Without a seal, the time of the export and the filter are not proved.
    let claims = text.find("\"exported\"").unwrap()..text.find('\n').unwrap();
    change_every_byte(&text, claims);
}

#[tokio::test]
async fn no_byte_of_a_sealed_bundle_can_be_another() {
    let text = small_bundle(Seal::Yes).await;
    assert!(verify(&text, None).is_ok_and(|verdict| verdict.is_sealed));
    change_every_byte(&text, 0..0);
    // Not even a payload can be removed.
    for gone in text.lines().filter(|line| line.starts_with("{\"payload\"")) {
        assert!(verify(&text.replace(&format!("{gone}\n"), ""), None).is_err(), "{gone}");
    }
}

fn change_every_byte(text: &str, but: std::ops::Range<usize>) {
    let bytes = text.as_bytes();
    for at in (0..bytes.len()).filter(|at| !but.contains(at)) {
        for other in [bytes[at] ^ 1, bytes[at] ^ 0x20, b' ', b'0', b'\n'] {
            let mut changed = bytes.to_vec();
            changed[at] = other;
            if other == bytes[at] {
                continue;
            }
            let found = verify_bundle(changed.as_slice(), None, &mut |_| {});
            let around = &changed[at.saturating_sub(30)..(at + 30).min(changed.len())];
            assert!(found.is_err(), "byte {at}: {:?}", String::from_utf8_lossy(around));
        }
    }
}

#[tokio::test]
async fn no_line_can_be_left_out_doubled_or_moved() {
    let text = small_bundle(Seal::No).await;
    let lines: Vec<&str> = text.lines().collect();
    let is_bad = |lines: &[&str], why: &str| {
        let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        assert!(verify(&text, None).is_err(), "{why}:\n{text}");
    };
    for at in 0..lines.len() {
        // Without a seal, a payload may be removed, because it is not part of the chain.
        if !lines[at].starts_with("{\"payload\"") {
            is_bad(&[&lines[..at], &lines[at + 1..]].concat(), &format!("without line {at}"));
        }
        is_bad(&lines[..at], &format!("cut before line {at}"));
        is_bad(&[&lines[..=at], &lines[at..]].concat(), &format!("line {at} twice"));
        for other in at + 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            is_bad(&swapped, &format!("lines {at} and {other} swapped"));
        }
    }
}

#[tokio::test]
async fn nothing_that_does_not_belong_there_is_passed_over() {
    let text = small_bundle(Seal::No).await;
    let check = |changed: String, expected: &str| {
        assert_ne!(changed, text);
        let found = verify(&changed, None).map_err(|error| error.to_string());
        assert_eq!(found.err().as_deref(), Some(expected), "{changed}");
    };
    let no_line = "bundle line 3: not a line of a bundle";
    check(text.replacen("{\"digest\"", "{\"more\":1,\"digest\"", 1), no_line);
    check(text.replacen("{\"digest\":", "{\"digest\":\"\",\"digest\":", 1), no_line);
    check(text.replacen("{\"digest\"", "{\"line\":\"\",\"digest\"", 1), no_line);
    let first = "bundle line 1: not the header of a bundle";
    check(text.replacen("\"version\"", "\"more\":{},\"version\"", 1), first);
    check(text.replacen("\"q\"", "\"quite\"", 1), first);
    check(format!("\n{text}"), first);
    check(format!("{text}\n"), "bundle line 10, position 4: not a line of a bundle");
    check(text.trim_end().to_owned(), "bundle line 9: the file ends in the middle of a line");
    check("x".repeat(3 << 20), "bundle line 1: the line is too long");
    check(String::new(), "bundle line 1: the file is empty");
    let version = "bundle line 1: not a bundle version that this mcpproxy supports; use a newer mcpproxy";
    check(text.replacen("\"version\":1", "\"version\":2", 1), version);
    check(
        text.replacen("\"start\":{\"seq\":0", "\"start\":{\"seq\":-1", 1),
        "bundle line 2: a `start` line is not allowed here",
    );
    check(
        text.replacen("\\\"tool\\\":\\\"send", "\\\"tool\\\":\\\"burn", 1),
        "bundle line 4, position 2: the record does not match its hash; it was changed",
    );
    let changed = text.replacen("{\\\"to\\\":\\\"you\\\"}", "{\\\"to\\\":\\\"him\\\"}", 1);
    let id = verify(&text, None).unwrap().ids[0];
    check(
        changed,
        &format!("bundle line 5, position 2 (record {id}): the payload does not match its digest; it was changed"),
    );
}
