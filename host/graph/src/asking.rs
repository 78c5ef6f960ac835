//! Asking: what fits now, what could ever, and when; and the memory of answers.
//!
//! Deep queues ask the same again and again, so every answer is kept while it must still be true. Nothing that is kept
//! changes an answer.
//!
//! This module must never change who holds what.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use fluxgate_formats::constraint::{Constraint, Target};
use fluxgate_formats::{JobId, Jobspec};

use crate::bits::BitSet;
use crate::error::{NoFit, Unsatisfiable};
use crate::flow;
use crate::future;
use crate::graph::{Class, ClassId, Graph};
use crate::ledger::Selection;
use crate::local;
use crate::matcher::{self, Match};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::request::{self, Level, Need, Request, RequestError, ShapeId};
use crate::resources::Resources;
use crate::view::{Eligible, Overlay, View};
use crate::why;

/// What was learned and need not be asked again. Nothing in it changes an answer.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) eligible: HashMap<ShapeId, Arc<Eligible>>,
    /// What could help each shape.
    helps: HashMap<ShapeId, Arc<Helps>>,
    /// Searches for a start.
    searches: u64,
    /// Shapes that did not fit, and when they were last helped before.
    busy: HashMap<ShapeId, u64>,
    /// Shapes that would delay a reservation: in which `loose`, from which end on, whose.
    delays: HashMap<ShapeId, (u64, f64, JobId)>,
    /// Earliest starts: version, now, answer.
    earliest: HashMap<(ShapeId, u64), (u64, u64, Option<f64>)>,
    pub(crate) satisfiable: HashMap<ShapeId, Result<(), Unsatisfiable>>,
    /// What flow a shape waits for: version, answer.
    short: HashMap<ShapeId, (u64, Option<String>)>,
    pub(crate) plan: Option<Plan>,
    /// Advances when the plan was made anew with reservations at other times.
    replans: u64,
}

impl Cache {
    /// Classes of nodes are others now.
    pub(crate) fn forget_classes(&mut self) {
        self.eligible.clear();
        self.helps.clear();
    }
}

/// Changes of what could help a shape to fit.
#[derive(Debug)]
pub(crate) struct Helps {
    /// On nodes of these classes, in order.
    pub(crate) classes: Vec<ClassId>,
    /// Of vertices above nodes, or of flow.
    upper: bool,
    /// So many nodes on which nobody has anything, whichever of these classes, are all that it takes.
    pub(crate) nodes: Option<u64>,
}

/// Entries of one table of the cache before it is emptied.
const CACHE_MAX: usize = 65_536;
/// The same for sets of nodes, of which one may take as many bits as there are nodes.
const ELIGIBLE_MAX: usize = 1024;

fn remember<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: V) {
    if map.len() >= CACHE_MAX {
        map.clear();
    }
    map.insert(key, value);
}

/// A request taken apart.
#[derive(Default)]
struct Parts<'a> {
    /// What is looked for on nodes.
    inside: Vec<&'a Need>,
    /// It wants vertices above nodes.
    upper: bool,
    /// It wants such for itself, with every node below them.
    every_node: bool,
}

impl<'a> Parts<'a> {
    fn of(request: &'a Request) -> Self {
        let mut parts = Parts::default();
        request.needs.iter().for_each(|need| parts.add(need));
        parts
    }

    fn add(&mut self, need: &'a Need) {
        if need.level != Level::Upper {
            return self.inside.push(need);
        }
        self.upper |= !need.slot;
        self.every_node |= !need.slot && need.exclusive;
        need.with.iter().for_each(|inner| self.add(inner));
    }
}

/// How many nodes a request takes, when those on which nobody has anything are all the same to it and no others will do.
fn whole_nodes(graph: &Graph, request: &Request, classes: &[ClassId]) -> Option<u64> {
    let (need, want) = matcher::tally(request)?;
    if request.flow {
        return None;
    }
    let alone = request.whole_nodes || (need.level == Level::Node && need.exclusive);
    if !alone || !request.needs.iter().all(request::fixed) {
        return None;
    }
    let mut each = classes.iter().map(|class| {
        let class = &graph.classes[class.0 as usize];
        local::capacity(graph, class, &class.idle, need, want)
    });
    let first = each.next().filter(|n| *n > 0)?;
    each.all(|n| n == first).then(|| want.div_ceil(first))
}

/// What an RFC 31 constraint asks of a node.
struct NodeTarget<'a>(&'a Graph, u32);

impl Target for NodeTarget<'_> {
    fn host(&self) -> &str {
        self.0.host(self.1)
    }

    fn rank(&self) -> u32 {
        self.0.nodes[self.1 as usize].rank
    }

    fn has_property(&self, name: &str) -> bool {
        let set = self.0.nodes[self.1 as usize].props;
        self.0.names.get(name).is_some_and(|name| self.0.props.contains(set, name))
    }
}

impl Resources {
    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        // A panic elsewhere cannot leave the cache half written in a way that matters: entries are whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was found and need not be asked again: the places that reservations are likely to take among it,
    /// of which several do as well. What is chosen from here on follows from what is held, reserved and up alone, as
    /// it does where this was read from what was written down.
    pub fn forget(&self) {
        let mut cache = self.cache();
        let Cache { searches, replans, .. } = *cache;
        *cache = Cache { searches, replans: replans + 1, ..Cache::default() };
    }

    /// Compiles the resource section and constraints of a jobspec.
    pub fn compile(&mut self, jobspec: &Jobspec) -> Result<Arc<Request>, RequestError> {
        self.shapes.compile(&self.graph, &self.types, jobspec)
    }

    /// [`compile`](Self::compile), done once for a jobspec that the caller keeps for many jobs.
    pub fn compile_shared(&mut self, jobspec: &Arc<Jobspec>) -> Result<Arc<Request>, RequestError> {
        self.shapes.compile_shared(&self.graph, &self.types, jobspec)
    }

    /// The same request with the nodes that it uses to itself (`true`), or as its resources say.
    pub fn with_whole_nodes(&mut self, request: &Arc<Request>, whole_nodes: bool) -> Arc<Request> {
        self.shapes.with_whole_nodes(&self.graph, request, whole_nodes)
    }

    /// The nodes a request's constraint allows.
    pub(crate) fn eligible(&self, request: &Request) -> Arc<Eligible> {
        if request.constraint == Constraint::All {
            return self.everything.clone();
        }
        if let Some(known) = self.cache().eligible.get(&request.shape) {
            return known.clone();
        }
        let graph = &self.graph;
        let fits = |node: u32| request.constraint.matches(&NodeTarget(graph, node));
        let made = Arc::new(if request.by_class {
            // Any node of a class speaks for all: properties are part of the class.
            let mut classes = vec![None; graph.classes.len()];
            for (node, it) in graph.nodes.iter().enumerate() {
                classes[it.class.0 as usize].get_or_insert_with(|| fits(node as u32));
            }
            Eligible::Classes(classes.into_iter().map(|c| c == Some(true)).collect())
        } else {
            let mut set = BitSet::new(graph.nodes.len());
            (0..graph.nodes.len() as u32).filter(|&n| fits(n)).for_each(|n| {
                set.insert(n);
            });
            Eligible::Nodes(set)
        });
        let mut cache = self.cache();
        if cache.eligible.len() >= ELIGIBLE_MAX {
            cache.eligible.clear();
        }
        cache.eligible.insert(request.shape, made.clone());
        made
    }

    pub(crate) fn view<'a>(&'a self, overlay: Option<&'a Overlay>) -> View<'a> {
        View { graph: &self.graph, index: &self.index, upper: self.ledger.upper(), overlay }
    }

    /// Could this machine ever satisfy the request, with everything up and nothing held? Constraints count.
    pub fn satisfiable(&self, request: &Request) -> Result<(), Unsatisfiable> {
        if let Some(known) = self.cache().satisfiable.get(&request.shape) {
            return known.clone();
        }
        let eligible = self.eligible(request);
        let view =
            View { graph: &self.graph, index: &self.inventory, upper: &self.idle_upper, overlay: None };
        let result = match matcher::find(view, request, &eligible, Placement::First) {
            Some(_) => Ok(()),
            None => Err(Unsatisfiable { why: why::explain(view, request, &eligible) }),
        };
        remember(&mut self.cache().satisfiable, request.shape, result.clone());
        result
    }

    /// The flow for which a request does not start now, in words; `None` when it waits for something else. Costs a search.
    pub fn short_flow(&self, request: &Request) -> Option<String> {
        if !request.flow || !self.could_fit_counts(request) {
            return None;
        }
        if let Some((version, known)) = self.cache().short.get(&request.shape)
            && *version == self.version
        {
            return known.clone();
        }
        let made = flow::why::waiting(self.view(None), request, &self.eligible(request));
        remember(&mut self.cache().short, request.shape, (self.version, made.clone()));
        made
    }

    /// Is enough free by totals alone? When not, the request cannot fit now. Costs nothing.
    pub fn could_fit_counts(&self, request: &Request) -> bool {
        let free = self.index.free();
        u64::from(request.nodes) <= free.nodes
            && u64::from(request.cores) <= free.cores
            && u64::from(request.gpus) <= free.gpus
    }

    /// Resources for a start at `now` that is expected to end at `end` (may be infinite), such that every running
    /// allocation keeps what it holds and every reservation that begins before `end` can still begin when it should.
    ///
    /// Exact when reservations ask for cores or gpus wherever they are. Otherwise places outside those that
    /// reservations are likely to take are tried first, then any, checking whether the reservations can go elsewhere;
    /// a placement that only a cleverer search would find is missed.
    pub fn match_now(
        &self,
        request: &Request,
        now: f64,
        end: f64,
        placement: Placement,
    ) -> Result<Selection, NoFit> {
        if !self.could_fit_counts(request) {
            return Err(NoFit::Busy);
        }
        let helped = self.helped(request);
        {
            let cache = self.cache();
            if cache.busy.get(&request.shape) == Some(&helped) {
                return Err(NoFit::Busy);
            }
            if let Some(&(loose, from, id)) = cache.delays.get(&request.shape)
                && loose == self.loose + cache.replans
                && end >= from
                && cache.plan.as_ref().is_some_and(|p| p.holds_at(now))
            {
                return Err(NoFit::WouldDelay(id));
            }
        }
        let eligible = self.eligible(request);
        self.cache().searches += 1;
        if !self.reservations.any_before(end) {
            let found = matcher::find(self.view(None), request, &eligible, placement);
            return self.choose(request, found, placement);
        }
        self.with_plan(now, |plan, loose| {
            let found = plan.admit(self, request, &eligible, end, placement);
            match found {
                Ok(found) => self.choose(request, Some(found), placement),
                Err(Some(id)) => {
                    let mut cache = self.cache();
                    let from = match cache.delays.get(&request.shape) {
                        Some(&(l, from, _)) if l == loose => from.min(end),
                        _ => end,
                    };
                    remember(&mut cache.delays, request.shape, (loose, from, id));
                    Err(NoFit::WouldDelay(id))
                }
                Err(None) => self.choose(request, None, placement),
            }
        })
    }

    /// Searches that [`match_now`](Self::match_now) made so far. A shape that did not fit is not searched again before
    /// something changed that could help it.
    pub fn searches(&self) -> u64 {
        self.cache().searches
    }

    /// The [`epoch`](Self::epoch) of the last change that could help a request to fit. What came back on nodes that
    /// could never be part of it (without the gpus, the memory or the properties that it asks for) is none.
    pub fn helped(&self, request: &Request) -> u64 {
        let helps = self.helps(request);
        let classes = helps.classes.iter().filter_map(|class| self.class_epochs.get(class.0 as usize));
        let upper = if helps.upper { self.upper_epoch } else { 0 };
        classes.copied().fold(upper, u64::max)
    }

    pub(crate) fn helps(&self, request: &Request) -> Arc<Helps> {
        if let Some(known) = self.cache().helps.get(&request.shape) {
            return known.clone();
        }
        let made = Arc::new(self.find_helps(request));
        remember(&mut self.cache().helps, request.shape, made.clone());
        made
    }

    fn find_helps(&self, request: &Request) -> Helps {
        let graph = &self.graph;
        let eligible = self.eligible(request);
        let all: Vec<Parts<'_>> = match request.alternatives.as_slice() {
            [] => vec![Parts::of(request)],
            list => list.iter().map(|one| Parts::of(one)).collect(),
        };
        let helps = |(id, class): (usize, &Class)| {
            let id = ClassId(id as u32);
            let any = |p: &Parts<'_>| {
                let fits = |need: &&Need| local::capacity(graph, class, &class.idle, need, 1) > 0;
                p.every_node || p.inside.iter().any(fits)
            };
            (eligible.class(id) && all.iter().any(any)).then_some(id)
        };
        let classes: Vec<ClassId> = graph.classes.iter().enumerate().filter_map(helps).collect();
        let nodes = match *eligible {
            Eligible::Nodes(_) => None,
            _ => whole_nodes(graph, request, &classes),
        };
        Helps { classes, upper: request.flow || all.iter().any(|p| p.upper), nodes }
    }

    fn choose(
        &self,
        request: &Request,
        found: Option<Match>,
        placement: Placement,
    ) -> Result<Selection, NoFit> {
        let high = placement.is_high();
        if let Some(found) = found
            && let Some(selection) = self.ledger.choose(&self.graph, &found, high)
        {
            return Ok(selection);
        }
        let helped = self.helped(request);
        remember(&mut self.cache().busy, request.shape, helped);
        Err(NoFit::Busy)
    }

    /// Lends the plan of the reservations, made anew when it is out of date.
    pub(crate) fn with_plan<T>(&self, now: f64, ask: impl FnOnce(&mut Plan, u64) -> T) -> T {
        let taken = self.cache().plan.take();
        let (mut plan, replanned) = match taken {
            Some(plan) if plan.holds_at(now) => (plan, false),
            old => {
                let hints = old.map(Plan::into_hints).unwrap_or_default();
                (Plan::make(self, now, hints), true)
            }
        };
        let loose = {
            let mut cache = self.cache();
            cache.replans += u64::from(replanned);
            self.loose + cache.replans
        };
        let answer = ask(&mut plan, loose);
        self.cache().plan = Some(plan);
        answer
    }

    /// The earliest time at which the request could start for `duration` seconds (may be infinite), when running
    /// allocations end as expected, reservations begin as they should, and nothing else comes: `now` if that is
    /// possible now. `None` when it never could with what is up.
    ///
    /// Allocations whose expected end has passed are taken to end right after `now`.
    pub fn earliest(&self, request: &Request, now: f64, duration: f64) -> Option<f64> {
        self.earliest_from(request, now, now, duration)
    }

    /// The same for a start at `from` or later, seen from `now`.
    pub fn earliest_from(&self, request: &Request, now: f64, from: f64, duration: f64) -> Option<f64> {
        let from = from.max(now);
        if from > now {
            return self.find_earliest(request, now, from, duration);
        }
        let key = (request.shape, duration.to_bits());
        if let Some(&(version, at, answer)) = self.cache().earliest.get(&key)
            && version == self.version
            && at == now.to_bits()
        {
            return answer;
        }
        let answer = self.find_earliest(request, now, now, duration);
        remember(&mut self.cache().earliest, key, (self.version, now.to_bits(), answer));
        answer
    }

    fn find_earliest(&self, request: &Request, now: f64, from: f64, duration: f64) -> Option<f64> {
        let eligible = self.eligible(request);
        if self.reservations.is_empty() {
            // More is free the later it is.
            return future::earliest(self, request, &eligible, now).map(|at| at.max(from));
        }
        self.with_plan(now, |plan, _| plan.earliest(self, request, &eligible, (now, from), duration))
    }
}
