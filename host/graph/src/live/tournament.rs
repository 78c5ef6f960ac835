//! The least of the heads of several lists, as a tree of which each node holds the lesser of two: a head that changes costs one
//! comparison for each level.
//!
//! This module must never know the lists.

/// The ranks of the heads of some lists. Of equal ranks the first list is the least.
#[derive(Debug)]
pub(crate) struct Tournament {
    /// Node 1 is the root, and the nodes below `n` are `2 n` and `2 n + 1`. A head is its rank above the number of its list.
    tree: Vec<u64>,
}

/// No head.
const NONE: u64 = u64::MAX;

fn head(list: usize, rank: Option<u32>) -> u64 {
    rank.map_or(NONE, |rank| u64::from(rank) << 32 | list as u64)
}

impl Tournament {
    /// Of the rank of each list's head, `None` for a list without one.
    pub(crate) fn of(ranks: impl ExactSizeIterator<Item = Option<u32>>) -> Self {
        let lists = ranks.len().next_power_of_two();
        let mut tree = vec![NONE; 2 * lists];
        for (list, rank) in ranks.enumerate() {
            tree[lists + list] = head(list, rank);
        }
        for at in (1..lists).rev() {
            tree[at] = tree[2 * at].min(tree[2 * at + 1]);
        }
        Tournament { tree }
    }

    /// The list with the least head; `None` if none has a head.
    pub(crate) fn first(&self) -> Option<usize> {
        (self.tree[1] != NONE).then_some(self.tree[1] as u32 as usize)
    }

    /// A list has another head, or none.
    pub(crate) fn set(&mut self, list: usize, rank: Option<u32>) {
        let mut at = self.tree.len() / 2 + list;
        let mut least = head(list, rank);
        self.tree[at] = least;
        while at > 1 {
            least = least.min(self.tree[at ^ 1]);
            at /= 2;
            self.tree[at] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_are_merged(mut lists in prop::collection::vec(prop::collection::vec(0..60u32, 0..9), 0..21)) {
            lists.iter_mut().for_each(|list| list.sort_unstable());
            let mut all: Vec<u32> = lists.concat();
            all.sort_unstable();
            let mut rest: Vec<_> = lists.iter().map(|list| list.iter().copied()).collect();
            let mut heads: Vec<Option<u32>> = rest.iter_mut().map(Iterator::next).collect();
            let mut tournament = Tournament::of(heads.iter().copied());
            for least in all {
                let list = tournament.first().unwrap();
                prop_assert_eq!(heads[list], Some(least));
                prop_assert!(!heads[..list].contains(&Some(least)));
                heads[list] = rest[list].next();
                tournament.set(list, heads[list]);
            }
            prop_assert_eq!(tournament.first(), None);
        }
    }
}
