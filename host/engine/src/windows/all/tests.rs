//! The indexes of windows against a search of all of them.

use proptest::prelude::*;

use fluxgate_formats::Idset;

use super::*;
use crate::windows::{Members, Occurrence};

/// The rule of [`Windows::access`], over a plain list.
fn plain(all: &BTreeMap<String, Held>, job: Applicant<'_>) -> Option<Access> {
    let dedicated = |held: &&Held| held.window.kind == WindowKind::Dedicated;
    let admits = |held: &&Held| held.window.members.admit(job);
    let over = |held: &&Held| held.window.occurrences.is_empty();
    let bound = |held: &Held| if held.window.flex { Access::Free(held.id) } else { Access::Only(held.id) };
    if let Some(name) = job.named {
        return match all.get(name).filter(dedicated).filter(admits) {
            Some(held) if over(&held) && held.window.after == AfterWindow::Free => None,
            Some(held) if !over(&held) => Some(bound(held)),
            _ => Some(Access::Only(NOWHERE)),
        };
    }
    let mut able: Vec<&Held> = all.values().filter(dedicated).filter(admits).collect();
    able.sort_by(|a, b| {
        let start = |held: &Held| held.window.occurrences.first().map_or(f64::INFINITY, |first| first.start);
        start(a).total_cmp(&start(b)).then_with(|| a.window.name.cmp(&b.window.name))
    });
    let of_queue = |held: &&&Held| !held.window.members.magnetic && !held.window.members.queues.is_empty();
    if let Some(held) = able.iter().filter(of_queue).find(|held| !over(held)) {
        return Some(bound(held));
    }
    if able.iter().filter(of_queue).any(|held| held.window.after == AfterWindow::Wait) {
        return Some(Access::Only(NOWHERE));
    }
    let magnetic = able.iter().find(|held| held.window.members.magnetic && !over(held))?;
    Some(if magnetic.window.flex { Access::Free(magnetic.id) } else { Access::Also(magnetic.id) })
}

fn window(name: String, (start, bits, users, queues): (Option<u8>, u8, Vec<u32>, Vec<u8>)) -> Window {
    let bit = |at: u8| bits >> at & 1 == 1;
    let times = |start: u8| {
        let start = f64::from(start);
        Occurrence { start, end: start + 5.0, begins: String::new() }
    };
    Window {
        kind: if bit(0) && bit(1) { WindowKind::Maintenance } else { WindowKind::Dedicated },
        members: Members {
            users: users.into_iter().collect(),
            queues: queues.into_iter().map(|queue| format!("q{queue}")).collect(),
            groups: bit(6).then(|| ("matsci".to_owned(), BTreeSet::from([2]))).into_iter().collect(),
            banks: bit(7).then(|| "physics".to_owned()).into_iter().collect(),
            magnetic: bit(2),
        },
        flex: bit(3),
        overlap: bit(5),
        after: if bit(4) { AfterWindow::Wait } else { AfterWindow::Free },
        ..Window::maintenance(&name, start.map(times).into_iter().collect(), Idset::new())
    }
}

proptest! {
    #[test]
    fn access_is_that_of_a_search_and_changes_for_whom_the_window_concerns(
        steps in prop::collection::vec(
            (0u8..5, any::<bool>(), (prop::option::of(0u8..4), any::<u8>(), prop::collection::vec(0u32..3, 0..2), prop::collection::vec(0u8..3, 0..3))),
            1..20,
        ),
    ) {
        let names: Vec<Option<String>> = (0..5).map(|n| Some(format!("w{n}"))).chain([None]).collect();
        let queues = ["q0", "q1", "q2", ""];
        let jobs: Vec<Applicant<'_>> = names.iter().flat_map(|named| queues.map(|queue| (named.as_deref(), queue)))
            .flat_map(|(named, queue)| (0..3).map(move |user| Applicant { named, user, queue, bank: (user != 0).then_some("physics"), preemptible_after: None }))
            .collect();
        let mut windows = Windows::default();
        for (number, put, fields) in steps {
            let name = format!("w{number}");
            let before: Vec<_> = jobs.iter().map(|job| windows.access(*job)).collect();
            let held = match put {
                true => {
                    let id = windows.number_of(&name);
                    windows.put(window(name.clone(), fields), id)
                }
                false => windows.remove(&name),
            };
            let changed: Vec<Arc<Window>> =
                held.iter().chain(windows.get(&name)).map(|held| Arc::clone(&held.window)).collect();
            for (job, before) in jobs.iter().zip(before) {
                let after = windows.access(*job);
                prop_assert_eq!(after, plain(&windows.by_name, *job), "{:?}", job);
                let concerned = changed.iter().any(|window| window.concerns(*job));
                prop_assert!(after == before || concerned, "{:?}: {:?} before, {:?} after", job, before, after);
            }
        }
    }
}
