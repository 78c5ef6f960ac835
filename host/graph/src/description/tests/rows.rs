//! Rows of a whole model, and the changes between two versions.

use proptest::prelude::*;
use serde_json::json;

use super::{at, machine};
use crate::description::{Model, Pool, Relation, Rows, Saved, Source, State};

#[test]
fn m16_2_damaged_states_are_refused_with_their_place() {
    let whole = Saved::whole(machine(1, 1, 1).to_rows()).to_json();
    let text = whole.to_string();
    assert_eq!(Source::detect(&text), Ok(Source::State));
    assert_eq!(Model::load(&text, None).unwrap().to_jgf(), machine(1, 1, 1).to_jgf());
    for cut in (1..text.len()).step_by(7) {
        assert!(Saved::from_json(&text[..cut]).is_err());
    }
    let mut other = whole.clone();
    other["fluxgate_state"] = json!(2);
    let error = Saved::from_json(&other.to_string()).unwrap_err().to_string();
    assert_eq!(error, "state: fluxgate_state: version 2 found; 1 is accepted");
    let mut lost = whole;
    lost["whole"]["vertices"].as_object_mut().unwrap().remove("1");
    let error = Model::load(&lost.to_string(), None).unwrap_err().to_string();
    assert!(error.contains("there is no vertex with id '1'"), "{error}");
}

/// A change of a model.
#[derive(Debug, Clone)]
enum Step {
    Add(usize, u64),
    Remove(usize),
    Down(usize),
    Tag(usize, u8),
    Link(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0usize..40;
    prop_oneof![
        (n.clone(), 1u64..9).prop_map(|(at, size)| Step::Add(at, size)),
        n.clone().prop_map(Step::Remove),
        n.clone().prop_map(Step::Down),
        (n.clone(), 0u8..4).prop_map(|(at, tag)| Step::Tag(at, tag)),
        (n.clone(), n).prop_map(|(a, b)| Step::Link(a, b)),
    ]
}

fn take(model: &mut Model, step: &Step) {
    let all: Vec<_> = model.vertices().collect();
    let pick = |at: usize| all[at % all.len()];
    match *step {
        Step::Add(at, size) => {
            let mut pool = Pool::new("thing", all.len() as i64);
            pool.size = size;
            let new = model.add(pool).unwrap();
            model.connect(pick(at), new, &Relation::contains()).unwrap();
        }
        Step::Remove(at) if at % all.len() > 0 => {
            let below = model.subtree(pick(at), model.name("containment").unwrap());
            model.remove(&below.into_iter().collect());
        }
        Step::Remove(_) => {}
        Step::Down(at) => drop(model.set_state(pick(at), State::Down).unwrap()),
        Step::Tag(at, tag) => model.set_tag(pick(at), &format!("t{tag}"), vec![]).unwrap(),
        Step::Link(a, b) => {
            model.connect(pick(a), pick(b), &Relation::of("net", "linked_to", "")).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// M16-2: base and changes, replayed, give the whole.
    #[test]
    fn m16_2_base_and_changes_replayed_are_the_whole(
        rounds in prop::collection::vec(prop::collection::vec(step(), 0..5), 1..6)
    ) {
        let mut model = machine(1, 2, 2);
        let mut saved = Saved::whole(model.to_rows());
        for steps in &rounds {
            steps.iter().for_each(|step| take(&mut model, step));
            saved.add(&model.to_rows());
            prop_assert!(saved.add(&model.to_rows()).is_empty());
            let again = Saved::from_json(&saved.to_json().to_string()).unwrap();
            let rows = again.rows();
            let data = |rows: &Rows| {
                let mut all: Vec<_> = rows.vertices.values().chain(rows.edges.values()).cloned().collect();
                all.sort_by_key(|row| (row.data.get("source").is_some(), row.place));
                all.into_iter().map(|row| row.data).collect::<Vec<_>>()
            };
            prop_assert_eq!(data(&rows), data(&model.to_rows()));
        }
    }
}

#[test]
fn m16_2_what_comes_between_keeps_its_place() {
    // The order of rows is the order of the graph, also when a new vertex is not the last one.
    let (small, large) = (machine(1, 1, 2), machine(1, 2, 2));
    let mut saved = Saved::whole(small.to_rows());
    saved.add(&large.to_rows());
    saved.add(&small.to_rows());
    saved.add(&large.to_rows());
    let model = saved.rows().to_model().unwrap();
    assert_eq!(model.to_jgf(), large.to_jgf());
    assert_eq!(model.text(model.vertex(at(&model, "/cluster0/rack0/node1")).unwrap().type_()), "node");
}
