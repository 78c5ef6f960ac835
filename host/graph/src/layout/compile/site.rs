//! Compiling a description: the graph of a site by itself, one in the `scheduling` of R (RFC 20) that is bound to the
//! resources of R, or what R itself describes.
//!
//! # Interpretations
//!
//! - Every containment edge contains, whatever its type.
//! - The graph says how the machine hangs together; R says which execution targets there are, which cores and gpus each has,
//!   and what its rank is (see [`bind`](super::bind)).
//! - A vertex without a rank has the status that the file gives it. One with the id -1 has its unique id or, of type
//!   `node`, the number at the end of its name.
//! - Where no vertex has a containment path, paths are made from names.
//!
//! This module must never know what jobs hold, or a file format.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Hostlist, Idset};

use crate::description::error::LoadError;
use crate::description::model::{CONTAINMENT, Direction};
use crate::description::names::Name;
use crate::description::runs::{spells, trailing};
use crate::description::{Description, Run, State};
use crate::layout::builder::{GraphBuilder, GraphError, POOLS_MAX, Pool, PoolId};
use crate::layout::graph::Graph;
use crate::layout::site::Label;
use crate::layout::template;
use crate::layout::vertex::{Ids, NONE};

use super::bind::{bind, bind_alone, divide_no_core, members};

/// Types whose ids R names.
pub(super) const NAMED: [&str; 2] = ["core", "gpu"];

/// The graph in a `scheduling`, if this reader knows its writer. The error names the writer of an unknown graph.
pub(super) fn graph_of(r: &R) -> Result<Option<Cow<'_, str>>, String> {
    let Some(scheduling) = &r.scheduling else { return Ok(None) };
    let value = || scheduling.get("graph").filter(|graph| graph.get("nodes").is_some());
    let graph = match &r.graph {
        Some(graph) => Cow::Borrowed(graph.text()),
        None => match value() {
            Some(graph) => Cow::Owned(graph.to_string()),
            None => return Ok(None),
        },
    };
    match scheduling.get("writer").map(|writer| writer.as_str().unwrap_or_default()) {
        None | Some("fluxion" | "fluxion:" | "fluxion:jgf" | "fluxion:jgf_shorthand" | "fluxgate") => {
            Ok(Some(graph))
        }
        Some(other) => Err(format!("scheduling.writer: '{other}' found; its graph is not used, R alone is")),
    }
}

/// A machine, and the differences between graph and R.
pub(super) struct Bound {
    pub(super) graph: Graph,
    pub(super) unbound: Option<String>,
}

/// Where a description comes from, and what it is bound to.
#[derive(Clone, Copy)]
pub(super) enum Source<'r> {
    /// A graph alone.
    Graph,
    /// A graph that is bound to an R.
    Bound(&'r R),
    /// The R itself. Nodes are in the order of their ranks, which are their ids, and are called as their hosts; no vertex
    /// has a label.
    R(&'r R),
}

impl Source<'_> {
    /// A builder, with the texts of an R in the order in which R has them.
    fn builder(self) -> GraphBuilder {
        let mut build = GraphBuilder::new();
        if let Source::R(r) = self {
            let usual = ["cluster", "node", "core", "gpu"].into_iter();
            let children =
                r.r_lite.iter().flat_map(|entry| &entry.children).filter(|(_, ids)| !ids.is_empty());
            let named = r.properties.keys().chain(children.map(|(type_, _)| type_)).map(String::as_str);
            for text in usual.chain(named) {
                build.name(text);
            }
        }
        build
    }
}

/// The names of a builder by those of a description.
#[derive(Default)]
struct Texts(Vec<Option<Name>>);

impl Texts {
    fn name(&mut self, build: &mut GraphBuilder, d: &Description, name: Name) -> Name {
        if self.0.len() <= name.index() {
            self.0.resize(name.index() + 1, None);
        }
        let known = self.0.get_mut(name.index());
        known.map_or(Name::EMPTY, |known| *known.get_or_insert_with(|| build.name(d.text(name))))
    }
}

/// A vertex before it is added, or a run of cores or gpus.
pub(super) struct Outline<'d> {
    pub(super) run: &'d Run,
    /// Position in the run, and number of vertices.
    at: u32,
    pub(super) count: u32,
    pub(super) type_: &'d str,
    pub(super) parent: u32,
    pub(super) rank: Option<u32>,
    /// The id of its first vertex.
    pub(super) id: Option<u32>,
    pub(super) fate: Fate,
}

impl Outline<'_> {
    /// Its number in the description.
    fn vertex(&self) -> u32 {
        self.run.first + self.at
    }
}

/// The decision about a vertex of a description.
#[derive(Clone, PartialEq)]
pub(super) enum Fate {
    Kept,
    /// An execution target with this rank; without a rank in a graph that has no ranks.
    Target(Option<u32>),
    /// Vertices with other ids than in the graph: those of R.
    Renumbered(Ids),
    Dropped,
}

/// Compiles a description and binds it to R, if there is one. `more` adds the other parts of R, and gets the nodes by rank.
pub(super) fn load(
    d: &Description,
    source: Source<'_>,
    more: &mut dyn FnMut(&mut GraphBuilder, &BTreeMap<u32, PoolId>),
) -> Result<Bound, LoadError> {
    let mut apart = BTreeSet::new();
    let Hung { seen, links, unbound, renamed, missing } = loop {
        let hung = hang(d, source, &apart)?;
        let beside = beside_nodes(&hung.seen);
        if beside.is_empty() {
            break hung;
        }
        apart.extend(beside);
    };
    let pathless = check_paths(d, &seen)?;
    let mut build = source.builder();
    let mut pools: Vec<Option<PoolId>> = vec![None; seen.len()];
    let mut order: Vec<usize> = (0..seen.len()).collect();
    if let Source::R(_) = source {
        order.sort_by_key(|at| seen[*at].rank);
    }
    let mut texts = Texts::default();
    for index in order.into_iter().filter(|at| seen[*at].fate != Fate::Dropped) {
        pools[index] = Some(add((&mut build, &mut texts), d, index, &seen, (source, &renamed), pathless)?);
    }
    let fault = |e: GraphError| {
        let at = e.pool().and_then(|pool| pools.iter().position(|p| *p == Some(pool)));
        d.fault(at.map(|at| seen[at].vertex()), "", e.to_string())
    };
    for (index, vertex) in seen.iter().enumerate().filter(|(_, vertex)| vertex.parent != NONE) {
        if let (Some(parent), Some(child)) = (pools[vertex.parent as usize], pools[index]) {
            build.contain(parent, child);
        }
    }
    for (target, type_, ids) in missing {
        let type_ = build.name(&type_);
        let pool = build.add(Pool::new(type_, Ids::from_sorted(ids.iter().collect()))).map_err(fault)?;
        if let Some(parent) = pools[target] {
            build.contain(parent, pool);
        }
    }
    for (from, to, type_, subsystem) in links {
        if let (Some(from), Some(to)) = (pools[from as usize], pools[to as usize]) {
            build.edge(from, to, type_, subsystem);
        }
    }
    let of_rank = |(vertex, pool): (&Outline<'_>, &Option<PoolId>)| match vertex.fate {
        Fate::Target(rank) => Some((rank?, (*pool)?)),
        _ => None,
    };
    more(&mut build, &seen.iter().zip(&pools).filter_map(of_rank).collect());
    Ok(Bound { graph: build.finish().map_err(fault)?, unbound })
}

/// The vertices of a description with their parents and their fates.
struct Hung<'d> {
    seen: Vec<Outline<'d>>,
    links: Vec<Link<'d>>,
    /// The differences between graph and R.
    unbound: Option<String>,
    /// Host names of targets that have another name in the graph.
    renamed: BTreeMap<u32, String>,
    /// Cores and gpus that the graph lacks: target, type, ids.
    missing: Vec<(usize, String, Idset)>,
}

/// Hangs the vertices together and binds them. The runs that begin with vertices in `apart` are taken vertex by vertex.
fn hang<'d>(d: &'d Description, source: Source<'_>, apart: &BTreeSet<u32>) -> Result<Hung<'d>, LoadError> {
    let mut seen = outlines(d, source, apart)?;
    let links = parents(d, &mut seen)?;
    divide_no_core(&mut seen);
    let (mut unbound, mut renamed, mut missing) = (None, BTreeMap::new(), Vec::new());
    match source {
        Source::Bound(r) => {
            (unbound, renamed) = bind(d, &mut seen, r);
            missing = members(&mut seen, r);
        }
        Source::Graph | Source::R(_) => bind_alone(&mut seen),
    }
    Ok(Hung { seen, links, unbound, renamed, missing })
}

/// The first vertices of runs of several that are in no execution target: there each vertex is one of its own.
fn beside_nodes(seen: &[Outline<'_>]) -> Vec<u32> {
    let inside = |vertex: &Outline<'_>| {
        let above = |it: &&Outline<'_>| seen.get(it.parent as usize);
        std::iter::successors(seen.get(vertex.parent as usize), above)
            .any(|it| matches!(it.fate, Fate::Target(_)))
    };
    let several = seen.iter().filter(|vertex| vertex.count > 1 && vertex.fate != Fate::Dropped);
    several.filter(|vertex| !inside(vertex)).map(|vertex| vertex.run.first).collect()
}

/// The vertices of a description; cores and gpus in runs where no edge of another subsystem is theirs.
fn outlines<'d>(
    d: &'d Description,
    source: Source<'_>,
    apart: &BTreeSet<u32>,
) -> Result<Vec<Outline<'d>>, LoadError> {
    // The runs with edges of other subsystems, by their first vertices. An edge is one of all vertices of a run.
    let mut linked: BTreeSet<u32> = BTreeSet::new();
    for link in d.links().iter().filter(|link| d.relation(link).subsystem != CONTAINMENT) {
        linked.insert(link.from);
        let from = d.runs().partition_point(|run| run.first < link.to);
        linked.extend(
            d.runs()[from..].iter().map(|run| run.first).take_while(|at| link.targets().contains(at)),
        );
    }
    let mut seen = Vec::with_capacity(d.runs().len());
    for run in d.runs() {
        let type_ = d.text(run.type_);
        let of_r = matches!(source, Source::R(_));
        // A core of a run that has ids beyond 32 bits is a vertex of its own; R numbers such cores through their node.
        let numbered = run.id.is_none_or(|first| number(first + i64::from(run.count - 1)).is_some());
        let whole = (of_r || NAMED.contains(&type_))
            && numbered
            && !linked.contains(&run.first)
            && !apart.contains(&run.first);
        let count = if whole { run.count } else { 1 };
        if seen.len() + (run.count / count) as usize > POOLS_MAX {
            return Err(d.fault(None, "", GraphError::TooMany.to_string()));
        }
        let rank = u32::try_from(run.rank).ok();
        for at in (0..run.count).step_by(count as usize) {
            let id = if of_r && type_ == "node" { Ok(rank) } else { id(d, run, at) };
            let id = id.map_err(|n| {
                let what = format!("{n} found; -1 or a number up to {} is accepted", u32::MAX - 1);
                d.fault(Some(run.first + at), ".metadata.id", what)
            })?;
            seen.push(Outline { run, at, count, type_, parent: NONE, rank, id, fate: Fate::Kept });
        }
    }
    Ok(seen)
}

/// The number of an id, if it is one of those that a layout has.
fn number(id: i64) -> Option<u32> {
    u32::try_from(id).ok().filter(|n| *n != NONE)
}

/// The id of a vertex, or of the first of a whole run. It may be the unique id, or the number at the end of the name; an id that is
/// too large is an error.
fn id(d: &Description, run: &Run, at: u32) -> Result<Option<u32>, i64> {
    let unique = run.unique.map(|unique| unique + i64::from(at));
    let own = || {
        let named = if d.text(run.type_) == "node" { trailing(d.text(run.name)) } else { None };
        named.and_then(number).or_else(|| unique.and_then(number))
    };
    match d.id(run, at) {
        None => Ok(None),
        Some(-1) => Ok(own()),
        Some(n) if number(n).is_some() || Some(n) == unique => Ok(number(n)),
        Some(n) => Err(n),
    }
}

/// True if no vertex has a path, so that paths are made from names. Otherwise each contained vertex needs a path.
fn check_paths(d: &Description, seen: &[Outline<'_>]) -> Result<bool, LoadError> {
    let has_path = |vertex: &Outline<'_>| d.has_path(vertex.run);
    let pathless = !seen.iter().any(has_path);
    match seen.iter().find(|vertex| vertex.parent != NONE && !has_path(vertex)) {
        Some(vertex) if !pathless => {
            let what = "no text found; the containment path is needed";
            Err(d.fault(Some(vertex.vertex()), ".metadata.paths.containment", what))
        }
        _ => Ok(pathless),
    }
}

/// The path of a vertex, made from the names of the vertices above it.
fn made_path(d: &Description, seen: &[Outline<'_>], index: usize) -> String {
    let above = |at: &u32| Some(seen.get(*at as usize)?.parent);
    let chain = std::iter::successors(Some(index as u32), above).take_while(|at| *at != NONE);
    let mut names: Vec<String> =
        chain.take(crate::DEPTH_MAX as usize).map(|at| name(d, &seen[at as usize])).collect();
    names.push(String::new());
    names.reverse();
    names.join("/")
}

/// The name of a vertex, given or by basename and id.
pub(super) fn name(d: &Description, vertex: &Outline<'_>) -> String {
    let (given, base) = (d.text(vertex.run.name), d.basename(vertex.run));
    match vertex.id {
        _ if !given.is_empty() => given.to_owned(),
        Some(id) => format!("{base}{id}"),
        None => base.to_owned(),
    }
}

/// An edge of another subsystem: from, to, type, subsystem.
type Link<'d> = (u32, u32, &'d str, &'d str);

/// Sets the containment parents; returns the edges of other subsystems.
fn parents<'d>(d: &'d Description, seen: &mut [Outline<'_>]) -> Result<Vec<Link<'d>>, LoadError> {
    let first: Vec<u32> = seen.iter().map(Outline::vertex).collect();
    // Edges mostly come in the order of their ends.
    let outline = |number: u32, near: u32| {
        let found = (near..=near.saturating_add(1)).find(|at| first.get(*at as usize) == Some(&number));
        found.unwrap_or_else(|| first.partition_point(|first| *first <= number).saturating_sub(1) as u32)
    };
    let (mut from, mut last) = (0, 0);
    let mut set: Vec<u32> = vec![NONE; seen.len()];
    let mut links = Vec::new();
    for link in d.links() {
        let relation = d.relation(link);
        let (subsystem, type_) = (&*relation.subsystem, &*relation.type_);
        from = outline(link.from, from);
        let targets = (outline(link.to, last)..)
            .take_while(|at| first.get(*at as usize).is_some_and(|first| link.targets().contains(first)));
        for to in targets {
            last = to;
            if subsystem != CONTAINMENT {
                if relation.direction == Direction::Both {
                    links.push((to, from, type_, subsystem));
                }
                links.push((from, to, type_, subsystem));
            } else if ![NONE, from].contains(&set[to as usize]) {
                let what = "vertex has two parents in one subsystem";
                return Err(d.fault(Some(first[to as usize]), "", what));
            } else {
                set[to as usize] = from;
            }
        }
    }
    if let Some(at) = on_a_cycle(&set) {
        let what = GraphError::Cycle(PoolId(at)).to_string();
        return Err(d.fault(first.get(at as usize).copied(), "", what));
    }
    for (vertex, parent) in seen.iter_mut().zip(set) {
        vertex.parent = parent;
    }
    Ok(links)
}

/// A vertex that contains itself, directly or through others. All that read the outlines follow parents to their end.
fn on_a_cycle(parents: &[u32]) -> Option<u32> {
    // The walk that met a vertex, by the vertex at which the walk began.
    let mut met = vec![NONE; parents.len()];
    (0..parents.len() as u32).find_map(|begin| {
        let mut here = begin;
        while here != NONE && met[here as usize] == NONE {
            met[here as usize] = begin;
            here = parents[here as usize];
        }
        (here != NONE && met[here as usize] == begin).then_some(here)
    })
}

fn add(
    (build, texts): (&mut GraphBuilder, &mut Texts),
    d: &Description,
    index: usize,
    seen: &[Outline<'_>],
    (source, renamed): (Source<'_>, &BTreeMap<u32, String>),
    pathless: bool,
) -> Result<PoolId, LoadError> {
    let vertex = &seen[index];
    let run = vertex.run;
    let of_r = matches!(source, Source::R(_));
    let mut given = Cow::Borrowed(d.text(run.name));
    let (mut labelled, mut down) = (!of_r && !NAMED.contains(&vertex.type_), false);
    let mut pool = Pool::new(texts.name(build, d, run.type_), Ids::Unnumbered);
    if let Some(first) = vertex.id {
        pool.ids = Ids::Range { first, count: vertex.count };
    }
    match &vertex.fate {
        Fate::Target(rank) => {
            pool.rank = *rank;
            if let Some(host) = rank.and_then(|rank| renamed.get(&rank)) {
                given = Cow::Borrowed(host);
            }
            // A host name of R is one.
            let alone = matches!(source, Source::Graph).then(|| Hostlist::new().push(&name(d, vertex)));
            if let Some(Err(why)) = alone {
                return Err(d.fault(Some(vertex.vertex()), ".metadata.name", why.to_string()));
            }
        }
        Fate::Renumbered(ids) => pool.ids = ids.clone(),
        Fate::Kept | Fate::Dropped => down = run.state != State::Up && vertex.rank.is_none(),
    }
    pool.size = run.size;
    if NAMED.contains(&vertex.type_) && run.size != 1 {
        let what = format!("{} found; R names a {} by its id, so 1 is accepted", run.size, vertex.type_);
        return Err(d.fault(Some(vertex.vertex()), ".metadata.size", what));
    }
    let basename = d.basename(run);
    let host = of_r && pool.rank.is_some();
    if host {
        given = Cow::Owned(d.name(run, vertex.at));
    } else if run.basename != Name::EMPTY {
        pool.basename = texts.name(build, d, run.basename);
    }
    pool.unit = texts.name(build, d, run.unit);
    // A name that follows from basename and id is not kept, so that a run of cores remains one vertex.
    let follows = match pool.ids.nth(0) {
        Some(id) => spells(&given, basename, i64::from(id)),
        None => given == basename,
    };
    if !given.is_empty() && (host || !follows) {
        pool.name = build.name(&given);
    }
    let extras = d.extras(run);
    let mut values = BTreeMap::new();
    for (key, value) in extras.into_iter().flat_map(|extras| &extras.properties) {
        // Values are kept for the properties that placement preferences read.
        let read = [template::PERF_CLASS_PROPERTY, template::POWER_PROPERTY].contains(&key.as_str());
        pool.properties.push(match read && !value.is_empty() {
            true => build.name(&format!("{key}={value}")),
            false => build.name(key),
        });
        values.insert(key.as_str().into(), value.as_str().into());
    }
    pool.uuid = extras.and_then(|extras| extras.uuid.as_deref()).map(Into::into);
    if let Fate::Target(rank) = vertex.fate {
        let bound = if let Source::Bound(r) = source { Some(r) } else { None };
        let all = bound.into_iter().flat_map(|r| &r.properties);
        let more = all.filter(|(_, ranks)| rank.is_some_and(|rank| ranks.contains(rank)));
        pool.properties.extend(more.map(|(name, _)| build.name(name)));
    } else {
        // Vertices inside a node have no label.
        let mut here = vertex.parent;
        while here != NONE && labelled {
            labelled = !matches!(seen[here as usize].fate, Fate::Target(_));
            here = seen[here as usize].parent;
        }
    }
    let id = build.add(pool).map_err(|e| d.fault(Some(vertex.vertex()), "", e.to_string()))?;
    if labelled {
        let path =
            if pathless { made_path(d, seen, index) } else { d.path(run, vertex.at).unwrap_or_default() };
        build.label(Label { path: path.into(), id: d.file_id(run, vertex.at).into(), values, down });
    }
    Ok(id)
}
