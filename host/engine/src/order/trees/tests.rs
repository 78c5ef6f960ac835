//! The trees against sorted maps, with a check of every block.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use proptest::prelude::*;

use super::*;

fn key(n: u64) -> OrderKey {
    OrderKey::new(n as f64, 16, 0.0, JobId(n))
}

/// Number of blocks, after a check of all below this one. Keys are `from` this one and before `to`.
fn checked(blocks: &Blocks, at: u32, from: Option<OrderKey>, to: Option<OrderKey>) -> usize {
    blocks.check_block(at);
    let keys = blocks.keys(at);
    if blocks.level(at) == 0 {
        assert!(from.is_none_or(|from| from <= keys[0]) && to.is_none_or(|to| keys[keys.len() - 1] < to));
        return 1;
    }
    let below = blocks.values(at).iter().enumerate().map(|(place, child)| {
        assert_eq!(blocks.level(*child) + 1, blocks.level(at));
        assert_eq!(blocks.entry(at, place).size, blocks.least_in(*child));
        let from = if place == 0 { from } else { Some(keys[place]) };
        checked(blocks, *child, from, keys.get(place + 1).copied().or(to))
    });
    1 + below.sum::<usize>()
}

fn check(trees: &Trees) {
    let roots = trees.roots.iter().filter(|root| root.block != NIL);
    let used = roots.map(|root| {
        assert_eq!(Size::from(root.least), trees.blocks.least_in(root.block));
        assert!(trees.blocks.level(root.block) == 0 || trees.blocks.values(root.block).len() > 1);
        checked(&trees.blocks, root.block, None, None)
    });
    trees.blocks.check(used.sum());
}

proptest! {
    #[test]
    fn the_trees_are_sorted_lists(
        steps in prop::collection::vec((0u32..3, 0u64..100, 0u8..3, 0u32..5, 0u8..6), 0..300),
        asked in prop::collection::vec((0u32..3, 0u64..100, 0u32..6, 0u8..7), 20),
    ) {
        let size = |c: u32, d: u8| (c, if d == 5 { f64::INFINITY } else { f64::from(d) });
        let mut trees = Trees::default();
        let mut model: BTreeMap<(u32, OrderKey), (Size, u32)> = BTreeMap::new();
        for (number, (class, n, add, c, d)) in steps.into_iter().enumerate() {
            if add > 0 {
                trees.insert(class, key(n), size(c, d), number as u32);
                model.insert((class, key(n)), (size(c, d), number as u32));
            } else {
                prop_assert_eq!(trees.remove(class, &key(n)), model.remove(&(class, key(n))).is_some());
            }
            check(&trees);
            prop_assert_eq!(trees.len(), model.len());
        }
        trees.blocks.compact();
        check(&trees);
        prop_assert!(trees.blocks.is_compact());
        let of_class = |(key, class, value): (OrderKey, u32, u32)| ((class, key), value);
        let entries: BTreeMap<_, u32> = trees.entries().into_iter().map(of_class).collect();
        prop_assert_eq!(entries, model.iter().map(|(key, (_, index))| (*key, *index)).collect());
        for (class, n, widest, longest) in asked {
            let of = |c: &u32| *c == class;
            let first = model.keys().find(|(c, _)| of(c)).map(|(_, k)| *k);
            prop_assert_eq!(trees.first(class), first);
            let small = |(cores, seconds): Size| cores <= widest && seconds <= size(0, longest).1;
            let next = |included: bool| {
                let after = |k: OrderKey| k > key(n) || included && k == key(n);
                let mut list = model.iter().filter(|((c, k), _)| of(c) && after(*k));
                list.find(|(_, (size, _))| small(*size)).map(|((_, k), (_, index))| (*k, *index))
            };
            prop_assert_eq!(trees.next(class, Excluded(&key(n)), &small), next(false));
            prop_assert_eq!(trees.next(class, Included(&key(n)), &small), next(true));
        }
    }
}
