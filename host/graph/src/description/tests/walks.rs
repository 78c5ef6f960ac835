//! Walker, filters, accumulator.

use std::sync::mpsc;

use super::{at, machine, names};
use crate::description::{
    Aborted, Accumulator, Model, ModelError, Pool, Pruning, Relation, Scored, VertexId, Visit, Walker,
};

/// Records the vertices that it sees.
#[derive(Default)]
struct Log {
    pre: Vec<VertexId>,
    post: Vec<VertexId>,
    prune_at: Option<VertexId>,
}

impl Visit for Log {
    type Error = std::convert::Infallible;

    fn prune(&mut self, _: &Model, vertex: VertexId) -> Result<Pruning, Self::Error> {
        self.pre.push(vertex);
        Ok(if self.prune_at == Some(vertex) { Pruning::Prune } else { Pruning::Descend })
    }

    fn evaluate(&mut self, _: &Model, vertex: VertexId, _: &[Scored]) -> Result<Option<i64>, Self::Error> {
        self.post.push(vertex);
        Ok(None)
    }
}

/// Seven vertices: a tree of two levels.
fn seven() -> Model {
    let mut model = Model::new();
    let ids: Vec<_> = "abcdefg".chars().map(|c| model.add(Pool::new(c.to_string(), -1)).unwrap()).collect();
    for (from, to) in [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)] {
        model.connect(ids[from], ids[to], &Relation::contains()).unwrap();
    }
    model.connect(ids[3], ids[6], &Relation::of("other", "linked", "")).unwrap();
    model.finish().unwrap();
    model
}

#[test]
fn m4_23_preorder_and_postorder_inside_the_subsystem() {
    let model = seven();
    let mut log = Log::default();
    let walker = Walker::new(&model, model.root("containment").unwrap(), "containment").unwrap();
    walker.walk(&mut log).unwrap();
    assert_eq!(names(&model, &log.pre).concat(), "abdecfg");
    assert_eq!(names(&model, &log.post).concat(), "debfgca");
    let unknown = Walker::new(&model, at(&model, "/a"), "plumbing").map(drop);
    assert_eq!(unknown, Err(ModelError::NoRoot("plumbing".to_owned())));
}

#[test]
fn m4_25_pruning_keeps_out_of_a_subtree_and_not_of_its_siblings() {
    let model = machine(2, 3, 4);
    let rack = at(&model, "/cluster0/rack0");
    let mut log = Log { prune_at: Some(rack), ..Log::default() };
    Walker::new(&model, at(&model, "/cluster0"), "containment").unwrap().walk(&mut log).unwrap();
    // The root, two racks, and the nodes, cores and memory of one rack.
    assert_eq!(log.pre.len(), 1 + 2 + 3 * (1 + 4 + 1));
    assert!(!log.post.contains(&rack));
}

/// Nodes with at least this number of cores, counted on the way up; with or without a filter that knows the
/// aggregates.
struct Cores<'a> {
    at_least: usize,
    known: Option<&'a dyn Fn(VertexId) -> usize>,
}

impl Visit for Cores<'_> {
    type Error = std::convert::Infallible;

    fn prune(&mut self, _: &Model, vertex: VertexId) -> Result<Pruning, Self::Error> {
        let few = self.known.is_some_and(|known| known(vertex) < self.at_least);
        Ok(if few { Pruning::Prune } else { Pruning::Descend })
    }

    fn evaluate(&mut self, model: &Model, v: VertexId, below: &[Scored]) -> Result<Option<i64>, Self::Error> {
        let it = model.vertex(v).unwrap();
        Ok(match model.text(it.type_()) {
            "core" => Some(0),
            "node" if below.len() >= self.at_least => Some(below.len() as i64),
            _ => None,
        })
    }
}

#[test]
fn m4_25_pruning_by_aggregates_changes_the_cost_and_not_the_result() {
    let mut model = machine(2, 2, 2);
    let big = at(&model, "/cluster0/rack1/node3");
    let extra = model.add(Pool::new("core", 9)).unwrap();
    model.connect(big, extra, &Relation::contains()).unwrap();
    let (containment, core) = (model.name("containment").unwrap(), model.name("core").unwrap());
    let known = |v: VertexId| {
        let below = model.subtree(v, containment);
        // Cores are not pruned, because the aggregates count them.
        if model.vertex(v).unwrap().type_() == core {
            return usize::MAX;
        }
        below.iter().filter(|&&v| model.vertex(v).unwrap().type_() == core).count()
    };
    let walker = Walker::new(&model, at(&model, "/cluster0"), "containment").unwrap();
    let nodes = |found: Accumulator| {
        found.best().iter().filter(|s| s.score > 0).map(|s| s.vertex).collect::<Vec<_>>()
    };
    let plain = nodes(walker.walk(&mut Cores { at_least: 3, known: None }).unwrap());
    let pruned = nodes(walker.walk(&mut Cores { at_least: 3, known: Some(&known) }).unwrap());
    assert_eq!(plain, [big]);
    assert_eq!(plain, pruned);
}

#[test]
fn m4_24_a_failing_filter_ends_the_walk() {
    struct Fails;
    impl Visit for Fails {
        type Error = &'static str;
        fn prune(&mut self, model: &Model, v: VertexId) -> Result<Pruning, Self::Error> {
            let name = model.text(model.vertex(v).unwrap().name());
            if name == "node1" { Err("trap") } else { Ok(Pruning::Descend) }
        }
    }
    let model = machine(1, 3, 1);
    let walker = Walker::new(&model, at(&model, "/cluster0"), "containment").unwrap();
    let vertex = at(&model, "/cluster0/rack0/node1");
    assert_eq!(walker.walk(&mut Fails), Err(Aborted { vertex, error: "trap" }));
}

#[test]
fn m4_26_only_what_is_good_enough_is_kept_and_parents_see_it() {
    let mut model = machine(1, 3, 0);
    for n in [0, 2] {
        let node = at(&model, &format!("/cluster0/rack0/node{n}"));
        for c in 0..=n {
            let core = model.add(Pool::new("core", c)).unwrap();
            model.connect(node, core, &Relation::contains()).unwrap();
        }
    }
    let walker = Walker::new(&model, at(&model, "/cluster0"), "containment").unwrap();
    let found = walker.walk(&mut Cores { at_least: 2, known: None }).unwrap();
    let good: Vec<_> = found.best().iter().filter(|s| s.score > 0).map(|s| s.vertex).collect();
    assert_eq!(names(&model, &good), ["node2"], "three cores below it; node0 has one and node1 none");
}

#[test]
fn m4_27_a_sub_walk_in_another_subsystem_can_disqualify() {
    // Two nodes with a network card each; only one card is connected to the file system.
    let mut model = Model::new();
    let rack = model.add(Pool::new("rack", 0)).unwrap();
    let add = |model: &mut Model, type_: &str, id: i64| model.add(Pool::new(type_, id)).unwrap();
    let (pfs, switch) = (add(&mut model, "pfs", 1), add(&mut model, "switch", 1));
    for n in [8, 9] {
        let (node, nic) = (add(&mut model, "node", n), add(&mut model, "nic", n));
        model.connect(rack, node, &Relation::contains()).unwrap();
        model.connect(node, nic, &Relation::contains()).unwrap();
        if n == 9 {
            model.connect(nic, switch, &Relation::of("io", "conduit_of", "")).unwrap();
        }
    }
    model.connect(switch, pfs, &Relation::of("io", "conduit_of", "")).unwrap();

    /// A node qualifies if its card is connected to a file system.
    struct Reaches;
    impl Visit for Reaches {
        type Error = ModelError;
        fn evaluate(&mut self, model: &Model, v: VertexId, _: &[Scored]) -> Result<Option<i64>, ModelError> {
            let type_ = |v| model.text(model.vertex(v).unwrap().type_());
            if type_(v) != "nic" {
                return Ok((type_(v) == "node"
                    && model.out_edges(v).any(|e| {
                        let nic = model.edge(e).unwrap().to;
                        let mut log = Log::default();
                        Walker::new(model, nic, "io").is_ok_and(|w| w.walk(&mut log).is_ok())
                            && log.post.iter().any(|&v| type_(v) == "pfs")
                    }))
                .then_some(1));
            }
            Ok(None)
        }
    }
    let found = Walker::new(&model, rack, "containment").unwrap().walk(&mut Reaches).unwrap();
    let best: Vec<_> = found.best().iter().map(|s| s.vertex).collect();
    assert_eq!(names(&model, &best), ["node9"]);
}

#[test]
fn m4_28_the_accumulator_is_descending_and_stable() {
    let model = machine(1, 4, 0);
    let nodes: Vec<_> = (0..4).map(|n| at(&model, &format!("/cluster0/rack0/node{n}"))).collect();
    let mut found = Accumulator::default();
    for (vertex, score) in nodes.iter().zip([3, 9, 9, 1]) {
        found.push(Scored { vertex: *vertex, score });
    }
    let order: Vec<_> = found.best().iter().map(|s| (s.vertex, s.score)).collect();
    assert_eq!(order, [(nodes[1], 9), (nodes[2], 9), (nodes[0], 3), (nodes[3], 1)]);
}

/// Whether to descend, and the score: nodes of odd id are pruned, cores score.
fn opinion(type_: &str, id: i64) -> (bool, Option<i64>) {
    (type_ != "node" || id % 2 == 0, (type_ == "core").then_some(id))
}

/// A filter in this process.
struct Near;

/// A filter in another thread, which receives only bytes.
struct Far {
    to: mpsc::Sender<Vec<u8>>,
    from: mpsc::Receiver<Vec<u8>>,
}

/// The type and id of a vertex.
fn base(model: &Model, v: VertexId) -> (String, i64) {
    let it = model.vertex(v).unwrap();
    (model.text(it.type_()).to_owned(), it.id().unwrap_or(-1))
}

impl Far {
    /// A filter that fails after this number of answers.
    fn new(answers: usize) -> Far {
        let (to, inbox) = mpsc::channel::<Vec<u8>>();
        let (outbox, from) = mpsc::channel();
        std::thread::spawn(move || {
            for question in inbox.into_iter().take(answers) {
                let (type_, id): (String, i64) = serde_json::from_slice(&question).unwrap();
                outbox.send(serde_json::to_vec(&opinion(&type_, id)).unwrap()).unwrap();
            }
        });
        Far { to, from }
    }

    fn ask(&self, model: &Model, v: VertexId) -> Result<(bool, Option<i64>), String> {
        let gone = "the filter is gone";
        self.to.send(serde_json::to_vec(&base(model, v)).unwrap()).map_err(|_| gone.to_owned())?;
        serde_json::from_slice(&self.from.recv().map_err(|_| gone.to_owned())?).map_err(|e| e.to_string())
    }
}

impl Visit for Near {
    type Error = String;

    fn prune(&mut self, model: &Model, v: VertexId) -> Result<Pruning, String> {
        let (type_, id) = base(model, v);
        Ok(if opinion(&type_, id).0 { Pruning::Descend } else { Pruning::Prune })
    }

    fn evaluate(&mut self, model: &Model, v: VertexId, _: &[Scored]) -> Result<Option<i64>, String> {
        let (type_, id) = base(model, v);
        Ok(opinion(&type_, id).1)
    }
}

impl Visit for Far {
    type Error = String;

    fn prune(&mut self, model: &Model, v: VertexId) -> Result<Pruning, String> {
        Ok(if self.ask(model, v)?.0 { Pruning::Descend } else { Pruning::Prune })
    }

    fn evaluate(&mut self, model: &Model, v: VertexId, _: &[Scored]) -> Result<Option<i64>, String> {
        Ok(self.ask(model, v)?.1)
    }
}

/// Records the calls of a filter.
struct Logged<V>(V, Vec<(VertexId, bool)>);

impl<V: Visit> Visit for Logged<V> {
    type Error = V::Error;

    fn prune(&mut self, model: &Model, v: VertexId) -> Result<Pruning, V::Error> {
        self.1.push((v, true));
        self.0.prune(model, v)
    }

    fn evaluate(&mut self, model: &Model, v: VertexId, below: &[Scored]) -> Result<Option<i64>, V::Error> {
        self.1.push((v, false));
        self.0.evaluate(model, v, below)
    }
}

#[test]
fn m4_24_a_filter_in_this_process_and_one_behind_messages_visit_the_same() {
    let model = machine(10, 20, 10);
    let walker = Walker::new(&model, at(&model, "/cluster0"), "containment").unwrap();
    let mut near = Logged(Near, Vec::new());
    let here = walker.walk(&mut near).unwrap();
    let mut far = Logged(Far::new(usize::MAX), Vec::new());
    assert_eq!(walker.walk(&mut far).unwrap(), here);
    assert_eq!(far.1, near.1);
    assert_eq!(here.best().len(), 1000, "of every second node");
}

#[test]
fn m4_24_a_filter_that_is_gone_ends_the_walk() {
    let model = machine(10, 20, 10);
    let walker = Walker::new(&model, at(&model, "/cluster0"), "containment").unwrap();
    let ended = walker.walk(&mut Far::new(1));
    let vertex = at(&model, "/cluster0/rack0");
    assert_eq!(ended, Err(Aborted { vertex, error: "the filter is gone".to_owned() }));
}
