//! Vectors and properties of constraints.

use proptest::prelude::*;

use super::*;

struct Foo0;

impl Target for Foo0 {
    fn host(&self) -> &str {
        "foo0"
    }
    fn rank(&self) -> u32 {
        0
    }
    fn has_property(&self, name: &str) -> bool {
        matches!(name, "xx" | "yy")
    }
}

fn read(value: Value) -> Constraint {
    Constraint::from_value(&value).unwrap_or_else(|error| panic!("{error}"))
}

/// R31: on host foo0, rank 0, with the properties xx and yy.
#[test]
fn matching() {
    let rows = [
        (json!({}), true),
        (json!({"and": []}), true),
        (json!({"or": []}), true),
        (json!({"not": []}), false),
        (json!({"properties": []}), true),
        (json!({"properties": ["xx"]}), true),
        (json!({"properties": ["^xx"]}), false),
        (json!({"properties": ["^zz"]}), true),
        (json!({"properties": ["xx", "yy"]}), true),
        (json!({"properties": ["xx", "zz"]}), false),
        (json!({"not": [{"properties": ["xx"]}]}), false),
        (json!({"not": [{"or": [{"properties": ["zz"]}, {"properties": ["yy"]}]}]}), false),
        (json!({"not": [{"properties": ["xx"]}, {"properties": ["zz"]}]}), true),
        (json!({"and": [{"properties": ["xx"]}, {"properties": ["zz"]}]}), false),
        (json!({"or": [{"properties": ["xx"]}, {"properties": ["zz"]}]}), true),
        (json!({"and": [{}]}), true),
        (json!({"hostlist": ["foo[0-2]"]}), true),
        (json!({"hostlist": ["foo[1-3]"]}), false),
        (json!({"hostlist": ["bar", "foo0"]}), true),
        (json!({"not": [{"hostlist": ["foo[0-1]"]}]}), false),
        (json!({"ranks": ["0,2", "1"]}), true),
        (json!({"ranks": ["1-3"]}), false),
        (json!({"hostlist": []}), false),
        (json!({"ranks": []}), false),
        (json!({"and": [{"hostlist": ["foo[0-1]"]}, {"properties": ["ssd"]}]}), false),
        (json!({"ranks": ["0"]}), true),
    ];
    for (value, want) in rows {
        let constraint = read(value.clone());
        assert_eq!(constraint.matches(&Foo0), want, "R31 {value}");
        assert_eq!(read(constraint.to_value()), constraint, "R31 {value}");
    }
    assert_eq!(
        read(json!({"properties": ["xx@gpu", "+queue"]})).to_value(),
        json!({"properties": ["xx@gpu", "+queue"]})
    );
}

/// R31: refused, with the place and the reason.
#[test]
fn refused() {
    let rows = [
        (json!([]), "(top level): found an empty list, expected a dictionary"),
        (json!(null), "found null"),
        (
            json!({"foo": []}),
            "found the unknown constraint operator: foo, expected one of properties, hostlist, ranks, not, and, or",
        ),
        (json!({"and": {}}), "and: found an empty dictionary, expected a list"),
        (json!({"or": 1}), "or: found 1"),
        (json!({"not": {}}), "not: found"),
        (json!({"properties": "xx"}), "properties: found \"xx\", expected a list"),
        (json!({"properties": ["xx", 1]}), "properties[1]: found 1, expected a string"),
        (json!({"properties": ["x&y"]}), "properties[0]: found \"x&y\", expected a property name without"),
        (json!({"properties": ["^^x"]}), "property name without"),
        (json!({"properties": [""]}), "at least one character"),
        (json!({"properties": ["^"]}), "at least one character"),
        (json!({"hostlist": ["foo0-10]"]}), "hostlist[0]: found \"foo0-10]\", expected a hostlist ("),
        (json!({"hostlist": [0]}), "hostlist[0]: found 0"),
        (json!({"ranks": ["5,1-3"]}), "ranks[0]: found \"5,1-3\", expected an idset ("),
        (json!({"ranks": "0"}), "ranks: found"),
        (json!({"and": [], "or": []}), "found 2 operators, expected one operator in each object"),
        (json!({"and": [{"or": [{}, {"not": [[]]}]}]}), "and[0].or[1].not[0]: found an empty list"),
    ];
    for (value, words) in rows {
        let error = Constraint::from_value(&value).expect_err(&value.to_string()).to_string();
        assert!(error.starts_with("constraint: ") && error.contains(words), "{error}");
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = |levels| (1..levels).fold(json!({}), |inner, _| json!({ "not": [inner] }));
    assert!(Constraint::from_value(&deep(CONSTRAINT_DEPTH_MAX)).is_ok());
    let error = Constraint::from_value(&deep(CONSTRAINT_DEPTH_MAX + 1)).unwrap_err();
    assert!(error.to_string().contains("at most 60 levels"), "{error}");
    let wide = |terms| json!({ "properties": vec!["x"; terms] });
    assert!(Constraint::from_value(&wide(CONSTRAINT_TERMS_MAX - 1)).is_ok());
    assert!(Constraint::from_value(&wide(CONSTRAINT_TERMS_MAX)).is_err());
}

#[test]
fn conditions_add_up() {
    let (x, y) = (read(json!({"properties": ["x"]})), read(json!({"ranks": ["1"]})));
    assert_eq!(Constraint::All.and(x.clone()), x);
    assert_eq!(x.clone().and(Constraint::All), x);
    let both = x.clone().and(y.clone());
    assert_eq!(both, Constraint::And(vec![x.clone(), y.clone()]));
    assert_eq!(both.and(Constraint::None), Constraint::And(vec![x, y, Constraint::None]));
}

/// Any constraint that can be written.
pub(crate) fn constraints() -> impl Strategy<Value = Constraint> {
    let prop = ("[a-z+@]{1,3}", any::<bool>()).prop_map(|(name, negated)| Prop { name, negated });
    let leaf = prop_oneof![
        Just(Constraint::All),
        Just(Constraint::None),
        proptest::collection::vec(prop, 0..3).prop_map(Constraint::Properties),
        proptest::collection::vec(0..5u32, 0..3)
            .prop_map(|ids| Constraint::Hostlist(ids.iter().map(|id| format!("foo{id}")).collect())),
        proptest::collection::vec(0..5u32, 0..3).prop_map(|ids| Constraint::Ranks(ids.into_iter().collect())),
    ];
    leaf.prop_recursive(3, 20, 3, |inner| {
        let list = proptest::collection::vec(inner, 1..4);
        (list, 0..3u8).prop_map(|(list, operator)| match operator {
            0 => Constraint::Not(list),
            1 => Constraint::And(list),
            _ => Constraint::Or(list),
        })
    })
}

proptest! {
    #[test]
    fn print_then_read(constraint in constraints()) {
        prop_assert_eq!(Constraint::from_value(&constraint.to_value()), Ok(constraint));
    }

    #[test]
    fn not_is_the_opposite(constraint in constraints()) {
        let not = Constraint::Not(vec![constraint.clone()]);
        prop_assert_ne!(not.matches(&Foo0), constraint.matches(&Foo0));
    }

    #[test]
    fn and_asks_for_both(a in constraints(), b in constraints()) {
        let both = a.matches(&Foo0) && b.matches(&Foo0);
        prop_assert_eq!(a.and(b).matches(&Foo0), both);
    }
}
