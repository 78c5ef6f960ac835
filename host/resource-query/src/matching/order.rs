//! Sorting that puts equal elements where the graph scheduler of Flux puts them.
//!
//! Resources of equal score are equally good, but tools compare the output of selections text by text. The graph
//! scheduler sorts with the introsort (Musser 1997) of C++ libraries, which moves equal elements in a way that
//! depends only on the input. This module does the same: median of three, partition, and an insertion sort for short
//! runs. Inputs that would make a quicksort slow are sorted stably instead; for elements that differ the order is
//! that of any sort.
//!
//! This module must never know the elements.

/// Longest run that is left to the insertion sort.
pub(super) const RUN: usize = 16;

/// Sorts by a strict weak order.
pub(super) fn sort<T>(list: &mut [T], less: impl Fn(&T, &T) -> bool) {
    sort_front(list, usize::MAX, less);
}

/// Moves the first `count` elements of the sorted list to the front, in order. The order of the others is not
/// defined.
pub(super) fn sort_front<T>(list: &mut [T], count: usize, less: impl Fn(&T, &T) -> bool) {
    if list.len() < 2 {
        return;
    }
    let depth = 2 * list.len().ilog2();
    let mut end = list.len();
    parts(list, 0, depth, count, &mut end, &less);
    let guarded = list.len().min(RUN);
    // No element after a cut is smaller than one before it.
    for at in 1..end {
        // After the first run no element is smaller than all before it.
        let first = if at < guarded && less(&list[at], &list[0]) { Some(0) } else { None };
        let to = first.unwrap_or_else(|| {
            let mut to = at;
            while to > 0 && less(&list[at], &list[to - 1]) {
                to -= 1;
            }
            to
        });
        list[to..=at].rotate_right(1);
    }
}

/// Partitions a part of a list, as far as the first `count` elements need; `end` is the start of the first part
/// without any of them.
fn parts<T>(
    mut list: &mut [T],
    place: usize,
    mut depth: u32,
    count: usize,
    end: &mut usize,
    less: &impl Fn(&T, &T) -> bool,
) {
    while list.len() > RUN {
        if depth == 0 {
            list.sort_by(|a, b| match (less(a, b), less(b, a)) {
                (true, _) => std::cmp::Ordering::Less,
                (_, true) => std::cmp::Ordering::Greater,
                _ => std::cmp::Ordering::Equal,
            });
            return;
        }
        depth -= 1;
        let pivot = median(list, 1, list.len() / 2, list.len() - 1, less);
        list.swap(0, pivot);
        let cut = partition(list, less);
        let (before, after) = std::mem::take(&mut list).split_at_mut(cut);
        if place.saturating_add(cut) < count {
            parts(after, place + cut, depth, count, end, less);
        } else {
            *end = (*end).min(place + cut);
        }
        list = before;
    }
}

/// The position of the median of three elements.
fn median<T>(list: &[T], a: usize, b: usize, c: usize, less: &impl Fn(&T, &T) -> bool) -> usize {
    let less = |x: usize, y: usize| less(&list[x], &list[y]);
    if less(a, b) {
        if less(b, c) {
            b
        } else if less(a, c) {
            c
        } else {
            a
        }
    } else if less(a, c) {
        a
    } else if less(b, c) {
        c
    } else {
        b
    }
}

/// Moves the elements smaller than the first to the front of the rest; returns the start of the others.
fn partition<T>(list: &mut [T], less: &impl Fn(&T, &T) -> bool) -> usize {
    let (mut low, mut high) = (1, list.len());
    loop {
        while low < list.len() && less(&list[low], &list[0]) {
            low += 1;
        }
        high -= 1;
        while high > 0 && less(&list[0], &list[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        list.swap(low, high);
        low += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorts_as_any_sort_does(list in prop::collection::vec(0..40i32, 0..200)) {
            let mut mine: Vec<(i32, usize)> = list.iter().copied().zip(0..).collect();
            let mut again = mine.clone();
            sort(&mut mine, |a, b| a.0 < b.0);
            for count in [1, 2, list.len() / 3, list.len()] {
                let mut front = again.clone();
                sort_front(&mut front, count, |a, b| a.0 < b.0);
                let count = count.min(front.len());
                prop_assert_eq!(&front[..count], &mine[..count], "the front is the same");
            }
            let mut expected = list.clone();
            expected.sort_unstable();
            prop_assert_eq!(mine.iter().map(|m| m.0).collect::<Vec<_>>(), expected);
            sort(&mut again, |a, b| a.0 < b.0);
            prop_assert_eq!(&again, &mine, "the same input gives the same order");
            mine.sort_by_key(|m| m.1);
            prop_assert!(mine.iter().enumerate().all(|(i, m)| m.1 == i), "nothing lost");
        }
    }

    #[test]
    fn short_lists_stay_in_order_where_equal() {
        let mut list: Vec<(i32, usize)> = (0..16).map(|i| (i as i32 % 3, i)).collect();
        sort(&mut list, |a, b| a.0 < b.0);
        assert!(list.is_sorted());
    }
}
