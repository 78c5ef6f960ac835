//! [`Matcher`]: a model, the bookings on it, and the preferences of selection. Other files of this folder add operations.
//!
//! This module must never know how a request is walked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxgate_graph::description::{EdgeId, Model, ModelError, Name, State, VertexId};

use super::aggregates::{Aggregates, PRUNE_DEFAULT};
use super::classes::Classes;
use super::frame::{Frame, Ground};
use super::fullest::{Fullest, Fullness};
use super::ledger::{Booking, Ledger};
use super::marked::Marked;
use super::parked::Parked;
use super::policy::{Policy, Prefer};
use super::request::Request;
use super::stand_ins::StandIns;
use super::trials::Trials;
use super::views::{Offering, Views};
use super::ways::Way;

/// The settings of a matcher.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The preference by which one of several fitting selections is taken.
    pub policy: Policy,
    /// The subsystems to walk, the dominant one first; at least one.
    pub subsystems: Vec<String>,
    /// The aggregates, such as `ALL:core,rack:node`; empty for none.
    pub prune: String,
    /// True if neighbouring slots are alternatives (`slot` among `slot`s, and `xor_slot`).
    pub flexible: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            policy: Policy {
                prefer: Prefer::HighId,
                node_centric: true,
                node_exclusive: false,
                first_match: true,
            },
            subsystems: vec![fluxgate_graph::description::CONTAINMENT.to_owned()],
            prune: PRUNE_DEFAULT.to_owned(),
            flexible: false,
        }
    }
}

/// The mark of an edge in the selection of the root.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    pub(super) round: u32,
    pub(super) exclusive: bool,
    pub(super) units: u64,
}

/// Types with a special meaning in matching.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types {
    pub(super) slot: Name,
    pub(super) xor_slot: Name,
    pub(super) node: Name,
    pub(super) storage_node: Name,
}

/// A model with its bookings and a preference.
#[derive(Debug, Clone)]
pub struct Matcher {
    pub(super) model: Model,
    pub(super) ledger: Ledger,
    pub(super) policy: Policy,
    pub(super) flexible: bool,
    pub(super) subsystems: Vec<Name>,
    pub(super) dominant: Name,
    pub(super) root: VertexId,
    pub(super) aggregates: Aggregates,
    pub(super) types: Types,
    /// Types that are always taken whole.
    pub(super) exclusive_types: BTreeSet<Name>,
    pub(super) marks: Vec<Mark>,
    /// Edges marked in this round.
    pub(super) marked: Marked,
    pub(super) root_mark: Mark,
    pub(super) seen: Vec<u32>,
    pub(super) round: u32,
    /// Labels of the request at matched vertices, in this round.
    pub(super) labels: BTreeMap<VertexId, String>,
    /// Edges out of each vertex, fullest first; kept only by policies that stop at the first match.
    pub(super) fullest: foldhash::HashMap<VertexId, Arc<Fullest>>,
    pub(super) weights: Vec<u64>,
    /// The order of equal edges in those lists.
    pub(super) turns: Vec<i64>,
    pub(super) turn: i64,
    /// The number of the last booking walk that reached each vertex.
    pub(super) walked: Vec<u64>,
    pub(super) walked_round: u64,
    /// The addend of nodes above the visited vertex to its score.
    pub(super) factor: i64,
    /// Number of nodes that are up, with all vertices above them.
    pub(super) nodes_up: i64,
    /// The flow of jobs.
    pub(super) flows: BTreeMap<u64, Vec<Way>>,
    /// The flow of the last selection, and the vertices that cannot get flow beside it.
    pub(super) ways: Vec<Way>,
    pub(super) cut_off: BTreeSet<VertexId>,
    /// The order of nodes that was set.
    pub(super) ordered: Vec<VertexId>,
    /// Positions of nodes in that order, which replace their ids; empty without one.
    pub(super) order: foldhash::HashMap<VertexId, i64>,
    /// Number of changes of nodes and properties.
    pub(super) inventory: u64,
    /// All nodes, including removed ones.
    pub(super) nodes: Vec<VertexId>,
    pub(super) classes: Classes,
    pub(super) trials: Trials,
    pub(super) views: Views,
    /// The restriction of a walk that stops at the first match, during one.
    pub(super) offering: Option<Offering>,
    /// The known results for nodes, during a walk.
    pub(super) stand_ins: Option<StandIns>,
    pub(super) parked: Parked,
    /// True if every match is walked.
    pub(super) walks_always: bool,
    pub(super) visits: (u64, u64),
    /// The same for the walks of one operation, as the graph scheduler counts them.
    pub(super) told_visits: (u64, u64),
    pub(super) messages: String,
}

/// The fault for which a matcher was not set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A subsystem without root, or no subsystem.
    #[error("the model has no subsystem '{0}' with a root")]
    Subsystem(String),
    /// An invalid pruning spec.
    #[error("prune filters: {0}")]
    Prune(String),
}

impl Matcher {
    /// A matcher on a model, without bookings.
    ///
    /// # Errors
    /// There is no subsystem, one is unknown or has no root, or the pruning spec is invalid.
    pub fn new(mut model: Model, setup: &Setup) -> Result<Matcher, SetupError> {
        let mut subsystems = Vec::new();
        for name in &setup.subsystems {
            let root = model.root(name).ok_or_else(|| SetupError::Subsystem(name.clone()))?;
            subsystems.push((model.intern(name), root));
        }
        let (dominant, root) = *subsystems.first().ok_or_else(|| SetupError::Subsystem(String::new()))?;
        let subsystems = subsystems.into_iter().map(|(name, _)| name).collect();
        let mut aggregates = Aggregates::parse(&mut model, &setup.prune).map_err(SetupError::Prune)?;
        aggregates.prime(&model, dominant, root);
        let [slot, xor_slot, node, storage_node] =
            ["slot", "xor_slot", "node", "storage_node"].map(|t| model.intern(t));
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

    /// Allocates space for the model, and counts its nodes.
    pub(super) fn resize(&mut self) {
        self.marks.resize(self.model.edge_count(), Mark::default());
        self.marked.resize(self.model.vertex_count(), self.model.edge_count());
        self.seen.resize(self.model.vertex_count(), 0);
        self.weights.resize(self.model.edge_count(), u64::MAX);
        self.turns.resize(self.model.edge_count(), 0);
        self.walked.resize(self.model.vertex_count(), 0);
        let nodes = self.model.vertices().filter(|v| self.model[*v].type_() == self.types.node);
        self.nodes = nodes.collect();
        self.nodes_up = self.nodes.iter().filter(|v| self.is_up(**v) && self.is_reached(**v)).count() as i64;
        self.inventory += 1;
        self.place_nodes();
        self.reframe();
    }

    /// Builds the frame and the classes again.
    pub(super) fn reframe(&mut self) {
        let Types { node, storage_node, .. } = self.types;
        let (model, dominant, root) = (&self.model, self.dominant, self.root);
        let frame = Frame::build(Ground { model, dominant, root, node, storage_node, order: &self.order });
        let graded = self.policy.prefer == Prefer::Variation;
        let stretched = graded || self.policy.first_match || self.policy.prefer == Prefer::Locality;
        self.classes = Classes::new(frame, graded, stretched);
        if self.policy.first_match {
            for (at, &weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight != u64::MAX) {
                let edge = EdgeId(at as u32);
                let it = &self.model[edge];
                let unique = Reverse(self.model[it.to].unique());
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

    /// Sets whether every match walks the graph vertex by vertex, without classes of nodes and stored misses. The
    /// selection is the same; the numbers of visits are exact only with a walk.
    pub fn walk_always(&mut self, yes: bool) {
        self.walks_always = yes;
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Compiles a jobspec with the names of this matcher; the request is for this matcher only.
    pub fn compile(&mut self, jobspec: &fluxgate_formats::jobspec::Jobspec) -> Request {
        let mut request = Request::compile(&mut self.model, jobspec);
        request.shape = self.parked.shape(&request);
        request.terms = self.parked.terms(&request);
        request
    }

    /// Sets a property of a vertex.
    ///
    /// # Errors
    /// [`ModelError::NoVertex`]: the vertex is unknown or was removed.
    pub fn set_property(&mut self, v: VertexId, key: &str, value: &str) -> Result<(), ModelError> {
        self.model.set_property(v, key, value)?;
        self.inventory += 1;
        self.views.clear();
        self.changed(v);
        Ok(())
    }

    /// Sets the state of a vertex; the vertices below it become unavailable with it.
    ///
    /// # Errors
    /// [`ModelError::NoVertex`]: the vertex is unknown or was removed.
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

    pub(super) fn is_up(&self, v: VertexId) -> bool {
        self.model[v].state() == State::Up
    }

    /// True if all vertices above a vertex are up.
    pub(super) fn is_reached(&self, v: VertexId) -> bool {
        let above = |v: &VertexId| self.model.parent(*v, self.dominant);
        std::iter::successors(above(&v), above).all(|v| self.is_up(v))
    }

    /// Number of nodes that are unavailable while this vertex is not up: itself, and those below with no other such
    /// vertex between.
    pub(super) fn nodes_reached(&self, v: VertexId) -> i64 {
        let (mut nodes, mut left) = (0, vec![v]);
        while let Some(at) = left.pop() {
            if at == v || self.is_up(at) {
                nodes += i64::from(self.model[at].type_() == self.types.node);
                left.extend(self.model.steps(at, self.dominant));
            }
        }
        nodes
    }

    /// Notes that a vertex changed, whatever jobs hold it.
    pub(super) fn changed(&mut self, v: VertexId) {
        self.ledger.touch(v);
        self.parked.reset(self.ledger.changes());
    }

    /// Number of vertices that the last operation entered, and of those in which it found something. A match that
    /// failed at once keeps the numbers of the previous operation, and one that searched later times adds to them, as
    /// tools expect that compare them.
    pub fn visit_counts(&self) -> (u64, u64) {
        self.told_visits
    }

    pub(super) fn count_visits(&mut self, on_top: bool) {
        let (before, after) = if on_top { self.told_visits } else { (0, 0) };
        self.told_visits = (before + self.visits.0, after + self.visits.1);
    }

    /// The messages since the last call, for people; they are not kept.
    pub fn take_messages(&mut self) -> String {
        std::mem::take(&mut self.messages)
    }

    /// Starts a walk without visited vertices and marks.
    pub(super) fn begin(&mut self) {
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
    pub(super) fn free(&self, v: VertexId, start: i64, end: i64) -> u64 {
        let size = self.model[v].size();
        let free = |b: &Booking| b.units.free_during(0, start, end).max(0) as u64;
        self.ledger.get(v).map_or(size, free)
    }
}
