//! Vectors and properties of counts.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::document::Path;

fn values(count: &Count) -> Vec<u64> {
    count.values().take(8).collect()
}

/// RFC 14 and RFC 45, the expansions of the digest (§3.5).
#[test]
fn expansions() {
    let rows = [
        (json!(1), vec![1]),
        (json!("13"), vec![13]),
        (json!("5,7,13"), vec![5, 7, 13]),
        (json!({"min": 4, "max": 6}), vec![4, 5, 6]),
        (json!({"min": 1, "max": 3, "operand": 2, "operator": "+"}), vec![1, 3]),
        (json!({"min": 2, "max": 16, "operand": 2, "operator": "*"}), vec![2, 4, 8, 16]),
        (json!({"min": 2, "max": 16, "operand": 2, "operator": "^"}), vec![2, 4, 16]),
        (json!("2-32:2:*"), vec![2, 4, 8, 16, 32]),
        (json!("4,9,16,25"), vec![4, 9, 16, 25]),
        (json!("4"), vec![4]),
        (json!("[2-4]"), vec![2, 3, 4]),
        (json!("3-3"), vec![3]),
        (json!("1-3,4-5"), vec![1, 2, 3, 4, 5]),
        (json!("[1-2,5]"), vec![1, 2, 5]),
        (json!({"min": 3}), vec![3, 4, 5, 6, 7, 8, 9, 10]),
        (json!("2+:3:*"), vec![2, 6, 18, 54, 162, 486, 1458, 4374]),
        (json!("3-4:5"), vec![3]),
    ];
    for (text, want) in rows {
        let count = crate::jobspec::read::count(&text, &Path::Root)
            .unwrap_or_else(|e| panic!("{text}: {}", e.expected));
        assert_eq!(values(&count), want, "{text}");
        assert_eq!(count.max().is_none(), want.len() == 8, "{text}");
        assert_eq!(crate::jobspec::read::count(&count.to_value(), &Path::Root).ok(), Some(count), "{text}");
    }
}

/// RFC 45, long and short forms.
#[test]
fn long_and_short() {
    let rows = [
        ("2+", "2+:1:+", "2+"),
        ("2-5:3", "2-5:3:+", "2-5:3"),
        ("2-5:1:+", "2-5:1:+", "2-5"),
        ("25-133:17:+", "25-133:17:+", "25-133:17"),
        ("3-3", "3", "3"),
        ("[1-4:2:*]", "1-4:2:*", "1-4:2:*"),
        ("[100+]", "100+:1:+", "100+"),
        ("2,4,8", "2,4,8", "2,4,8"),
    ];
    for (text, long, short) in rows {
        let count = Count::parse(text).unwrap();
        assert_eq!((count.to_long_string().as_str(), count.to_string().as_str()), (long, short));
        assert_eq!(Count::parse(long), Ok(count));
    }
}

/// The refused counts of the digest (§3.5).
#[test]
fn refused() {
    let strings = [
        "",
        "[]",
        "[0]",
        "{}",
        "0",
        "-1",
        "3-2:1:+",
        "2-8:01",
        "2-8:1;+",
        "2-8:1:*",
        "2-8:1:^",
        "2-8:1:/",
        "2-8:1:++",
        "4.2",
        "x",
        "1-2x",
        "01,2",
        "3,2",
        "2,2,2,2",
        "[0 0]",
        "[[0]]",
        "0-",
        "-5",
        "13-",
        "0-3",
        "0,1",
        "1,,2",
        "[2",
        "2]",
        "2-",
        "2:2",
        "+",
        "2++",
        "2-8:",
        "2-8:2:",
        "9223372036854775808",
        "2-8:0",
        "1-4:2:^",
        " 2",
        "1,4294967296",
    ];
    for text in strings {
        assert!(Count::parse(text).is_err(), "{text:?}");
        assert!(crate::jobspec::read::count(&json!(text), &Path::Root).is_err(), "{text:?}");
    }
    let values = [
        json!(0),
        json!(-1),
        json!(4.2),
        json!(1.5),
        json!(true),
        json!(null),
        json!([1, 2]),
        json!({}),
        json!({"man": 4}),
        json!({"min": 4, "max": 6, "operand": 0, "operator": "+"}),
        json!({"min": -2, "max": 6, "operand": 1, "operator": "+"}),
        json!({"min": 3, "max": 1, "operand": 2, "operator": "+"}),
        json!({"min": 2, "max": 16, "operand": 1, "operator": "*"}),
        json!({"min": 2, "max": 16, "operand": 1, "operator": "^"}),
        json!({"min": 1, "max": 16, "operand": 2, "operator": "^"}),
        json!({"min": 2, "max": 16, "operand": 1, "operator": "/"}),
        json!({"min": 4, "max": 2}),
        json!({"min": "1"}),
        json!({"min": 1, "max": 4, "operand": 2}),
        json!({"min": 1, "max": 4, "operator": "+"}),
        json!({"min": 1, "max": 4, "operator": "++", "operand": 2}),
        json!({"min": 1, "max": "4"}),
        json!({"min": 9_223_372_036_854_775_808_u64}),
    ];
    for value in values {
        assert!(crate::jobspec::read::count(&value, &Path::Root).is_err(), "{value}");
    }
}

#[test]
fn errors_name_the_place() {
    let error = Count::parse("2-8:1:/").unwrap_err();
    assert_eq!((error.at, error.kind), (6, CountErrorKind::Operator));
    assert_eq!(Count::parse("3,2").unwrap_err().at, 2);
    assert_eq!(
        Count::parse("4x").unwrap_err().to_string(),
        "count '4x': unexpected character at position 1; a count looks like '4', '2,4,8', '2-8', '2+' or '2-64:2:*'"
    );
}

#[test]
fn huge_ranges_cost_nothing() {
    let count = Count::parse("1-9223372036854775807:3").unwrap();
    assert_eq!(count.largest_at_most(u64::MAX), Some(COUNT_MAX - (COUNT_MAX - 1) % 3));
    assert_eq!(count.largest_at_most(1_000_000_000_000), Some(1_000_000_000_000));
    assert!(count.contains(4) && !count.contains(5));
    assert_eq!(Count::parse("2+:2:^").unwrap().largest_at_most(u64::MAX), Some(1 << 32));
    assert_eq!(Count::parse("2+:9223372036854775807:*").unwrap().values().count(), 1);
    assert_eq!(
        Count::parse("1-2000000000,2000000002").unwrap().largest_at_most(2_000_000_001),
        Some(2_000_000_000)
    );
    // A range made by code that cannot advance ends.
    let stuck = Count::Range { min: 1, max: None, operand: 1, operator: Operator::Times };
    assert_eq!((values(&stuck), stuck.largest_at_most(9)), (vec![1], Some(1)));
    let stuck = Count::Range { min: 1, max: Some(3), operand: 0, operator: Operator::Plus };
    assert_eq!(values(&stuck), [1]);
}

/// Any count that can be written.
pub(crate) fn counts() -> impl Strategy<Value = Count> + Clone {
    let operator = prop_oneof![Just(Operator::Plus), Just(Operator::Times), Just(Operator::Power)];
    let range = (2..50u64, proptest::option::of(0..200u64), 2..6u64, operator);
    prop_oneof![
        (1..1000u64).prop_map(Count::Fixed),
        range.prop_map(|(min, more, operand, operator)| {
            Count::range(min, more.map(|more| min + more), operand, operator).unwrap()
        }),
        (1..50u64, 0..50u64)
            .prop_map(|(min, more)| Count::range(min, Some(min + more), 1, Operator::Plus).unwrap()),
        proptest::collection::btree_set(1..60u32, 1..9)
            .prop_map(|ids| Count::set(ids.into_iter().collect()).unwrap()),
    ]
}

proptest! {
    #[test]
    fn every_form_reads_back(count in counts()) {
        for text in [count.to_string(), format!("[{count}]"), count.to_long_string()] {
            prop_assert_eq!(Count::parse(&text), Ok(count.clone()));
        }
        let value = count.to_value();
        prop_assert_eq!(crate::jobspec::read::count(&value, &Path::Root).ok(), Some(count));
    }

    #[test]
    fn largest_is_the_last_of_the_walk(count in counts(), n in 0..300u64) {
        prop_assert_eq!(count.largest_at_most(n), count.values_up_to(n).last());
        prop_assert_eq!(count.contains(n), count.values_up_to(n).any(|value| value == n));
        prop_assert_eq!(Some(count.min()), count.values().next());
        if let Some(max) = count.max() {
            prop_assert!(count.contains(max) && count.values().all(|value| value <= max));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9+*^:,\\[\\]x -]{0,12}") {
        if let Ok(count) = Count::parse(&text) {
            prop_assert_eq!(Count::parse(&count.to_string()), Ok(count));
        }
    }
}
