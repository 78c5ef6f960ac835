//! Base and extended data of pools.

use serde_json::json;

use super::{at, machine};
use crate::description::{Model, ModelError, Pool, Relation, State};

#[test]
fn m4_3_base_data_can_be_read_and_uuids_are_unique() {
    let mut model = Model::new();
    let mut pool = Pool::new("memory", 3);
    pool.basename = "dimm".to_owned();
    pool.size = 16;
    pool.unit = "GB".to_owned();
    pool.uuid = Some("5a0e".to_owned());
    pool.properties = vec![("slot".to_owned(), "A1".to_owned())];
    let id = model.add(pool.clone()).unwrap();
    let it = model.vertex(id).unwrap().clone();
    assert_eq!(model.text(it.type_()), "memory");
    assert_eq!(model.uuid(id), Some("5a0e"));
    assert_eq!(model.text(it.basename()), "dimm");
    assert_eq!(model.text(it.name()), "dimm3");
    assert_eq!(it.id(), Some(3));
    assert_eq!(model.properties(id).collect::<Vec<_>>(), [("slot", "A1")]);
    assert_eq!(it.size(), 16);
    assert_eq!(model.text(it.unit()), "GB");
    assert_eq!(model.by_uuid("5a0e"), Some(id));

    assert_eq!(model.add(pool), Err(ModelError::DuplicateUuid("5a0e".to_owned())));
    let mut none = Pool::new("memory", 0);
    none.size = 0;
    assert_eq!(model.add(none), Err(ModelError::Size(0)));
    assert_eq!(model.add(Pool::new("", 0)), Err(ModelError::NoType));
    assert_eq!(model.vertex_count(), 1, "nothing of the refused ones stays");
}

#[test]
fn m4_4_names_follow_from_basename_and_id() {
    let mut model = Model::new();
    let mut name = |pool: Pool| {
        let id = model.add(pool).unwrap();
        model.text(model.vertex(id).unwrap().name()).to_owned()
    };
    assert_eq!(name(Pool::new("core", 3)), "core3");
    assert_eq!(name(Pool::new("core", -1)), "core");
    let mut pool = Pool::new("node", 7);
    pool.basename = "n".to_owned();
    assert_eq!(name(pool.clone()), "n7");
    pool.name = "host-a".to_owned();
    assert_eq!(name(pool), "host-a");
}

#[test]
fn m4_5_names_may_be_templates() {
    let mut model = Model::new();
    let mut pool = Pool::new("node", 7);
    pool.name = "node-${frameid}-${rack}.${id}".to_owned();
    pool.properties = vec![("frameid".to_owned(), "f2".to_owned())];
    let missing = model.add(pool.clone()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the name 'node-${frameid}-${rack}.${id}' needs 'rack', which the vertex does not have"
    );
    pool.properties.push(("rack".to_owned(), "r1".to_owned()));
    let id = model.add(pool).unwrap();
    assert_eq!(model.text(model.vertex(id).unwrap().name()), "node-f2-r1.7");
}

#[test]
fn m4_6_several_properties_and_empty_values() {
    let mut model = machine(1, 1, 1);
    let node = at(&model, "/cluster0/rack0/node0");
    for (key, value) in [("ssd", ""), ("vendor", "acme"), ("class", "1")] {
        model.set_property(node, key, value).unwrap();
    }
    let all = ["ssd", "vendor", "class"].iter().all(|key| model.property(node, key).is_some());
    assert!(all && model.property(node, "gpu").is_none());
    let again = Model::from_jgf(&model.to_jgf().to_string()).unwrap();
    let node = at(&again, "/cluster0/rack0/node0");
    assert_eq!(again.property(node, "ssd"), Some(""));
    assert_eq!(again.property(node, "vendor"), Some("acme"));
}

#[test]
fn m4_7_m4_8_extended_data_and_tags() {
    let mut model = machine(1, 1, 1);
    let core = at(&model, "/cluster0/rack0/node0/core0");
    let base = model.vertex(core).unwrap().clone();
    model.set_extended(core, "site.example", json!({"asset": 42})).unwrap();
    assert_eq!(
        model.set_extended(core, "size", json!(9)),
        Err(ModelError::Reserved("size".to_owned())),
        "base data are not changed by that door"
    );
    model.set_tag(core, "noisy", vec![]).unwrap();
    model.set_tag(core, "owner", vec!["a".to_owned()]).unwrap();
    model.set_tag(core, "owner", vec!["b".to_owned(), "c".to_owned()]).unwrap();
    let again = Model::from_jgf(&model.to_jgf().to_string()).unwrap();
    for model in [&model, &again] {
        let core = at(model, "/cluster0/rack0/node0/core0");
        assert_eq!(model.extended(core, "site.example"), Some(&json!({"asset": 42})));
        assert_eq!(model.tag(core, "noisy"), Some(&[][..]));
        assert_eq!(model.tag(core, "owner"), Some(&["b".to_owned(), "c".to_owned()][..]));
        assert_eq!(model.vertex(core).unwrap().size(), base.size());
    }
    assert_eq!(model.remove_tag(core, "noisy"), Some(vec![]));
    assert_eq!(model.tag(core, "noisy"), None);
}

#[test]
fn m4_9_states_are_the_six_words_of_the_rfc() {
    for state in State::ALL {
        assert_eq!(State::parse(state.text()), Some(state));
    }
    assert_eq!(State::parse("sideways"), None);
    let mut model = machine(1, 1, 1);
    let node = at(&model, "/cluster0/rack0/node0");
    assert_eq!(model.set_state(node, State::Failing), Ok(State::Up));
    let again = Model::from_jgf(&model.to_jgf().to_string()).unwrap();
    assert_eq!(again.vertex(at(&again, "/cluster0/rack0/node0")).unwrap().state(), State::Failing);
    let text = model.to_jgf().to_string().replace("failing", "sideways");
    let refused = Model::from_jgf(&text).unwrap_err().to_string();
    assert!(refused.contains("status") && refused.contains("sideways"), "{refused}");
}

#[test]
fn m4_11_one_pool_in_two_subsystems_is_one_pool() {
    let mut model = machine(1, 2, 1);
    let pdu = model.add(Pool::new("pdu", 0)).unwrap();
    let node = at(&model, "/cluster0/rack0/node1");
    model.connect(pdu, node, &Relation::tree("power")).unwrap();
    model.finish().unwrap();
    let same = at(&model, "/pdu0/node1");
    assert_eq!(same, node);
    model.set_property(same, "feed", "b").unwrap();
    assert_eq!(model.property(at(&model, "/cluster0/rack0/node1"), "feed"), Some("b"));
    let paths: Vec<String> = model.paths(node).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["/cluster0/rack0/node1", "/pdu0/node1"]);
}
