//! Matching requests on a whole model, vertex by vertex, as the graph scheduler of Flux does it.
//!
//! A request is walked down the dominant subsystem together with the graph. Where a vertex is of the type that the request
//! asks for next, the walk goes on with what it asks inside; until the first such vertex it goes on with the request as it
//! is, so that a request may leave out the levels above. On the way up each vertex chooses, by the [`Policy`], as many of
//! what was found below as it was asked for, and offers itself with a score. What the root chooses is marked on the edges,
//! and a second walk along the marks books it and tells what was booked.
//!
//! That walk is the rule; most requests are answered without it. `frame` knows which nodes are made alike, `classes` which
//! of them are in the same condition, and `indexed` asks one of each and takes the best from lists in the order of ids, so
//! that a match costs what is chosen and not what there is; `stretches` does so for preferences by which many nodes are
//! equally good, and `views` for requests with a constraint. A walk that stops at the first match is led by `offering` to
//! where something is. `parked` keeps misses until something changes that could help.
//! [`Matcher::walk_always`] switches both off; results are the same.
//!
//! Units of one vertex are never split between slots: what is taken of a pool is everything free in it.
//!
//! [`Matcher`] is the face. Time is a parameter, in whole seconds. Nothing here reads a clock or draws a random number.

mod above;
mod aggregates;
mod among;
mod apply;
mod blocks;
mod claim;
mod classes;
mod find;
mod flexible;
mod flow;
mod frame;
mod fullest;
mod grow;
mod indexed;
mod ledger;
mod marked;
mod offering;
mod order;
mod parked;
mod policy;
mod prune;
mod ranked;
mod record;
mod release;
mod request;
mod schedule;
mod scores;
mod select;
mod stand_in;
mod stretches;
mod views;
mod whole;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::names::Name;

use super::graph::{Model, ModelError};
use super::vertex::{EdgeId, State, VertexId};
use aggregates::Aggregates;
use classes::Classes;
use frame::{Frame, Ground};
use fullest::{Fullest, Fullness};
use indexed::Trials;
use ledger::Ledger;
use marked::Marked;
use offering::Offering;
use parked::Parked;
use stand_in::StandIns;
use views::Views;

pub use aggregates::PRUNE_DEFAULT;
pub use apply::{Booked, Item};

pub use claim::Term;
pub use find::{FindError, Usage};
pub use flow::FlowError;
pub use policy::{Policy, PolicyError};
pub use ranked::Described;
pub use record::BOOKED;
pub use release::ReleaseError;
pub use request::Request;
pub use schedule::{Matched, Miss, Op};

/// How a matcher is set up.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Which of several resources that fit are taken.
    pub policy: Policy,
    /// The subsystems to walk, the dominant one first.
    pub subsystems: Vec<String>,
    /// What is counted where, such as `ALL:core,rack:node`.
    pub prune: String,
    /// True when slots beside each other are alternatives (`slot` among `slot`s, and `xor_slot`).
    pub flexible: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            policy: Policy {
                prefer: policy::Prefer::HighId,
                node_centric: true,
                node_exclusive: false,
                first_match: true,
            },
            subsystems: vec![crate::graph::CONTAINMENT.to_owned()],
            prune: PRUNE_DEFAULT.to_owned(),
            flexible: false,
        }
    }
}

/// What the root chose of an edge, while it is being booked.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    round: u32,
    exclusive: bool,
    units: u64,
}

/// Types that matching treats in a way of their own.
#[derive(Debug, Clone, Copy)]
struct Types {
    slot: Name,
    xor_slot: Name,
    node: Name,
    storage_node: Name,
}

/// A model, what is booked on it, and how to choose.
#[derive(Debug, Clone)]
pub struct Matcher {
    model: Model,
    ledger: Ledger,
    policy: Policy,
    flexible: bool,
    subsystems: Vec<Name>,
    dominant: Name,
    root: VertexId,
    aggregates: Aggregates,
    types: Types,
    /// Types of which the whole is taken.
    exclusive_types: BTreeSet<Name>,
    marks: Vec<Mark>,
    /// Edges marked in this round.
    marked: Marked,
    root_mark: Mark,
    seen: Vec<u32>,
    round: u32,
    /// Labels of the request at vertices it was matched at, this round.
    labels: BTreeMap<VertexId, String>,
    /// Edges out of each vertex, fullest first; kept only by policies that stop at the first match.
    fullest: foldhash::HashMap<VertexId, Arc<Fullest>>,
    weights: Vec<u64>,
    /// The order of edges in those lists that are equal.
    turns: Vec<i64>,
    turn: i64,
    /// Vertices that the walk that books has come to, by the number of the walk.
    walked: Vec<u64>,
    walked_round: u64,
    /// What nodes above the vertex being visited add to its score.
    factor: i64,
    /// Nodes that are up, with all that they lie in.
    nodes_up: i64,
    /// The flow that jobs have.
    flows: BTreeMap<u64, Vec<flow::Way>>,
    /// The flow of what was selected last, and what no flow leads to beside it.
    ways: Vec<flow::Way>,
    cut_off: BTreeSet<VertexId>,
    /// The order of nodes that was given from outside.
    ordered: Vec<VertexId>,
    /// Places of nodes in an order from outside, which stand for their ids; empty when there is none.
    order: foldhash::HashMap<VertexId, i64>,
    /// Counts changes of nodes and properties.
    inventory: u64,
    /// All nodes, those that were removed included.
    nodes: Vec<VertexId>,
    classes: Classes,
    trials: Trials,
    views: Views,
    /// Where a walk that stops at the first match has to look, while there is one.
    offering: Option<Offering>,
    /// What is known of nodes in a walk, during one.
    stand_ins: Option<StandIns>,
    parked: Parked,
    /// True when nothing is to be known but by walking.
    walks_always: bool,
    visits: (u64, u64),
    /// The same of the walks of one operation, counted as the graph scheduler counts them.
    told_visits: (u64, u64),
    messages: String,
}

/// Why a matcher could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A subsystem without root, or none at all.
    #[error("the model has no subsystem '{0}' with a root")]
    Subsystem(String),
    /// A pruning spec that is none.
    #[error("prune filters: {0}")]
    Prune(String),
}

impl Matcher {
    /// A matcher on a model on which nothing is booked.
    pub fn new(mut model: Model, setup: &Setup) -> Result<Matcher, SetupError> {
        let mut subsystems = Vec::new();
        for name in &setup.subsystems {
            model.root(name).ok_or_else(|| SetupError::Subsystem(name.clone()))?;
            subsystems.push(model.names.intern(name));
        }
        let dominant = *subsystems.first().ok_or_else(|| SetupError::Subsystem(String::new()))?;
        let root = model.roots[&dominant];
        let mut aggregates = Aggregates::parse(&mut model, &setup.prune).map_err(SetupError::Prune)?;
        aggregates.prime(&model, dominant, root);
        let [slot, xor_slot, node, storage_node] =
            ["slot", "xor_slot", "node", "storage_node"].map(|t| model.names.intern(t));
        let mut matcher = Matcher {
            ledger: Ledger::default(),
            policy: setup.policy,
            flexible: setup.flexible,
            subsystems,
            dominant,
            root,
            aggregates,
            types: Types { slot, xor_slot, node, storage_node },
            exclusive_types: BTreeSet::new(),
            marks: Vec::new(),
            marked: Marked::default(),
            root_mark: Mark::default(),
            seen: Vec::new(),
            round: 0,
            labels: BTreeMap::new(),
            fullest: foldhash::HashMap::default(),
            weights: Vec::new(),
            turns: Vec::new(),
            turn: 0,
            walked: Vec::new(),
            walked_round: 0,
            factor: 0,
            nodes_up: 0,
            flows: BTreeMap::new(),
            ways: Vec::new(),
            cut_off: BTreeSet::new(),
            ordered: Vec::new(),
            order: foldhash::HashMap::default(),
            inventory: 0,
            nodes: Vec::new(),
            classes: Classes::default(),
            trials: Trials::default(),
            views: Views::default(),
            offering: None,
            stand_ins: None,
            parked: Parked::default(),
            walks_always: false,
            visits: (0, 0),
            told_visits: (0, 0),
            messages: String::new(),
            model,
        };
        if setup.policy.node_exclusive {
            matcher.exclusive_types.insert(node);
        }
        matcher.resize();
        Ok(matcher)
    }

    /// Makes room for everything the model has, and counts its nodes.
    fn resize(&mut self) {
        self.marks.resize(self.model.edge_count(), Mark::default());
        self.marked.resize(self.model.vertex_count(), self.model.edge_count());
        self.seen.resize(self.model.vertex_count(), 0);
        self.weights.resize(self.model.edge_count(), u64::MAX);
        self.turns.resize(self.model.edge_count(), 0);
        self.walked.resize(self.model.vertex_count(), 0);
        let nodes = self.model.vertices().filter(|v| self.model.vertices[v.index()].type_ == self.types.node);
        self.nodes = nodes.collect();
        self.nodes_up = self.nodes.iter().filter(|v| self.is_up(**v) && self.is_reached(**v)).count() as i64;
        self.inventory += 1;
        self.place_nodes();
        self.reframe();
    }

    /// Looks anew at how nodes lie and which of them are alike.
    fn reframe(&mut self) {
        let Types { node, storage_node, .. } = self.types;
        let (model, dominant, root) = (&self.model, self.dominant, self.root);
        let frame = Frame::build(Ground { model, dominant, root, node, storage_node, order: &self.order });
        let graded = self.policy.prefer == policy::Prefer::Variation;
        let stretched = graded || self.policy.first_match || self.policy.prefer == policy::Prefer::Locality;
        self.classes = Classes::new(frame, graded, stretched);
        if self.policy.first_match {
            for (at, &weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight != u64::MAX) {
                let (edge, it) = (EdgeId(at as u32), &self.model.edges[at]);
                let unique = Reverse(self.model.vertices[it.to.index()].unique);
                let fullness = Fullness { weight: Reverse(weight), unique, turn: self.turns[at], edge };
                self.classes.arrange(it.from, fullness);
            }
        }
        self.trials = Trials::default();
        self.views = Views::default();
        self.ledger.touch_all();
        self.parked.rebuilt(self.ledger.changes());
        self.classes.refresh(&self.model, self.dominant, &mut self.ledger);
    }

    /// Whether every match walks the graph vertex by vertex, and none is answered by what is known of nodes in the same
    /// condition or of misses before. What is chosen is the same; how many vertices were visited is told only then.
    pub fn walk_always(&mut self, yes: bool) {
        self.walks_always = yes;
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Names the types of a jobspec for this matcher.
    pub fn compile(&mut self, jobspec: &fluxgate_formats::jobspec::Jobspec) -> Request {
        let mut request = Request::compile(&mut self.model, jobspec);
        request.shape = self.parked.shape(&request);
        request.terms = self.parked.terms(&request);
        request
    }

    /// Gives a vertex a property.
    pub fn set_property(&mut self, v: VertexId, key: &str, value: &str) -> Result<(), ModelError> {
        self.model.set_property(v, key, value)?;
        self.inventory += 1;
        self.views.clear();
        self.changed(v);
        Ok(())
    }

    /// Sets the state of a vertex; what is below it goes out of reach with it.
    pub fn set_state(&mut self, v: VertexId, state: State) -> Result<(), ModelError> {
        let before = self.model.set_state(v, state)?;
        if (before == State::Up) != (state == State::Up) {
            let nodes = if self.is_reached(v) { self.nodes_reached(v) } else { 0 };
            self.nodes_up += if state == State::Up { nodes } else { -nodes };
        }
        self.classes.set_state(v, state);
        self.changed(v);
        Ok(())
    }

    fn is_up(&self, v: VertexId) -> bool {
        self.model.vertices[v.index()].state == State::Up
    }

    /// Is all that a vertex lies in up?
    fn is_reached(&self, v: VertexId) -> bool {
        let above = |v: &VertexId| self.model.parent(*v, self.dominant);
        std::iter::successors(above(&v), above).all(|v| self.is_up(v))
    }

    /// Nodes that are out of reach when this vertex is not up: it, and those below with nothing between that is down.
    fn nodes_reached(&self, v: VertexId) -> i64 {
        let (mut nodes, mut left) = (0, vec![v]);
        while let Some(at) = left.pop() {
            if at == v || self.is_up(at) {
                nodes += i64::from(self.model.vertices[at.index()].type_ == self.types.node);
                left.extend(self.model.steps(at, self.dominant));
            }
        }
        nodes
    }

    /// Notes that a vertex is not what it was, whoever holds it.
    fn changed(&mut self, v: VertexId) {
        self.ledger.touch(v);
        self.parked.reset(self.ledger.changes());
    }

    /// Vertices that the last operation entered, and those that it left with something found. A match that failed at once
    /// leaves the numbers of the operation before, and one that looked on adds to them, as tools that compare them expect.
    pub fn visit_counts(&self) -> (u64, u64) {
        self.told_visits
    }

    fn count_visits(&mut self, on_top: bool) {
        let (before, after) = if on_top { self.told_visits } else { (0, 0) };
        self.told_visits = (before + self.visits.0, after + self.visits.1);
    }

    /// What went wrong inside the last operation, for people.
    pub fn take_messages(&mut self) -> String {
        std::mem::take(&mut self.messages)
    }

    /// Starts a walk: nothing is seen, nothing marked.
    fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.marks.fill(Mark::default());
            self.seen.fill(0);
            self.root_mark = Mark::default();
            self.round = 1;
        }
        self.labels.clear();
        self.marked.clear(self.round == 1);
        self.factor = 0;
        self.visits = (0, 0);
    }

    /// Units of a vertex that are free throughout an interval.
    fn free(&self, v: VertexId, start: i64, end: i64) -> u64 {
        let size = self.model.vertices[v.index()].size;
        let free = |b: &ledger::Booking| b.units.free_during(0, start, end).max(0) as u64;
        self.ledger.get(v).map_or(size, free)
    }
}
