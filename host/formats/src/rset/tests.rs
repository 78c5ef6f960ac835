//! Vectors and properties of resource sets.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A set in the short form of the digest: ranks, cores, gpus and hosts.
fn r(ranks: &str, cores: &str, gpus: &str, hosts: &str) -> R {
    let children = if gpus.is_empty() { json!({"core": cores}) } else { json!({"core": cores, "gpu": gpus}) };
    R::try_from(json!({"version": 1, "execution": {
        "R_lite": [{"rank": ranks, "children": children}], "nodelist": [hosts]}}))
    .unwrap_or_else(|error| panic!("{error}"))
}

fn idset(text: &str) -> Idset {
    text.parse().unwrap()
}

/// The sample of RFC 20.
fn sample() -> Value {
    json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "19-22", "children": {"core": "0-47", "gpu": "0-7"}}],
            "nodelist": ["node[186-189]"],
            "nslots": 32,
            "properties": {"amd-mi50@gpu": "19-20", "+batch": "22"},
            "starttime": 1_676_560_542.0,
            "expiration": 1_676_562_342.0,
        },
        "scheduling": {"writer": "grug:v2", "graph": {"nodes": []}},
    })
}

#[test]
fn the_sample() {
    let set = R::from_json(&sample().to_string()).unwrap();
    assert_eq!(
        (set.count("node"), set.count("core"), set.count("gpu"), set.count("memory")),
        (4, 192, 32, 0)
    );
    assert_eq!((set.ranks(), set.nslots), (idset("19-22"), Some(32)));
    assert_eq!((set.hostname(21).as_deref(), set.hostname(23)), (Some("node188"), None));
    assert_eq!((set.rank_of("node186"), set.rank_of("node185")), (Some(19), None));
    assert_eq!(set.hosts().last(), Some((22, "node189".to_owned())));
    assert_eq!(set.children(20).unwrap()["gpu"], idset("0-7"));
    assert_eq!(set.property("amd-mi50@gpu"), Some(&idset("19-20")));
    assert_eq!(set.scheduling_writer(), Some("grug"));
    assert_eq!(set.summary(), "rank[19-22]/core[0-47],gpu[0-7]");
    assert_eq!(set.to_value(), sample());
    assert_eq!(R::from_value(&sample()), Ok(set.clone()));
    assert_eq!(serde_json::from_str(&serde_json::to_string(&set).unwrap()).ok(), Some(set.clone()));
    let job = set.without_instance_properties();
    assert_eq!(job.properties.keys().collect::<Vec<_>>(), ["amd-mi50@gpu"]);
}

/// Entries with equal children become one, "0" is never "0-0", the order is by rank.
#[test]
fn canonical_form() {
    let messy = json!({"version": 1, "execution": {
        "R_lite": [
            {"rank": "3", "children": {"core": "2", "gpu": ""}},
            {"rank": "1", "children": {"core": "0-1", "gpu": "0"}},
            {"rank": "0-1", "children": {"core": "2-3"}},
            {"rank": "0", "children": {"gpu": "0", "core": "0,1"}},
            {"rank": "7", "children": {"core": ""}},
        ],
        "nodelist": ["a0", "a[1,3]", "", "x"]}});
    let set = R::try_from(messy).unwrap();
    assert_eq!(set.summary(), "rank[0-1]/core[0-3],gpu0 rank3/core2");
    let execution = json!({
        "R_lite": [
            {"rank": "0-1", "children": {"core": "0-3", "gpu": "0"}},
            {"rank": "3", "children": {"core": "2"}},
        ],
        "nodelist": ["a[0-1,3]"], "starttime": 0.0, "expiration": 0.0});
    assert_eq!(set.to_value(), json!({"version": 1, "execution": execution}));
    assert_eq!(set.canonical(), set);
    assert_eq!(R::from_json(&set.to_json()), Ok(set));
}

#[test]
fn hosts_follow_the_order_of_ranks() {
    let set = R::try_from(json!({"version": 1, "execution": {
        "R_lite": [
            {"rank": "10", "children": {"core": "0"}},
            {"rank": "9", "children": {"core": "1"}},
            {"rank": "2", "children": {"core": "0"}},
        ],
        "nodelist": ["b,a", "z9"]}}));
    let set = set.unwrap();
    let hosts: Vec<_> = set.hosts().collect();
    assert_eq!(hosts, [(2, "b".to_owned()), (9, "a".to_owned()), (10, "z9".to_owned())]);
    // The digest: rank 1 on foo15 and rank 0 on foo16.
    let two = r("1", "0", "", "foo15").append(&r("0", "0", "", "foo16")).unwrap();
    assert_eq!(two.nodelist.to_string(), "foo[16,15]");
}

#[test]
fn the_empty_set() {
    let empty = json!({"version": 1, "execution": {"R_lite": [], "starttime": 0.0, "expiration": 0.0}});
    let set = R::try_from(empty).unwrap();
    assert_eq!((set.is_empty(), set.summary().as_str(), &set), (true, "", &R::new()));
    assert_eq!(R::from_json(&set.to_json()), Ok(set));
}

#[test]
fn unknown_types_are_kept() {
    let set = R::try_from(json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0", "children": {"core": "0", "nvme": "1-2"}}], "nodelist": ["a"]}}));
    let set = set.unwrap();
    assert_eq!((set.summary().as_str(), set.count("nvme")), ("rank0/core0,nvme[1-2]", 2));
    assert_eq!(R::from_json(&set.to_json()), Ok(set));
}

#[test]
fn unset_times() {
    for (start, end) in
        [(json!(0), json!(0.0)), (json!(-1), json!(-1.0)), (json!(0), json!(5)), (json!(5), json!(0))]
    {
        let mut document = sample();
        document["execution"]["starttime"] = start;
        document["execution"]["expiration"] = end;
        let set = R::try_from(document).unwrap_or_else(|error| panic!("{error}"));
        assert!(set.starttime >= 0.0 && set.expiration >= 0.0);
    }
}

/// R20: refused sets, and the errors.
#[test]
fn refused() {
    let lite = |entries: Value| Some(entries);
    let one = |rank: &str, children: Value| json!([{"rank": rank, "children": children}]);
    let rows = [
        ("/version", None, "(top level): found nothing, expected the key 'version'"),
        ("/version", Some(json!(2)), "version: found 2, expected 1, the only version of R there is"),
        ("/version", Some(json!("1")), "version: found \"1\""),
        ("/execution", None, "expected the key 'execution'"),
        ("/execution", Some(json!([])), "execution: found an empty list, expected a dictionary"),
        ("/execution/R_lite", None, "execution: found nothing, expected the key 'R_lite'"),
        (
            "/execution/R_lite",
            Some(json!({})),
            "execution.R_lite: found an empty dictionary, expected a list",
        ),
        ("/execution/R_lite", lite(json!([1])), "execution.R_lite[0]: found 1, expected a dictionary"),
        (
            "/execution/R_lite",
            lite(json!([{"children": {}}])),
            "R_lite[0]: found nothing, expected the key 'rank'",
        ),
        (
            "/execution/R_lite",
            lite(json!([{"rank": "1"}])),
            "R_lite[0]: found nothing, expected the key 'children'",
        ),
        (
            "/execution/R_lite",
            lite(one("", json!({"core": "0"}))),
            "R_lite[0].rank: found \"\", expected at least one rank",
        ),
        (
            "/execution/R_lite",
            lite(one("3-1", json!({"core": "0"}))),
            "R_lite[0].rank: found \"3-1\", expected an idset",
        ),
        (
            "/execution/R_lite",
            lite(json!([{"rank": 1, "children": {}}])),
            "R_lite[0].rank: found 1, expected a string",
        ),
        (
            "/execution/R_lite",
            lite(one("1", json!({"gpu": "0"}))),
            "R_lite[0].children: found nothing, expected the key 'core'",
        ),
        (
            "/execution/R_lite",
            lite(one("1", json!({"core": "0-0"}))),
            "children.core: found \"0-0\", expected an idset",
        ),
        (
            "/execution/R_lite",
            lite(one("1", json!({"core": 1}))),
            "children.core: found 1, expected a string",
        ),
        (
            "/execution/R_lite",
            lite(one("1", json!({"core": "0", "nvme": {}}))),
            "children.nvme: found an empty dictionary",
        ),
        (
            "/execution/R_lite",
            lite(json!([{"rank": "19-20", "children": {"core": "0-3"}},
            {"rank": "20-22", "children": {"core": "3-5"}}])),
            "R_lite[1]: found core 3 of rank 20 again, expected each resource once",
        ),
        ("/execution/nodelist", None, "execution.nodelist: found nothing, expected a list of hostlists"),
        (
            "/execution/nodelist",
            Some(json!("node[186-189]")),
            "execution.nodelist: found \"node[186-189]\", expected a list",
        ),
        (
            "/execution/nodelist",
            Some(json!(["a["])),
            "execution.nodelist[0]: found \"a[\", expected a hostlist",
        ),
        ("/execution/nodelist", Some(json!([1])), "execution.nodelist[0]: found 1"),
        (
            "/execution/nodelist",
            Some(json!(["n[0-2]"])),
            "execution.nodelist: found 3 host names, expected 4, one for each rank",
        ),
        ("/execution/nslots", Some(json!(0)), "execution.nslots: found 0, expected a number of slots"),
        ("/execution/nslots", Some(json!(1.5)), "execution.nslots: found 1.5"),
        (
            "/execution/starttime",
            Some(json!("now")),
            "execution.starttime: found \"now\", expected a number of seconds",
        ),
        (
            "/execution/expiration",
            Some(json!(1_676_560_542.0)),
            "execution.expiration: found 1676560542, expected a time after",
        ),
        ("/execution/properties", Some(json!([])), "execution.properties: found an empty list"),
        (
            "/execution/properties",
            Some(json!({"a": 1})),
            "execution.properties.a: found 1, expected a string",
        ),
        (
            "/execution/properties",
            Some(json!({"a": "19,23"})),
            "properties.a: found ranks 23, expected only ranks that stand in R_lite",
        ),
        ("/execution/properties", Some(json!({"": "19"})), "a property name of at least one character"),
        ("/scheduling", Some(json!("x")), "scheduling: found \"x\", expected a dictionary"),
    ];
    for (pointer, value, words) in rows {
        let mut document = sample();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        match value {
            Some(value) => drop(parent.insert(key.to_owned(), value)),
            None => drop(parent.remove(key)),
        }
        let error = R::from_value(&document).expect_err(&document.to_string()).to_string();
        assert!(error.starts_with("R: ") && error.contains(words), "{pointer}: {error}");
    }
    for forbidden in ['!', '&', '\'', '"', '^', '`', '|', '(', ')'] {
        let mut document = sample();
        document["execution"]["properties"] = json!({ format!("a{forbidden}b"): "19" });
        let error = R::try_from(document).unwrap_err().to_string();
        assert!(error.contains("expected a property name without"), "{error}");
    }
    let error = R::from_json("{\"version\":").unwrap_err().to_string();
    assert_eq!(error, "R: not valid JSON at line 1 column 11: EOF while parsing a value");
}

#[test]
fn size_is_bounded() {
    // A rank in too many entries, and sets beyond the bound of hosts.
    let entry = |i: usize| json!({"rank": "0", "children": {"core": "", format!("t{i}"): "0"}});
    let entries = |n: usize| {
        let entries: Vec<_> = (0..n).map(entry).collect();
        json!({"version": 1, "execution": {"R_lite": entries, "nodelist": ["a"]}})
    };
    assert!(R::try_from(entries(ENTRIES_PER_RANK_MAX)).is_ok());
    let error = R::try_from(entries(ENTRIES_PER_RANK_MAX + 1)).unwrap_err().to_string();
    assert!(error.contains("found 65 entries for rank 0, expected at most 64"), "{error}");
    let huge = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-2147483647", "children": {"core": "0-2147483647"}}], "nodelist": ["a"]}});
    let error = R::try_from(huge).unwrap_err().to_string();
    assert!(error.contains("found 1 host names, expected 2147483648"), "{error}");
}

/// The digest's vectors of the set operations (§3.7).
#[test]
fn set_operations() {
    let diff = |a: &R, b: &R| a.diff(b).summary();
    assert_eq!(diff(&r("0", "0-3", "", "foo15"), &r("0", "0-3", "", "foo15")), "");
    assert_eq!(diff(&r("0", "0-3", "0-1", "foo15"), &r("0", "0-3", "0-1", "foo15")), "");
    assert_eq!(diff(&r("0", "0-3", "", "foo15"), &r("0", "0-1", "", "foo15")), "rank0/core[2-3]");
    assert_eq!(diff(&r("0", "0-3", "0", "foo15"), &r("0", "0-3", "", "foo15")), "rank0/gpu0");
    let (a, b) = (r("0-10", "0-3", "", "foo[0-10]"), r("9-15", "1", "", "foo[9-15]"));
    assert_eq!(a.intersect(&b).summary(), "rank[9-10]/core1");
    assert_eq!(a.intersect(&b).nodelist.to_string(), "foo[9-10]");
    assert_eq!(a.union(&b).summary(), "rank[0-10]/core[0-3] rank[11-15]/core1");
    assert_eq!(a.union(&b).nodelist.to_string(), "foo[0-15]");
    assert_eq!(a.diff(&b).summary(), "rank[0-8]/core[0-3] rank[9-10]/core[0,2-3]");
    let all = a.append(&r("0-2", "4", "0", "foo[0-2]")).unwrap();
    assert_eq!(all.summary(), "rank[0-2]/core[0-4],gpu0 rank[3-10]/core[0-3]");
    let error = a.append(&b).unwrap_err();
    assert_eq!(error.to_string(), "both sets hold core 1 of rank 9");
    let error = a.append(&r("2-3", "7", "", "foo[2,4]")).unwrap_err();
    assert_eq!(error.to_string(), "rank 3 is host 'foo3' in one set and 'foo4' in the other");
    assert_eq!(a.subset(&idset("1,3-5,99")).summary(), "rank[1,3-5]/core[0-3]");
    assert_eq!(a.subset(&idset("1,3-5,99")).nodelist.to_string(), "foo[1,3-5]");
    assert!(a.covers(&a.subset(&idset("2"))) && !a.covers(&b) && !a.is_disjoint(&b));
    // A rank without cores is written as flux-core writes it, and can be read.
    let gpus = r("0", "0-3", "0", "foo15").diff(&r("0", "0-3", "", "foo15"));
    assert_eq!(gpus.to_value()["execution"]["R_lite"][0]["children"], json!({"core": "", "gpu": "0"}));
    assert_eq!(R::from_json(&gpus.to_json()), Ok(gpus));
}

#[test]
fn what_rides_along() {
    let set = R::try_from(sample()).unwrap();
    let part = set.subset(&idset("20-21"));
    assert_eq!(part.properties.keys().collect::<Vec<_>>(), ["amd-mi50@gpu"]);
    assert_eq!(part.property("amd-mi50@gpu"), Some(&idset("20")));
    assert_eq!((part.starttime, part.nslots), (set.starttime, set.nslots));
    assert_eq!(part.scheduling, set.scheduling);
    assert_eq!(part.union(&set), R { properties: set.properties.clone(), ..set.clone() });
}

/// The digest: a child instance counts ranks and cores from 0; gpus keep their ids.
#[test]
fn remap() {
    let set = r("1,7,9,53", "0-3", "", "foo[1,7,9,53]");
    assert_eq!(set.remap().summary(), "rank[0-3]/core[0-3]");
    let mut set = r("1,7,9,53", "1,5,7,9", "1,3", "foo[1,7,9,53]");
    set.properties.insert("x".to_owned(), idset("7,53"));
    let child = set.remap();
    assert_eq!(child.summary(), "rank[0-3]/core[0-3],gpu[1,3]");
    assert_eq!(child.nodelist.to_string(), "foo[1,7,9,53]");
    assert_eq!(child.property("x"), Some(&idset("1,3")));
    // Entries that differ only in the numbers of their cores become one.
    let set = r("4", "2-3", "", "a").union(&r("8", "5,9", "", "b"));
    assert_eq!(set.remap().summary(), "rank[0-1]/core[0-1]");
}

#[test]
fn from_single_nodes() {
    let node = |rank: u32, cores: &str| {
        (rank, format!("n{rank}"), Children::from([("core".to_owned(), idset(cores))]))
    };
    let set = R::from_nodes([node(2, "0-1"), node(0, "0-1"), node(1, "7"), node(5, ""), node(2, "9")]);
    assert_eq!(set.summary(), "rank[0,2]/core[0-1] rank1/core7");
    assert_eq!(set.nodelist.to_string(), "n[0-2]");
}

/// Small sets with all kinds of overlap.
fn sets() -> impl Strategy<Value = R> {
    let ids = || proptest::collection::btree_set(0..6u32, 0..5);
    proptest::collection::btree_map(0..12u32, (ids(), ids()), 0..8).prop_map(|nodes| {
        R::from_nodes(nodes.into_iter().map(|(rank, (cores, gpus))| {
            let children = [("core", cores), ("gpu", gpus)];
            let children = children.map(|(type_, ids)| (type_.to_owned(), Idset::from_iter(ids)));
            (rank, format!("n{rank}"), Children::from(children))
        }))
    })
}

/// Every single resource of a set.
fn units(set: &R) -> std::collections::BTreeSet<(u32, String, String, u32)> {
    let mut units = std::collections::BTreeSet::new();
    for (rank, host) in set.hosts() {
        for (type_, ids) in set.children(rank).unwrap() {
            units.extend(ids.iter().map(|id| (rank, host.clone(), type_.clone(), id)));
        }
    }
    units
}

proptest! {
    #[test]
    fn print_then_read(set in sets()) {
        prop_assert_eq!(R::from_json(&set.to_json()), Ok(set));
    }

    #[test]
    fn operations_are_those_of_sets(a in sets(), b in sets()) {
        let (x, y) = (units(&a), units(&b));
        prop_assert_eq!(units(&a.diff(&b)), x.difference(&y).cloned().collect());
        prop_assert_eq!(units(&a.intersect(&b)), x.intersection(&y).cloned().collect());
        prop_assert_eq!(units(&a.union(&b)), x.union(&y).cloned().collect());
        prop_assert_eq!(a.append(&b).is_ok(), x.is_disjoint(&y));
        prop_assert_eq!(a.is_disjoint(&b), x.is_disjoint(&y));
        prop_assert_eq!(a.covers(&b), y.is_subset(&x));
        // The results are canonical: equal sets are equal values.
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(R::union_all([a.clone(), b.clone(), a.diff(&b)]), a.union(&b));
        prop_assert_eq!(a.diff(&b).union(&a.intersect(&b)), a.clone());
        prop_assert_eq!(a.union(&b).canonical(), a.union(&b));
    }

    #[test]
    fn subset_keeps_the_ranks(set in sets(), ranks in proptest::collection::btree_set(0..12u32, 0..8)) {
        let want = units(&set).into_iter().filter(|unit| ranks.contains(&unit.0)).collect();
        let part = set.subset(&ranks.iter().copied().collect());
        prop_assert_eq!(units(&part), want);
        prop_assert_eq!(part.canonical(), part);
    }

    #[test]
    fn entries_merge_to_the_same_set(set in sets()) {
        // One entry for each resource, in descending order.
        let mut entries = Vec::new();
        for (rank, _, type_, id) in units(&set).into_iter().rev() {
            let mut children = json!({"core": ""});
            children[type_] = id.to_string().into();
            entries.push(json!({"rank": rank.to_string(), "children": children}));
        }
        let document = json!({"version": 1, "execution": {
            "R_lite": entries, "nodelist": [set.nodelist.to_string()]}});
        prop_assert_eq!(R::try_from(document).ok(), Some(set));
    }
}
