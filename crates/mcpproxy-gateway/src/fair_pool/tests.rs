//! Tests poll by hand, so that their order does not depend on a scheduler.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;

type Waiting = Pin<Box<dyn Future<Output = Ticket<u8>>>>;

/// A caller that has asked, and perhaps waits.
fn ask(pool: &FairPool<u8>, key: u8, amount: usize) -> Waiting {
    let pool = pool.clone();
    let mut asked: Waiting = Box::pin(async move { pool.acquire(key, amount).await });
    // The first poll takes the place. A ticket would be lost here, so callers that are served at once use `take`.
    assert!(served(&mut asked).is_none(), "{key} did not have to wait");
    asked
}

fn served(asked: &mut Waiting) -> Option<Ticket<u8>> {
    match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ticket) => Some(ticket),
        Poll::Pending => None,
    }
}

/// A caller that must be served at once.
fn take(pool: &FairPool<u8>, key: u8, amount: usize) -> Ticket<u8> {
    let mut asked: Waiting = Box::pin({
        let pool = pool.clone();
        async move { pool.acquire(key, amount).await }
    });
    served(&mut asked).unwrap_or_else(|| panic!("{key} had to wait"))
}

/// Asserts that nothing is left in the pool.
fn check_empty(pool: &FairPool<u8>) {
    let state = pool.state();
    assert_eq!((state.held, state.held_in_shares, state.waiting, state.keys.len()), (0, 0, 0, 0));
}

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;

#[test]
fn one_key_leaves_room_for_others() {
    let pool = FairPool::new(4, 3);
    let mut held: Vec<_> = (0..3).map(|_| take(&pool, A, 1)).collect();
    let mut fourth = ask(&pool, A, 1);
    // The fourth of A waits for A alone. B need not wait behind it.
    let other = take(&pool, B, 1);
    assert!(served(&mut fourth).is_none());
    drop(other);
    assert!(served(&mut fourth).is_none(), "what B gives back is not for A");
    held.pop();
    drop(served(&mut fourth).unwrap());
    drop(held);
    check_empty(&pool);
}

#[test]
fn the_key_that_holds_least_is_next() {
    let pool = FairPool::new(4, 4);
    let mut held: Vec<_> = (0..4).map(|_| take(&pool, A, 1)).collect();
    let mut of_a: Vec<_> = (0..50).map(|_| ask(&pool, A, 1)).collect();
    let (mut first_of_b, mut second_of_b) = (ask(&pool, B, 1), ask(&pool, B, 1));
    held.pop();
    let first = served(&mut first_of_b).expect("B came last and holds nothing");
    held.pop();
    let second = served(&mut second_of_b).expect("B holds one, and A two");
    assert!(of_a.iter_mut().all(|asked| served(asked).is_none()));
    drop((first, second));
    let of_a_now: Vec<_> = of_a.iter_mut().filter_map(served).collect();
    assert_eq!(of_a_now.len(), 2, "without B, A may have everything");
    drop((held, of_a_now, of_a));
    check_empty(&pool);
}

#[test]
fn callers_of_one_key_are_served_in_order() {
    let pool = FairPool::new(1, 1);
    let mut ticket = take(&pool, A, 1);
    let mut waiting: VecDeque<_> = (0..5).map(|_| ask(&pool, A, 1)).collect();
    while let Some(mut first) = waiting.pop_front() {
        assert!(waiting.iter_mut().all(|later| served(later).is_none()));
        drop(ticket);
        ticket = served(&mut first).unwrap();
    }
    drop(ticket);
    check_empty(&pool);
}

#[test]
fn of_keys_that_hold_the_same_the_longest_waiting_is_next() {
    let pool = FairPool::new(1, 1);
    let ticket = take(&pool, A, 1);
    let (mut of_c, mut of_b) = (ask(&pool, C, 1), ask(&pool, B, 1));
    drop(ticket);
    assert!(served(&mut of_b).is_none());
    drop(served(&mut of_c).unwrap());
    drop(served(&mut of_b).unwrap());
    check_empty(&pool);
}

#[test]
fn a_large_amount_is_not_starved_by_small_ones() {
    let pool = FairPool::new(10, 10);
    let mut small: Vec<_> = (0..10).map(|_| take(&pool, A, 1)).collect();
    let mut large = ask(&pool, B, 6);
    let mut behind = ask(&pool, C, 1);
    for _ in 0..5 {
        small.pop();
        assert!(served(&mut large).is_none());
        assert!(served(&mut behind).is_none(), "units are saved up for B");
    }
    small.pop();
    let large = served(&mut large).unwrap();
    assert!(served(&mut behind).is_none());
    small.pop();
    drop(served(&mut behind).unwrap());
    drop((large, small));
    check_empty(&pool);
}

#[test]
fn an_amount_above_the_share_is_cut_to_it() {
    let pool = FairPool::new(10, 4);
    let ticket = take(&pool, A, 1_000);
    assert_eq!(pool.held(), 4);
    drop(ticket);
    check_empty(&pool);
}

#[test]
fn a_caller_that_gives_up_leaves_its_place() {
    let pool = FairPool::new(1, 1);
    let ticket = take(&pool, A, 1);
    for _ in 0..1_000 {
        drop(ask(&pool, A, 1));
    }
    assert_eq!(pool.state().keys.get(&A).unwrap().waiting.len(), 0);
    let (given_up, mut next) = (ask(&pool, B, 1), ask(&pool, C, 1));
    drop(given_up);
    drop(ticket);
    drop(served(&mut next).unwrap());
    check_empty(&pool);
}

#[test]
fn a_large_amount_that_gives_up_lets_those_behind_it_pass() {
    let pool = FairPool::new(10, 10);
    let ticket = take(&pool, A, 6);
    let large = ask(&pool, B, 6);
    let mut small = ask(&pool, C, 4);
    drop(large);
    drop(served(&mut small).expect("four units were free all along"));
    drop(ticket);
    check_empty(&pool);
}

#[test]
fn units_of_a_caller_that_gives_up_as_they_are_granted_are_not_lost() {
    let pool = FairPool::new(1, 1);
    let ticket = take(&pool, A, 1);
    let (granted, mut next) = (ask(&pool, B, 1), ask(&pool, C, 1));
    drop(ticket);
    assert_eq!(pool.held(), 1, "granted to B, which has not looked yet");
    assert!(served(&mut next).is_none());
    drop(granted);
    drop(served(&mut next).unwrap());
    check_empty(&pool);
}

#[test]
fn an_amount_that_grows_does_not_wait_and_holds_up_its_own_key_only() {
    let pool = FairPool::new(10, 5);
    let mut ticket = take(&pool, A, 1);
    ticket.set(20);
    let more = pool.take(A, 1);
    assert_eq!(pool.held(), 21);
    let mut own = ask(&pool, A, 1);
    // For others, A holds its share and no more.
    let other = take(&pool, B, 5);
    assert_eq!((pool.wanted(A), pool.wanted(B), pool.wanted(C)), ((22, 5), (5, 5), (0, 5)));
    let mut third = ask(&pool, C, 1);
    ticket.set(4);
    assert!(served(&mut own).is_none() && served(&mut third).is_none(), "ten of ten are held");
    drop(more);
    let third = served(&mut third).unwrap();
    assert!(served(&mut own).is_none());
    drop(other);
    drop((served(&mut own).unwrap(), ticket, third));
    check_empty(&pool);
}

#[test]
fn a_pool_that_shrinks_still_serves_everyone() {
    let pool = FairPool::new(10, 8);
    let held = take(&pool, A, 8);
    let mut waiting = ask(&pool, A, 8);
    pool.resize(4, 2);
    assert!(served(&mut waiting).is_none());
    drop(held);
    drop(served(&mut waiting).unwrap());
    let small = take(&pool, A, 8);
    assert_eq!(pool.held(), 2);
    let mut next = ask(&pool, A, 1);
    pool.resize(10, 8);
    drop((served(&mut next).unwrap(), small));
    check_empty(&pool);
}

#[tokio::test]
async fn emptied_waits_for_the_last_ticket_and_place() {
    let pool = FairPool::new(1, 1);
    pool.emptied().await;
    let ticket = take(&pool, A, 1);
    let waiting = ask(&pool, B, 1);
    let mut emptied = Box::pin(pool.emptied());
    let mut is_empty = || emptied.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!is_empty());
    drop(ticket);
    assert!(!is_empty());
    drop(waiting);
    assert!(is_empty());
}

/// Random steps of a few keys. After each, the pool is within its limits, and nobody waits without a reason.
#[test]
fn any_order_of_steps_stays_within_the_limits() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).unwrap()
    };
    let pool = FairPool::new(12, 8);
    let (mut waiting, mut held): (Vec<Waiting>, Vec<Ticket<u8>>) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        match next(4) {
            0 | 1 => {
                let (key, amount, pool) = (u8::try_from(next(4)).unwrap(), 1 + next(6), pool.clone());
                let mut asked: Waiting = Box::pin(async move { pool.acquire(key, amount).await });
                match served(&mut asked) {
                    Some(ticket) => held.push(ticket),
                    None => waiting.push(asked),
                }
            }
            2 if !held.is_empty() => drop(held.swap_remove(next(held.len()))),
            3 if !waiting.is_empty() => drop(waiting.swap_remove(next(waiting.len()))),
            _ => {}
        }
        if next(2) == 0 {
            let mut still = Vec::new();
            for mut asked in waiting {
                match served(&mut asked) {
                    Some(ticket) => held.push(ticket),
                    None => still.push(asked),
                }
            }
            waiting = still;
        }
        let state = pool.state();
        assert!(state.held <= 12);
        assert_eq!(state.held, state.keys.values().map(|row| row.held).sum::<usize>());
        assert_eq!(state.held_in_shares, state.held, "nobody exceeds the share");
        assert_eq!(state.waiting, state.keys.values().map(|row| row.waiting.len()).sum::<usize>());
        assert!(state.keys.values().all(|row| row.held <= 8 && (row.held > 0 || !row.waiting.is_empty())));
        let blocked = |row: &Row| row.waiting.front().is_none_or(|first| row.held + first.amount > 8);
        let is_saving = state.keys.values().any(|row| {
            row.waiting.front().is_some_and(|first| row.held + first.amount <= 8 && state.held + first.amount > 12)
        });
        assert!(state.keys.values().all(blocked) || is_saving, "somebody waits without a reason");
    }
    drop((waiting, held));
    check_empty(&pool);
}
