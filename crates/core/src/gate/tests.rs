//! The gate on a paused clock: turns, holds, and places that balance whatever callers do.

use super::*;
use crate::port::ServerName;
use futures_util::FutureExt;
use proptest::prelude::*;

fn gate(in_flight_max: usize, queue_max: usize) -> Arc<CallGate> {
    Arc::new(CallGate::new(in_flight_max, queue_max, CallMetrics::new(&ServerName::from("a"))))
}

fn caller(name: &str) -> Arc<str> {
    Arc::from(name)
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn counts(gate: &CallGate) -> (usize, usize) {
    let view = gate.view();
    (view.in_flight, view.queued)
}

/// Those of the waiting ones whose turn it is now, by name.
fn served<'a>(waiting: &mut Vec<(&'static str, Waiting<'a>)>) -> Vec<(&'static str, Option<Place<'a>>)> {
    let mut served = Vec::new();
    waiting.retain_mut(|(name, waiting)| match waiting.turn().now_or_never() {
        Some(place) => {
            served.push((*name, place));
            false
        }
        None => true,
    });
    served
}

#[tokio::test(start_paused = true)]
async fn callers_are_served_in_turn_and_in_order_within_one() {
    let gate = gate(1, 16);
    let mut place = gate.try_enter();
    assert!(place.is_some() && gate.try_enter().is_none());
    let mut waiting = Vec::new();
    for (name, by) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")] {
        waiting.push((name, gate.enter(Some(&caller(by)), Need::Place).expect("room")));
    }
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(place.take());
        assert!(gate.try_enter().is_none(), "nobody passes those who wait");
        let mut served = served(&mut waiting);
        assert_eq!(served.len(), 1);
        let (name, got) = served.remove(0);
        order.push(name);
        place = got;
    }
    assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
    drop(place);
    assert_eq!(counts(&gate), (0, 0));
    assert!(gate.try_enter().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_one_who_leaves_makes_room() {
    let gate = gate(1, 1);
    let place = gate.try_enter();
    let waiting = gate.enter(None, Need::Place).expect("room for one");
    assert_eq!(gate.enter(None, Need::Place).err(), Some(Full));
    drop(waiting);
    let waiting = gate.enter(None, Need::Place).expect("room again");
    assert_eq!(counts(&gate), (1, 1));
    drop(place);
    // Its turn has come, and it goes away before it looks: the place is free again.
    assert_eq!(counts(&gate), (1, 0));
    drop(waiting);
    assert_eq!(counts(&gate), (0, 0));
    assert!(gate.try_enter().is_some());
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_a_free_place_is_still_given() {
    let gate = gate(1, 0);
    let mut waiting = gate.enter(None, Need::Place).expect("a place became free meanwhile");
    let place = waiting.turn().now_or_never();
    assert!(place.is_some_and(|place| place.is_some()));
    drop(waiting);
    assert_eq!(counts(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_given_to_one_who_went_away_goes_to_the_next() {
    let gate = gate(1, 4);
    let place = gate.try_enter();
    let gone = gate.enter(None, Need::Place).expect("room");
    let mut next = vec![("next", gate.enter(None, Need::Place).expect("room"))];
    drop(place);
    assert!(served(&mut next).is_empty());
    drop(gone);
    assert_eq!(served(&mut next).len(), 1);
    assert_eq!(counts(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hold_keeps_everybody_until_its_end() {
    let gate = gate(2, 8);
    let runtime = Handle::current();
    assert_eq!(gate.hold(&runtime, s(30), 503), Some(s(30)));
    assert_eq!(gate.hold(&runtime, s(10), 429), None, "a shorter one changes nothing");
    assert!(gate.is_held() && gate.try_enter().is_none());
    let mut waiting = vec![
        ("place", gate.enter(None, Need::Place).expect("room")),
        ("leave", gate.enter(None, Need::Leave).expect("room")),
    ];
    tokio::time::sleep(s(29)).await;
    assert!(served(&mut waiting).is_empty());
    assert_eq!(gate.view().held, Some((s(1), 503)));
    assert_eq!(gate.hold(&runtime, s(1) + Duration::from_millis(10), 503), None, "of the same burst");
    assert_eq!(gate.hold(&runtime, s(5), 429), Some(s(5)));
    tokio::time::sleep(s(4)).await;
    assert!(served(&mut waiting).is_empty());
    tokio::time::sleep(s(2)).await;
    let served = served(&mut waiting);
    assert_eq!(
        served.iter().map(|(name, place)| (*name, place.is_some())).collect::<Vec<_>>(),
        [("place", true), ("leave", false)]
    );
    assert!(!gate.is_held() && gate.try_enter().is_some());
    drop(served);
    assert_eq!(counts(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hold_without_anybody_waiting_ends_by_itself() {
    let gate = gate(1, 1);
    assert_eq!(gate.hold(&Handle::current(), s(2), 429), Some(s(2)));
    tokio::time::sleep(s(3)).await;
    assert!(!gate.is_held() && gate.try_enter().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_may_ask_for_an_hour_and_no_more() {
    let gate = gate(1, 1);
    assert_eq!(gate.hold(&Handle::current(), Duration::MAX, 503), Some(HOLD_MAX));
}

#[tokio::test(start_paused = true)]
async fn those_who_need_no_place_wait_for_none() {
    let gate = gate(1, 4);
    let _place = gate.try_enter();
    let _queued = gate.enter(None, Need::Place).expect("room");
    let mut leave = vec![("leave", gate.enter(None, Need::Leave).expect("room"))];
    assert_eq!(served(&mut leave).len(), 1);
    assert_eq!(counts(&gate), (1, 1));
}

/// What a caller, or the server, does next.
#[derive(Debug, Clone, Copy)]
enum Act {
    Enter(u8),
    Leave(u8),
    /// The waiting one of this number looks whether its turn has come.
    Look(usize),
    GoAway(usize),
    Finish(usize),
    Hold(u64),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3_u8).prop_map(Act::Enter),
        1 => (0..3_u8).prop_map(Act::Leave),
        3 => any::<usize>().prop_map(Act::Look),
        2 => any::<usize>().prop_map(Act::GoAway),
        3 => any::<usize>().prop_map(Act::Finish),
        1 => (1..5_u64).prop_map(Act::Hold),
        1 => (1..5_u64).prop_map(Act::Pass),
    ]
}

proptest! {
    /// Whatever the order in which callers come, go away and finish: never more places than there are, nobody
    /// waits beside a free place, and in the end all are back.
    #[test]
    fn places_balance(acts in proptest::collection::vec(act(), 0..120), places in 1..4_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let gate = gate(places, 6);
            let (mut waiting, mut held) = (Vec::new(), Vec::new());
            for act in acts {
                match act {
                    Act::Enter(by) => match gate.try_enter() {
                        Some(place) => held.push(place),
                        None => waiting.extend(gate.enter(Some(&caller(&by.to_string())), Need::Place)),
                    },
                    Act::Leave(by) => waiting.extend(gate.enter(Some(&caller(&by.to_string())), Need::Leave)),
                    Act::Look(at) if !waiting.is_empty() => {
                        let at = at % waiting.len();
                        if let Some(place) = Waiting::turn(&mut waiting[at]).now_or_never() {
                            drop(waiting.swap_remove(at));
                            held.extend(place);
                        }
                    }
                    Act::GoAway(at) if !waiting.is_empty() => drop(waiting.swap_remove(at % waiting.len())),
                    Act::Finish(at) if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                    Act::Look(_) | Act::GoAway(_) | Act::Finish(_) => {}
                    Act::Hold(seconds) => drop(gate.hold(&Handle::current(), s(seconds), 429)),
                    // A moment more, so that a hold that ends just then has ended.
                    Act::Pass(seconds) => tokio::time::sleep(s(seconds) + Duration::from_millis(1)).await,
                }
                let view = gate.view();
                assert!(view.in_flight <= places && view.in_flight >= held.len() && view.queued <= 6);
                assert!(view.queued == 0 || view.in_flight == places || view.held.is_some());
            }
            // After any hold has ended, those who wait and those who are in flight end one by one.
            tokio::time::sleep(s(3_600)).await;
            while !(waiting.is_empty() && held.is_empty()) {
                let before = (waiting.len(), held.len());
                held.clear();
                waiting.retain_mut(|waiting| match waiting.turn().now_or_never() {
                    Some(place) => {
                        held.extend(place);
                        false
                    }
                    None => true,
                });
                assert_ne!((waiting.len(), held.len()), before, "somebody waits for nothing");
            }
            assert_eq!(counts(&gate), (0, 0));
            let all: Vec<_> = (0..places + 1).filter_map(|_| gate.try_enter()).collect();
            assert_eq!(all.len(), places);
        });
    }
}

#[test]
fn places_balance_between_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let gate = gate(3, 1_000);
        let most = Arc::new(AtomicUsize::new(0));
        let inside = Arc::new(AtomicUsize::new(0));
        let calls: Vec<_> = (0..200_u32)
            .map(|n| {
                let (gate, most, inside) = (gate.clone(), most.clone(), inside.clone());
                tokio::spawn(async move {
                    for round in 0..20 {
                        let place = match gate.try_enter() {
                            Some(place) => place,
                            None => {
                                let by = caller(&(n % 5).to_string());
                                let mut waiting = gate.enter(Some(&by), Need::Place).expect("room");
                                if (n + round) % 7 == 0 {
                                    tokio::task::yield_now().await;
                                    continue;
                                }
                                waiting.turn().await.expect("a place")
                            }
                        };
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(place);
                    }
                })
            })
            .collect();
        for call in calls {
            tokio::time::timeout(s(60), call).await.expect("in time").expect("no panic");
        }
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!(counts(&gate), (0, 0));
        assert!(gate.try_enter().is_some());
    });
}

#[tokio::test(start_paused = true)]
async fn more_places_serve_those_who_wait_and_fewer_take_nothing_away() {
    let gate = gate(1, 16);
    let first = gate.try_enter().expect("free");
    let mut waiting = vec![("b", gate.enter(None, Need::Place).expect("room"))];
    gate.resize(2);
    let second = served(&mut waiting);
    assert_eq!((second.len(), counts(&gate)), (1, (2, 0)));
    gate.resize(1);
    drop(first);
    assert!(gate.try_enter().is_none(), "one place, and it is held");
    drop(second);
    assert!(gate.try_enter().is_some());
}
