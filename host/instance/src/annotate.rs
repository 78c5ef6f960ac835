//! Annotations (RFC 27) of a job by a scheduler, and how they are merged.
//!
//! A dictionary is merged into a dictionary key by key, `null` deletes a key, anything else replaces. As in
//! flux-core, dictionaries that deletions left empty are removed.

use serde_json::{Map, Value};

use crate::limits::{ANNOTATIONS_SIZE_MAX, DEPTH_MAX};

/// Merges `update` into `base`.
pub(crate) fn merge(base: &mut Map<String, Value>, update: &Map<String, Value>) {
    for (key, new) in update {
        match new {
            Value::Null => {
                base.shift_remove(key);
            }
            Value::Object(new) => {
                let old = base.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
                if !old.is_object() {
                    *old = Value::Object(Map::new());
                }
                if let Value::Object(old) = old {
                    merge(old, new);
                    if old.is_empty() {
                        base.shift_remove(key);
                    }
                }
            }
            other => {
                base.insert(key.clone(), other.clone());
            }
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Merges unless the result would exceed its bounds of size or depth; true if it was merged.
pub(crate) fn merge_bounded(base: &mut Map<String, Value>, update: &Map<String, Value>) -> bool {
    if update.values().map(depth).max().unwrap_or(0) > DEPTH_MAX {
        return false;
    }
    let mut merged = base.clone();
    merge(&mut merged, update);
    if serde_json::to_string(&merged).map_or(0, |text| text.len()) > ANNOTATIONS_SIZE_MAX {
        return false;
    }
    *base = merged;
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn r27_ann_2_merge() {
        let cases = [
            (json!({}), json!({"sched": {"a": 1}}), json!({"sched": {"a": 1}})),
            (json!({"sched": {"a": 1}}), json!({"sched": {"b": 2}}), json!({"sched": {"a": 1, "b": 2}})),
            (
                json!({"sched": {"a": 1}}),
                json!({"sched": {"a": {"x": 1}}}),
                json!({"sched": {"a": {"x": 1}}}),
            ),
            (json!({"sched": {"a": 1, "b": 2}}), json!({"sched": {"a": null}}), json!({"sched": {"b": 2}})),
            (json!({"sched": {"a": 1}}), json!({"sched": {"a": null}}), json!({})),
            (json!({"sched": {"a": 1}}), json!({"sched": null}), json!({})),
            (json!({"sched": {"a": 1}}), json!({"sched": [null]}), json!({"sched": [null]})),
            (json!({}), json!({"sched": {"a": {"b": null}}}), json!({})),
            (json!({"user": {"a": 1}}), json!({"sched": {"a": null}}), json!({"user": {"a": 1}})),
        ];
        for (base, update, expected) in cases {
            let mut result = map(base.clone());
            merge(&mut result, &map(update.clone()));
            assert_eq!(Value::Object(result), expected, "{base} + {update}");
        }
    }

    #[test]
    fn what_is_too_large_or_too_deep_changes_nothing() {
        let mut base = map(json!({"a": 1}));
        assert!(!merge_bounded(&mut base, &map(json!({"x": "y".repeat(ANNOTATIONS_SIZE_MAX)}))));
        let mut deep = json!(1);
        for _ in 0..=DEPTH_MAX {
            deep = json!({ "k": deep });
        }
        assert!(!merge_bounded(&mut base, &map(json!({ "x": deep }))));
        assert_eq!(base, map(json!({"a": 1})));
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..5i64).prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        })
    }

    fn dict() -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::btree_map("[abc]", tree(), 0..4).prop_map(|entries| entries.into_iter().collect())
    }

    /// The rule of the RFC once more, as a function on paths: what does a leaf hold afterwards?
    fn leaves(value: &Value, path: String, out: &mut std::collections::BTreeMap<String, Value>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    leaves(inner, format!("{path}/{key}"), out);
                }
            }
            Value::Null => {}
            other => {
                out.insert(path, other.clone());
            }
        }
    }

    proptest! {
        #[test]
        fn merging_keeps_no_null_and_no_empty_dictionary(first in dict(), second in dict()) {
            let mut merged = Map::new();
            merge(&mut merged, &first);
            merge(&mut merged, &second);
            fn clean(value: &Value) -> bool {
                match value {
                    Value::Null => false,
                    Value::Object(map) => !map.is_empty() && map.values().all(clean),
                    _ => true,
                }
            }
            prop_assert!(merged.values().all(clean), "{merged:?}");
        }

        #[test]
        fn every_leaf_of_the_update_wins_and_the_others_stay(first in dict(), second in dict()) {
            let mut merged = Map::new();
            merge(&mut merged, &first);
            let before = merged.clone();
            merge(&mut merged, &second);
            let (mut old, mut new, mut result) = Default::default();
            leaves(&Value::Object(before), String::new(), &mut old);
            leaves(&Value::Object(second.clone()), String::new(), &mut new);
            leaves(&Value::Object(merged.clone()), String::new(), &mut result);
            for (path, value) in &new {
                prop_assert_eq!(result.get(path), Some(value));
            }
            for (path, value) in &result {
                prop_assert!(new.get(path).or(old.get(path)) == Some(value));
            }
            let again = merged.clone();
            merge(&mut merged, &second);
            prop_assert_eq!(merged, again);
        }
    }
}
