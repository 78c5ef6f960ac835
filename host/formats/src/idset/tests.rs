//! The vectors of RFC 22 and flux-core, and properties of idsets against a plain set.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn set(text: &str) -> Idset {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn valid_texts() {
    // Text, printed text, number of members.
    let rows = [
        ("RFC 22, list", "1,2,3,5,6,42", "1-3,5-6,42", 6),
        ("RFC 22, ranges", "1-3,5-6,42", "1-3,5-6,42", 6),
        ("RFC 22, brackets", "[1-3,5-6,42]", "1-3,5-6,42", 6),
        ("core, empty", "", "", 0),
        ("core, empty brackets", "[]", "", 0),
        ("core, zero", "0", "0", 1),
        ("core, 2^20", "1048576", "1048576", 1),
        ("core, one in brackets", "[2]", "2", 1),
        ("core, range in brackets", "[7-9]", "7-9", 3),
        ("core, touching ranges", "1-3,4-5", "1-5", 5),
        ("core, mixed", "1-3,7-9,14,16", "1-3,7-9,14,16", 8),
        ("core, compressed", "2,3,4,5", "2-5", 4),
        ("core, largest id", "2147483647", "2147483647", 1),
        ("everything", "0-2147483647", "0-2147483647", 1 << 31),
        ("a million", "1-1000000", "1-1000000", 1_000_000),
    ];
    for (name, text, printed, len) in rows {
        let ids = Idset::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(ids.to_string(), printed, "{name}");
        assert_eq!(ids.len(), len, "{name}");
        assert_eq!(ids.is_empty(), len == 0, "{name}");
    }
}

#[test]
fn invalid_texts_and_where_they_break() {
    use IdsetErrorKind::*;
    let rows = [
        ("4.2", 1, Unexpected),
        ("x", 0, NoId),
        ("1-2x", 3, Unexpected),
        ("01,2", 0, LeadingZero),
        ("00", 0, LeadingZero),
        ("3,2", 2, OutOfOrder),
        ("3-0", 0, Descending),
        ("2,2,2,2", 2, OutOfOrder),
        ("[0 0]", 2, Unexpected),
        ("[0", 2, Bracket),
        ("[", 1, NoId),
        ("0]", 1, Bracket),
        ("]", 0, Bracket),
        ("[[0]]", 1, Bracket),
        ("[[0,2]", 1, Bracket),
        ("[0,2]]", 5, Bracket),
        ("0,[2", 2, Bracket),
        ("0]2", 1, Bracket),
        ("[0],[2]", 3, Unexpected),
        ("0-", 2, NoId),
        ("[0-]", 3, Bracket),
        ("-5", 0, NoId),
        ("[-5]", 1, NoId),
        ("5-5", 0, Descending),
        ("+5", 0, NoId),
        (" 1", 0, NoId),
        ("1 ", 1, Unexpected),
        ("1, 2", 2, NoId),
        ("1-3,2", 4, OutOfOrder),
        ("1-3,3-5", 4, OutOfOrder),
        ("1-01", 2, LeadingZero),
        // Texts that flux-core accepts.
        ("1,,2", 2, NoId),
        (",1", 0, NoId),
        ("1,", 2, NoId),
        ("4294967296", 0, TooLarge),
        ("2147483648", 0, TooLarge),
        ("0-2147483648", 2, TooLarge),
        ("99999999999999999999999999", 0, TooLarge),
        ("١", 0, NoId),
    ];
    for (text, at, kind) in rows {
        let error = Idset::parse(text).expect_err(text);
        assert_eq!((error.at, error.kind), (at, kind), "{text}");
    }
}

#[test]
fn the_error_names_text_and_position() {
    let message = Idset::parse("1-3,x").expect_err("no idset").to_string();
    assert_eq!(
        message,
        "idset '1-3,x': expected a digit at position 4; an idset looks like '0-3,8' (ascending, no spaces)"
    );
}

#[test]
fn set_operations() {
    // a, b, union, difference, intersection
    let rows = [
        ("0", "", "0", "0", ""),
        ("0", "0", "0", "", "0"),
        ("0", "1", "0-1", "0", ""),
        ("0-1", "0", "0-1", "1", "0"),
        ("0-1", "2-3", "0-3", "0-1", ""),
        ("0-1", "1-2", "0-2", "0", "1"),
        ("0-10", "2,4-5,20", "0-10,20", "0-1,3,6-10", "2,4-5"),
        ("0-2,5-7,9", "2-5", "0-7,9", "0-1,6-7,9", "2,5"),
        ("1,3,5", "0-9", "0-9", "", "1,3,5"),
        ("2147483647", "0-2147483646", "0-2147483647", "2147483647", ""),
    ];
    for (a, b, union, difference, intersection) in rows {
        let (x, y) = (set(a), set(b));
        assert_eq!(x.union(&y).to_string(), union, "{a} + {b}");
        assert_eq!(y.union(&x).to_string(), union, "{b} + {a}");
        assert_eq!(x.difference(&y).to_string(), difference, "{a} - {b}");
        assert_eq!(x.intersection(&y).to_string(), intersection, "{a} & {b}");
        assert_eq!(x.is_disjoint(&y), intersection.is_empty(), "{a} & {b}");
        assert_eq!(x.is_subset(&y), difference.is_empty(), "{a} in {b}");
    }
}

#[test]
fn insert_and_remove_keep_ranges_maximal() {
    let mut ids = Idset::new();
    assert!(ids.insert(5) && ids.insert(7) && ids.insert(6));
    assert!(!ids.insert(6));
    assert_eq!(ids.ranges().collect::<Vec<_>>(), [5..=7]);
    ids.insert_range(0..=3);
    assert_eq!(ids.to_string(), "0-3,5-7");
    ids.insert_range(4..=4);
    assert_eq!(ids.to_string(), "0-7");
    assert!(ids.remove(3) && !ids.remove(3));
    ids.remove_range(6..=u32::MAX);
    assert_eq!(ids.to_string(), "0-2,4-5");
    ids.remove_range(0..=u32::MAX);
    assert!(ids.is_empty());
}

#[test]
fn ids_above_the_limit_never_get_in() {
    let mut ids = Idset::new();
    assert!(!ids.insert(MAX_ID + 1));
    ids.insert_range(MAX_ID..=u32::MAX);
    ids.insert_range(u32::MAX..=u32::MAX);
    ids.extend([MAX_ID + 1, u32::MAX]);
    assert_eq!(ids.to_string(), "2147483647");
    assert_eq!(set(&ids.to_string()), ids);
}

#[test]
fn positions_and_prefixes() {
    let ids = set("3-5,8,10-11");
    assert_eq!(ids.iter().rev().collect::<Vec<_>>(), [11, 10, 8, 5, 4, 3]);
    assert_eq!((ids.first(), ids.last()), (Some(3), Some(11)));
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(ids.nth(n as u64), Some(id));
        assert_eq!(ids.position(id), Some(n as u64));
    }
    assert_eq!((ids.nth(6), ids.position(9), ids.position(12)), (None, None, None));
    assert_eq!(ids.take(4).to_string(), "3-5,8");
    assert_eq!(ids.take(2).to_string(), "3-4");
    assert_eq!((ids.take(0).len(), ids.take(u64::MAX)), (0, ids.clone()));
}

#[test]
fn serialises_as_its_text() {
    let ids = set("0-3,8");
    assert_eq!(serde_json::to_string(&ids).unwrap(), r#""0-3,8""#);
    assert_eq!(serde_json::from_str::<Idset>(r#""[0-3,8]""#).unwrap(), ids);
    assert!(serde_json::from_str::<Idset>("7").is_err());
    assert!(serde_json::from_str::<Idset>(r#""8,7""#).is_err());
}

/// Small sets, so that ranges touch, overlap and vanish.
fn few() -> impl Strategy<Value = BTreeSet<u32>> {
    proptest::collection::btree_set(prop_oneof![0u32..40, MAX_ID - 5..=MAX_ID], 0..30)
}

fn build(model: &BTreeSet<u32>) -> Idset {
    model.iter().copied().collect()
}

/// The invariant of the representation, seen from outside.
fn assert_canonical(ids: &Idset) {
    let ranges: Vec<_> = ids.ranges().collect();
    for r in &ranges {
        assert!(r.start() <= r.end() && *r.end() <= MAX_ID);
    }
    for pair in ranges.windows(2) {
        assert!(pair[0].end() + 1 < *pair[1].start(), "{ids}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = Idset::parse(&text);
    }

    #[test]
    fn no_near_miss_panics_and_what_is_read_prints_back(text in r"[0-9,\-\[\] ]{0,24}") {
        if let Ok(ids) = Idset::parse(&text) {
            assert_canonical(&ids);
            prop_assert_eq!(Idset::parse(&ids.to_string()), Ok(ids));
        }
    }

    #[test]
    fn agrees_with_a_plain_set(a in few(), b in few()) {
        let (x, y) = (build(&a), build(&b));
        prop_assert_eq!(set(&x.to_string()), x.clone());
        prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(x.iter().rev().collect::<Vec<_>>(), a.iter().rev().copied().collect::<Vec<_>>());
        prop_assert_eq!(x.iter().len() as u64, x.len());
        for (ours, model) in [
            (x.union(&y), &a | &b),
            (x.difference(&y), &a - &b),
            (x.intersection(&y), &a & &b),
        ] {
            assert_canonical(&ours);
            prop_assert_eq!(ours, build(&model));
        }
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
    }

    #[test]
    fn edits_agree_with_a_plain_set(edits in proptest::collection::vec((any::<bool>(), 0u32..30, 0u32..6), 0..30)) {
        let (mut ids, mut model) = (Idset::new(), BTreeSet::new());
        for (add, lo, span) in edits {
            let range = lo..=lo + span;
            if add {
                ids.insert_range(range.clone());
                model.extend(range);
            } else {
                ids.remove_range(range.clone());
                model.retain(|id| !range.contains(id));
            }
            assert_canonical(&ids);
            prop_assert_eq!(&ids, &build(&model));
        }
        for id in 0..40 {
            prop_assert_eq!(ids.contains(id), model.contains(&id));
        }
    }

    #[test]
    fn walking_from_both_ends_meets(a in few(), from_front in proptest::collection::vec(any::<bool>(), 40)) {
        let ids = build(&a);
        let (mut ours, mut model) = (ids.iter(), a.iter().copied());
        for front in from_front {
            let (left, right) = if front { (ours.next(), model.next()) } else { (ours.next_back(), model.next_back()) };
            prop_assert_eq!(left, right);
        }
    }
}
