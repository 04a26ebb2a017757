//! Tests of verdicts, and of servers that are closed to agents.

use super::*;

/// A known server of which nothing waits: its first list was empty, or it withdrew the list.
#[test]
fn a_withdrawn_list_is_no_way_around_the_first_review() {
    let known = Known { is_known: true, ..Known::default() };
    let noted = Known { is_noted: true, ..known.clone() };
    let listed = [Definition::new(DefinitionKind::Tool, "t", r#"{"name":"t","inputSchema":{"type":"object"}}"#)];
    let of = |known: &Known, first_sight: Welcome, on_change: OnChange| {
        let rules = Rules::Settings { first_sight, on_change };
        judge(&listed, known, &rules, &Neighbours::default()).first().map(|one| one.verdict)
    };
    let verdict = |first_sight: Welcome, on_change: OnChange| of(&known, first_sight, on_change);
    for on_change in [OnChange::Review, OnChange::Warn, OnChange::Accept] {
        assert_eq!(of(&noted, Welcome::Accept, on_change), Some(Verdict::Held(Held::FirstSight)), "{on_change:?}");
        assert_eq!(verdict(Welcome::Review, on_change), Some(Verdict::Held(Held::FirstSight)), "{on_change:?}");
    }
    assert_eq!(verdict(Welcome::Accept, OnChange::Review), Some(Verdict::Held(Held::New)));
    assert_eq!(verdict(Welcome::Accept, OnChange::Warn), Some(Verdict::Admitted(Admitted::Warned)));
}

#[test]
fn a_server_is_closed_until_something_of_it_is_accepted() {
    let tool = Definition::new(DefinitionKind::Tool, "t", r#"{"name":"t"}"#);
    let accepted = Some(Accepted { pin: tool.pin(), json: Arc::clone(&tool.json) });
    let pinned = Pinned { accepted, ..Pinned::default() };
    let reviewed = Known { is_known: true, definitions: [(tool.key, pinned)].into(), ..Known::default() };
    let settings = |first_sight| Rules::Settings { first_sight, on_change: OnChange::Review };
    let (held, admitted) = (Verdict::Held(Held::Suspicious), Verdict::Admitted(Admitted::FirstSight));
    let check = |known: &Known, rules: &Rules, verdicts: &[Verdict], expected: bool| {
        assert_eq!(is_open(known, rules, verdicts.iter().copied()), expected, "{rules:?} {verdicts:?}");
    };
    let unknown = Known::default();
    check(&unknown, &settings(Welcome::Review), &[], false);
    check(&unknown, &settings(Welcome::Review), &[held], false);
    check(&unknown, &settings(Welcome::Accept), &[], true);
    let noted = Known { is_known: true, is_noted: true, ..Known::default() };
    check(&noted, &settings(Welcome::Accept), &[], false);
    check(&unknown, &settings(Welcome::Accept), &[held], false);
    check(&unknown, &settings(Welcome::Accept), &[held, admitted], true);
    for first_sight in [Welcome::Review, Welcome::Accept] {
        check(&reviewed, &settings(first_sight), &[held], true);
    }
    check(&reviewed, &Rules::Locked(None), &[Verdict::Same], false);
    check(&unknown, &Rules::Locked(Some(Arc::default())), &[held], true);
}

#[test]
fn resources_alone_are_reviewed_once() {
    let listed = [Definition::resources_only()];
    let verdict = |known: &Known, rules: &Rules| {
        judge(&listed, known, rules, &Neighbours::default()).first().map(|one| one.verdict)
    };
    let review = Rules::Settings { first_sight: Welcome::Review, on_change: OnChange::Review };
    assert_eq!(verdict(&Known::default(), &review), Some(Verdict::Held(Held::FirstSight)));
    let tool = Definition::new(DefinitionKind::Tool, "t", r#"{"name":"t"}"#);
    let accepted = Some(Accepted { pin: tool.pin(), json: tool.json });
    let pinned = Pinned { accepted, ..Pinned::default() };
    let reviewed = Known { is_known: true, definitions: [(tool.key, pinned)].into(), ..Known::default() };
    assert_eq!(verdict(&reviewed, &review), Some(Verdict::Same), "it has dropped its tools");
    assert_eq!(verdict(&reviewed, &Rules::Locked(None)), Some(Verdict::Held(Held::NotLocked)));
    assert_eq!(verdict(&reviewed, &Rules::Locked(Some(Arc::default()))), Some(Verdict::Same));
}

#[test]
fn a_damaged_definition_is_held_alone() {
    let tool = |name: &str| Definition::new(DefinitionKind::Tool, name, &format!(r#"{{"name":"{name}"}}"#));
    let listed = [tool("a"), tool("b")];
    let accepted = |one: &Definition| Some(Accepted { pin: one.pin(), json: Arc::clone(&one.json) });
    let pinned = |one: &Definition| (one.key.clone(), Pinned { accepted: accepted(one), ..Pinned::default() });
    let damaged = listed.iter().take(1).map(|one| one.key.digest()).collect();
    let definitions = listed.iter().map(pinned).collect();
    let known = Known { is_known: true, definitions, damaged, ..Known::default() };
    for on_change in [OnChange::Review, OnChange::Warn, OnChange::Accept] {
        let rules = Rules::Settings { first_sight: Welcome::Accept, on_change };
        let verdicts = judge(&listed, &known, &rules, &Neighbours::default()).into_iter().map(|one| one.verdict);
        let expected = [Verdict::Held(Held::Unreadable), Verdict::Same];
        assert_eq!(verdicts.collect::<Vec<_>>(), expected, "{on_change:?}");
    }
}

/// A server that waited for a review, was removed, and comes again with the consent of a user.
#[test]
fn a_server_that_a_user_chooses_again_is_new_again() {
    let tool = |name: &str| Definition::new(DefinitionKind::Tool, name, &format!(r#"{{"name":"{name}"}}"#));
    let listed = [tool("a"), tool("b")];
    let [a, b] = &listed;
    let waiting = Pinned { waiting: Some(a.pin()), ..Pinned::default() };
    let rejected = Pinned { rejected: vec![b.pin()], ..Pinned::default() };
    let known = |a: &Definition, one: Pinned| Known {
        is_known: true,
        is_noted: true,
        definitions: [(a.key.clone(), one), (b.key.clone(), rejected.clone())].into(),
        ..Known::default()
    };
    let verdicts = |known: &Known, first_sight: Welcome| -> Vec<Verdict> {
        let rules = Rules::Settings { first_sight, on_change: OnChange::Review };
        judge(&listed, known, &rules, &Neighbours::default()).into_iter().map(|one| one.verdict).collect()
    };
    let (first, refused) = (Verdict::Held(Held::FirstSight), Verdict::Held(Held::Rejected));
    let before = known(a, waiting);
    assert_eq!(verdicts(&before, Welcome::Accept), [first, refused], "without the choice, it waits");
    let chosen = before.just_chosen();
    assert_eq!(verdicts(&chosen, Welcome::Accept), [Verdict::Admitted(Admitted::FirstSight), refused]);
    assert_eq!(verdicts(&chosen, Welcome::Review), [first, refused], "the settings of the server say otherwise");
    let accepted = Some(Accepted { pin: tool("c").pin(), json: Arc::clone(&tool("c").json) });
    let reviewed = known(&tool("c"), Pinned { accepted, ..Pinned::default() });
    assert_eq!(verdicts(&reviewed.just_chosen(), Welcome::Accept), [Verdict::Held(Held::New), refused]);
}
