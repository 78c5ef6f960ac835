//! The order and its walk against a sorted map.

use proptest::prelude::*;

use super::*;

fn key(n: u64) -> OrderKey {
    OrderKey::new(n as f64, 16, 0.0, JobId(n))
}

fn walk_all(order: &Order) -> Vec<Slot> {
    let mut walk = Walk::default();
    std::iter::from_fn(|| walk.next(order, None)).collect()
}

#[test]
fn expedited_then_key_then_priority_then_submission_then_id() {
    let keys = [
        OrderKey::new(9.0, u32::MAX, 9.0, JobId(9)),
        OrderKey::new(-1.0, 1, 9.0, JobId(8)),
        OrderKey::new(0.0, 17, 9.0, JobId(7)),
        OrderKey::new(-0.0, 16, 1.0, JobId(6)),
        OrderKey::new(0.0, 16, 2.0, JobId(4)),
        OrderKey::new(0.0, 16, 2.0, JobId(5)),
        OrderKey::new(f64::INFINITY, 16, 0.0, JobId(1)),
    ];
    assert!(keys.windows(2).all(|w| w[0] < w[1]));
}

#[test]
fn a_job_skipped_by_a_fitting_walk_is_not_offered_behind_the_cursor() {
    let mut order = Order::default();
    for n in 0..6u32 {
        let least = Least::Cores(if n % 2 == 0 { PARKED } else { 1 });
        order.insert(n % 2, least, key(u64::from(n)), (1, 1.0), n);
    }
    let mut walk = Walk::default();
    let any = |_| |_| true;
    assert_eq!(walk.next_fitting(&order, |(cores, _)| cores <= 1, any), Some((1, 1)));
    assert_eq!(walk.next_fitting(&order, |(cores, _)| cores <= 1, any), Some((1, 3)));
    // Jobs 0 and 2 are behind the cursor now; 4 and 5 are not.
    assert_eq!(walk.next(&order, None), Some(4));
    assert_eq!(walk.next(&order, None), Some(5));
    assert_eq!(walk.next(&order, None), None);
}

type Jobs = BTreeMap<u64, (ClassId, u8)>;

/// Jobs by number with their class and duration. At most two of them are often at an end of the trees.
fn few_or_many(numbers: std::ops::Range<u64>, many: usize) -> impl Strategy<Value = Jobs> {
    let up_to = move |most| prop::collection::btree_map(numbers.clone(), (0u32..7, 0u8..5), 0..most);
    prop_oneof![up_to(3), up_to(many)]
}

proptest! {
    #[test]
    fn a_walk_is_a_sorted_list_and_a_fitting_walk_leaves_out_what_is_parked_or_too_long(
        jobs in few_or_many(0..500, 60),
        parked in prop::collection::btree_set(0u32..7, 0..4),
        free in 0u32..7,
        gone in prop::collection::vec(0usize..60, 0..20),
        later in few_or_many(500..600, 4),
        calls in prop::collection::vec((any::<bool>(), 0u32..7, any::<bool>()), 0..80),
        listed in 0u8..5,
        keyed: bool,
        sized: bool,
    ) {
        let key = |n: u64| OrderKey::new(if keyed { n as f64 } else { 0.0 }, 16, 0.0, JobId(n));
        // A class requests as many cores as its number.
        let fewest = |class: ClassId| if parked.contains(&class) { PARKED } else { class };
        // Some classes are of the size of their jobs.
        let of_jobs = |class: ClassId| sized && class.is_multiple_of(2) && !parked.contains(&class);
        let least = |class| if of_jobs(class) { Least::OfJobs } else { Least::Cores(fewest(class)) };
        let mut order = Order::default();
        let mut model: BTreeMap<OrderKey, (ClassId, f64, Slot)> = BTreeMap::new();
        let list = |order: &mut Order| order.visit(&Walk { visits: VISITS, ..Walk::default() });
        let add = |order: &mut Order, model: &mut BTreeMap<_, _>, (n, (class, duration)): (&u64, &(ClassId, u8)), least| {
            let duration = f64::from(*duration);
            order.insert(*class, least, key(*n), (*class, duration), *n as Slot);
            model.insert(key(*n), (*class, duration, *n as Slot));
        };
        for (number, job) in jobs.iter().enumerate() {
            // A list of none, some or all of the jobs is kept in step.
            if number == [0, 1, 40][usize::from(listed % 3)] {
                list(&mut order);
            }
            let class = job.1.0;
            add(&mut order, &mut model, job, if of_jobs(class) { Least::OfJobs } else { Least::Cores(class) });
        }
        for class in &parked {
            order.set_least(*class, Least::Cores(PARKED));
        }
        for index in gone {
            let Some((k, (class, ..))) = model.iter().nth(index).map(|(k, v)| (*k, *v)) else { continue };
            order.remove(class, least(class), &k);
            model.remove(&k);
        }
        for job in &later {
            add(&mut order, &mut model, job, least(job.1.0));
        }
        let sorted: Vec<Slot> = model.values().map(|(.., s)| *s).collect();
        prop_assert_eq!(order.head(), sorted.first().copied());
        prop_assert_eq!(walk_all(&order), sorted);
        let mut native = Sorted::default();
        model.iter().for_each(|(k, (.., s))| native.insert(*k, *s));
        prop_assert_eq!(order.same_as(&native).is_some(), !keyed || model.keys().all(OrderKey::is_native));
        prop_assert!(model.is_empty() || order.same_as(&Sorted::default()).is_none(), "it has other jobs");

        // The longest allowed duration of each class, which decreases.
        let mut longest = [4.0; 7];
        let mut walk = Walk::default();
        let mut pos: Option<OrderKey> = None;
        for (number, (fitting, shorter, sorted)) in calls.into_iter().enumerate() {
            // A list may be made in the middle of a walk.
            if listed == 4 && number == 10 {
                list(&mut order);
            }
            longest[shorter as usize] -= 1.0;
            let fits = |c: ClassId, d: f64| fewest(c) <= free && d <= longest[c as usize];
            let expect = model.iter()
                .find(|(k, (c, d, _))| pos.is_none_or(|p| **k > p) && (!fitting || fits(*c, *d)));
            let sorted = sorted.then_some(&native);
            let got = match fitting {
                true => {
                    let longest_of = |cores: u32| {
                        // The latest of the classes of at least as many cores, so that the rule is monotonic.
                        longest.iter().skip(cores as usize).copied().fold(f64::NEG_INFINITY, f64::max)
                    };
                    let maybe = |(cores, d): Size| cores <= free && d <= longest_of(cores);
                    if let Some((_, (class, ..))) = expect {
                        prop_assert!(order.classes(maybe).binary_search(class).is_ok());
                    }
                    walk.next_fitting(&order, maybe, |c| move |(_, d)| fits(c, d))
                }
                false => walk.next(&order, sorted).map(|slot| (expect.map_or(0, |(_, (c, ..))| *c), slot)),
            };
            prop_assert_eq!(got, expect.map(|(_, (c, _, s))| (*c, *s)));
            if let Some((k, _)) = expect { pos = Some(*k); }
        }
    }
}
