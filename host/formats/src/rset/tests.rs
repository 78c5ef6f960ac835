//! Vectors and properties of resource sets.

use serde_json::json;

use super::*;

#[test]
fn r_is_grouped_and_sorted() {
    let r = R::from_value(&json!({"version": 1, "execution": {
        "R_lite": [
            {"rank": "3", "children": {"core": "2"}},
            {"rank": "1", "children": {"core": "0-3", "gpu": "0"}},
            {"rank": "0", "children": {"core": "0-3", "gpu": "0"}},
        ],
        "nodelist": ["n[0-1,3]"]}}));
    let r = r.unwrap();
    assert_eq!(r.summary(), "rank[0-1]/core[0-3],gpu0 rank3/core2");
    assert_eq!(r.hostname(3).as_deref(), Some("n3"));
    assert_eq!(R::from_json(&r.to_json()), Ok(r));
}
