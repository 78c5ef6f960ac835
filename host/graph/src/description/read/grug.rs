//! Reading GRUG: a recipe in GraphML from which a machine is made.
//!
//! A recipe is a small graph. Its nodes are kinds of pools. Its edges say how each pool of the source kind gets pools
//! of the target kind: a number of new ones (`MULTIPLY`), all existing ones of the type (`ASSOCIATE_IN`), or those
//! under the same prefix of a path (`ASSOCIATE_BY_PATH_IN`). The recipe is walked depth first from each root kind.
//! Each edge to a kind that was not met before is carried out when it is met.
//!
//! # Interpretations
//!
//! - Data keys are looked up by `attr.name` where a `<key>` declares one, and `<default>` values count.
//! - The id of a new pool counts within its parent (`id_scope` 0), its grandparent (1), and so on, from `id_start` by
//!   `id_stride` (which scope 0 does not use).
//! - Pools of type `node` get ranks in the order in which they are made.
//! - An edge to a kind that was met before is not carried out again.
//! - A pool that is associated with a second parent in a subsystem that contains it already is not contained twice:
//!   that edge has the type `linked_to`. Walks follow it too.

use std::collections::{BTreeMap, VecDeque};

use roxmltree::{Document, Node};

use crate::description::error::LoadError;
use crate::description::model::{CONTAINMENT, CONTAINS, MODEL_DEPTH_MAX, ModelError, Relation, VERTICES_MAX};
use crate::description::place::Format;
use crate::description::runs::{Description, Said};

use super::LINKED;

/// Most kinds of pools, and most edges between them.
const KINDS_MAX: usize = 10_000;
/// Largest number in a recipe: keeps products of scales, strides and counts inside 64 bits.
const NUMBER_MAX: i64 = 1 << 30;

/// A kind of pool.
struct Kind {
    /// The element in the file.
    place: String,
    root: bool,
    type_: String,
    basename: String,
    unit: String,
    size: u64,
    subsystem: String,
}

enum Method {
    Multiply { scale: i64 },
    Associate,
    AssociateByPath { within: String, target_up: i64, source_up: i64 },
}

/// An edge of the recipe: how pools of one kind get pools of another.
struct Step {
    place: String,
    source: usize,
    target: usize,
    relation: Relation,
    id_scope: i64,
    id_start: i64,
    id_stride: i64,
    method: Method,
}

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("GRUG", place, what)
}

/// The machine that a recipe makes.
pub(crate) fn load(text: &str) -> Result<Description, LoadError> {
    // Recipes declare no entities. Refusing declarations excludes nested entities.
    let options = roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: 1 << 20, ..Default::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|e| fault(format!("line {}", e.pos().row), e.to_string()))?;
    let recipe = Recipe::read(&document)?;
    Cook::new(&recipe).cook()
}

struct Recipe {
    kinds: Vec<Kind>,
    steps: Vec<Step>,
}

/// The `<key>` declarations: name and default, by id and element.
type Keys<'d> = BTreeMap<(&'d str, &'d str), (&'d str, Option<&'d str>)>;

impl Recipe {
    fn read(document: &Document<'_>) -> Result<Recipe, LoadError> {
        let root = document.root_element();
        let line = |node: Node<'_, '_>| document.text_pos_at(node.range().start).row;
        if root.tag_name().name() != "graphml" {
            let what = format!("<{}> found; <graphml> is needed", root.tag_name().name());
            return Err(fault(format!("line {}", line(root)), what));
        }
        let mut keys: Keys<'_> = BTreeMap::new();
        for key in root.children().filter(|n| n.has_tag_name_local("key")) {
            let (Some(id), Some(for_)) = (key.attribute("id"), key.attribute("for")) else { continue };
            let default = key.children().find(|n| n.has_tag_name_local("default")).and_then(|n| n.text());
            keys.insert((for_, id), (key.attribute("attr.name").unwrap_or(id), default.map(str::trim)));
        }
        let graph = root.children().find(|n| n.has_tag_name_local("graph"));
        let graph = graph.ok_or_else(|| fault(format!("line {}", line(root)), "no <graph> found"))?;

        let mut kinds: Vec<Kind> = Vec::new();
        let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
        for node in graph.children().filter(|n| n.has_tag_name_local("node")) {
            let at = format!("line {}: node", line(node));
            let id = node.attribute("id").ok_or_else(|| fault(&at, "no attribute 'id' found"))?;
            let place = format!("{at} '{id}'");
            if kinds.len() >= KINDS_MAX {
                return Err(fault(place, format!("more than {KINDS_MAX} nodes found")));
            }
            let data = Data::read(node, "node", &keys, &place)?;
            let type_ = data.text("type", "");
            if type_.is_empty() {
                return Err(fault(place, "no data 'type' found; a node needs one"));
            }
            if by_id.insert(id, kinds.len()).is_some() {
                return Err(fault(place, "this id was used before"));
            }
            kinds.push(Kind {
                root: data.number("root", 0, 0)? != 0,
                basename: data.text("basename", &type_),
                type_,
                unit: data.text("unit", ""),
                size: data.number("size", 1, 1)? as u64,
                subsystem: data.text("subsystem", CONTAINMENT),
                place,
            });
        }
        let mut steps = Vec::new();
        for edge in graph.children().filter(|n| n.has_tag_name_local("edge")) {
            let place = match edge.attribute("id") {
                Some(id) => format!("line {}: edge '{id}'", line(edge)),
                None => format!("line {}: edge", line(edge)),
            };
            if steps.len() >= KINDS_MAX {
                return Err(fault(place, format!("more than {KINDS_MAX} edges found")));
            }
            let end = |key: &str| -> Result<usize, LoadError> {
                let id = edge
                    .attribute(key)
                    .ok_or_else(|| fault(&place, format!("no attribute '{key}' found")))?;
                by_id
                    .get(id)
                    .copied()
                    .ok_or_else(|| fault(&place, format!("{key} '{id}' is no node of the recipe")))
            };
            let (source, target) = (end("source")?, end("target")?);
            let data = Data::read(edge, "edge", &keys, &place)?;
            let method = match data.text("gen_method", "MULTIPLY").as_str() {
                "MULTIPLY" => Method::Multiply { scale: data.number("multi_scale", 1, 0)? },
                "ASSOCIATE_IN" => Method::Associate,
                "ASSOCIATE_BY_PATH_IN" => Method::AssociateByPath {
                    within: data.text("as_tgt_subsystem", CONTAINMENT),
                    target_up: data.number("as_tgt_uplvl", 1, 0)?,
                    source_up: data.number("as_src_uplvl", 1, 0)?,
                },
                other => {
                    let accepted = "MULTIPLY, ASSOCIATE_IN or ASSOCIATE_BY_PATH_IN is accepted";
                    return Err(fault(place, format!("gen_method '{other}' found; {accepted}")));
                }
            };
            steps.push(Step {
                source,
                target,
                relation: Relation::of(
                    &data.text("e_subsystem", CONTAINMENT),
                    &data.text("relation", "contains"),
                    &data.text("rrelation", "in"),
                ),
                id_scope: data.number("id_scope", 0, 0)?,
                id_start: data.number("id_start", 0, 0)?,
                id_stride: data.number("id_stride", 1, 0)?,
                method,
                place,
            });
        }
        if !kinds.iter().any(|k| k.root) {
            return Err(fault("graph", "no node with data 'root' of 1 found; one is needed"));
        }
        Ok(Recipe { kinds, steps })
    }
}

/// The `<data>` of one element, by the name of its key.
struct Data<'d> {
    values: BTreeMap<&'d str, &'d str>,
    place: &'d str,
}

impl<'d> Data<'d> {
    fn read(
        element: Node<'d, '_>,
        for_: &'d str,
        keys: &Keys<'d>,
        place: &'d str,
    ) -> Result<Self, LoadError> {
        let mut values = BTreeMap::new();
        let declared = |id: &'d str| keys.get(&(for_, id)).or_else(|| keys.get(&("all", id)));
        for ((what, _), (name, default)) in keys {
            if let Some(default) = default.filter(|_| *what == for_ || *what == "all") {
                values.insert(*name, default);
            }
        }
        for data in element.children().filter(|n| n.has_tag_name_local("data")) {
            let id = data.attribute("key").ok_or_else(|| fault(place, "<data> without attribute 'key'"))?;
            let name = declared(id).map_or(id, |(name, _)| name);
            values.insert(name, data.text().unwrap_or("").trim());
        }
        Ok(Data { values, place })
    }

    fn text(&self, key: &str, default: &str) -> String {
        self.values.get(key).map_or(default, |v| v).to_owned()
    }

    fn number(&self, key: &str, default: i64, min: i64) -> Result<i64, LoadError> {
        let Some(text) = self.values.get(key) else { return Ok(default) };
        let number = text.parse().ok().filter(|n| (min..=NUMBER_MAX).contains(n));
        number.ok_or_else(|| {
            let what = format!("{key} '{text}' found; a number from {min} to {NUMBER_MAX} is accepted");
            fault(self.place, what)
        })
    }
}

trait LocalName {
    /// True for an element of this name, in any namespace.
    fn has_tag_name_local(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    fn has_tag_name_local(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// The state while a machine is made.
struct Cook<'r> {
    recipe: &'r Recipe,
    machine: Description,
    /// Vertices one step up by subsystem and vertex, and whether they contain it; where steps ask for them.
    above: BTreeMap<(&'r str, u32), (u32, bool)>,
    /// The pools of each kind.
    made: Vec<Vec<u32>>,
    /// All pools of a type, in the order they were made.
    by_type: BTreeMap<&'r str, Vec<u32>>,
    roots: BTreeMap<&'r str, u32>,
    /// Scales of the steps above, the nearest first.
    scales: VecDeque<i64>,
    next_rank: i64,
    /// True when pools are associated by type.
    associates: bool,
}

impl<'r> Cook<'r> {
    fn new(recipe: &'r Recipe) -> Self {
        Cook {
            recipe,
            machine: Description::new(Format::Grug),
            above: BTreeMap::new(),
            made: recipe.kinds.iter().map(|_| Vec::new()).collect(),
            by_type: BTreeMap::new(),
            roots: BTreeMap::new(),
            scales: VecDeque::new(),
            next_rank: 0,
            associates: recipe.steps.iter().any(|s| !matches!(s.method, Method::Multiply { .. })),
        }
    }

    fn cook(mut self) -> Result<Description, LoadError> {
        let recipe = self.recipe;
        let mut out: Vec<Vec<usize>> = recipe.kinds.iter().map(|_| Vec::new()).collect();
        for (index, step) in recipe.steps.iter().enumerate() {
            out[step.source].push(index);
        }
        let mut seen = vec![false; recipe.kinds.len()];
        for start in 0..recipe.kinds.len() {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            // Depth first with an explicit stack: a recipe may be a long chain.
            let mut stack = vec![(start, 0)];
            while let Some((kind, next)) = stack.last_mut() {
                let Some(&step) = out[*kind].get(*next) else {
                    stack.pop();
                    self.scales.pop_front();
                    continue;
                };
                *next += 1;
                let step = &recipe.steps[step];
                if !std::mem::replace(&mut seen[step.target], true) {
                    self.step(step)?;
                    stack.push((step.target, 0));
                }
            }
        }
        self.machine.roots =
            self.roots.into_iter().map(|(subsystem, root)| (subsystem.to_owned(), root)).collect();
        self.machine.settle();
        for step in &recipe.steps {
            if let Method::AssociateByPath { within, .. } = &step.method
                && !self.machine.has_subsystem(within)
            {
                let what = ModelError::NoRoot(within.clone()).to_string();
                return Err(self.machine.fault(None, "", what));
            }
        }
        Ok(self.machine)
    }

    fn step(&mut self, step: &'r Step) -> Result<(), LoadError> {
        let recipe = self.recipe;
        let source = &recipe.kinds[step.source];
        if source.root && self.made[step.source].is_empty() {
            let root = match self.roots.get(source.subsystem.as_str()) {
                Some(&root) => root,
                None => {
                    let root = self.make(step.source, 0)?;
                    self.roots.insert(&source.subsystem, root);
                    root
                }
            };
            self.made[step.source].push(root);
        }
        let sources = self.made[step.source].clone();
        match &step.method {
            Method::Multiply { scale } => {
                let more = (sources.len() as u64).saturating_mul(*scale as u64);
                if more > VERTICES_MAX.saturating_sub(self.machine.vertex_count() as usize) as u64 {
                    return Err(fault(&*step.place, ModelError::TooMany.to_string()));
                }
                for (j, &from) in sources.iter().enumerate() {
                    for i in 0..*scale {
                        let id = self.id(step, i, *scale, j as i64);
                        let to = self.make(step.target, id)?;
                        self.made[step.target].push(to);
                        self.connect(step, from, to, &step.relation)?;
                    }
                }
                self.scales.push_front(*scale);
            }
            Method::Associate => {
                let targets = self.of_type(step);
                for &from in &sources {
                    for &to in &targets {
                        self.made[step.target].push(to);
                        self.join(step, from, to)?;
                    }
                }
            }
            Method::AssociateByPath { within, target_up, source_up } => {
                let prefix = |cook: &Self, v: u32, up: i64| {
                    let path = cook.path(v, within).unwrap_or_default();
                    let mut path = path.as_str();
                    for _ in 0..up {
                        path = path.rsplit_once('/').map_or("", |(before, _)| before);
                    }
                    path.to_owned()
                };
                let mut targets: BTreeMap<String, Vec<u32>> = BTreeMap::new();
                for to in self.of_type(step) {
                    targets.entry(prefix(self, to, *target_up)).or_default().push(to);
                }
                for &from in &sources {
                    for &to in targets.get(&prefix(self, from, *source_up)).map_or(&[][..], Vec::as_slice) {
                        self.made[step.target].push(to);
                        self.join(step, from, to)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn path(&self, vertex: u32, within: &str) -> Option<String> {
        let mut at = vertex;
        let mut path = String::new();
        for _ in 0..MODEL_DEPTH_MAX {
            let run = self.machine.run_of(at)?;
            path.insert_str(0, &format!("/{}", self.machine.name(run, at - run.first)));
            match self.above.get(&(within, at)) {
                Some((up, _)) => at = *up,
                None => return Some(path),
            }
        }
        None
    }

    fn of_type(&self, step: &Step) -> Vec<u32> {
        self.by_type.get(self.recipe.kinds[step.target].type_.as_str()).cloned().unwrap_or_default()
    }

    fn make(&mut self, kind: usize, id: i64) -> Result<u32, LoadError> {
        let recipe = self.recipe;
        let it = &recipe.kinds[kind];
        let wrong = |e: ModelError| fault(&*it.place, e.to_string());
        let mut rank = -1;
        if it.type_ == "node" {
            rank = self.next_rank;
            self.next_rank += 1;
        }
        let (type_, basename, unit, size) = (&*it.type_, &*it.basename, &*it.unit, it.size);
        let said = Said { type_, basename, unit, size, id: Some(id), rank, ..Said::default() };
        let made = self.machine.add(said).map_err(wrong)?;
        if self.associates {
            self.by_type.entry(&it.type_).or_default().push(made);
        }
        Ok(made)
    }

    fn join(&mut self, step: &'r Step, from: u32, to: u32) -> Result<(), LoadError> {
        if self.made[step.target].len() > VERTICES_MAX {
            return Err(fault(&*step.place, ModelError::TooMany.to_string()));
        }
        let contains = step.relation.type_ == CONTAINS;
        if contains && self.above.contains_key(&(step.relation.subsystem.as_str(), to)) {
            return self.connect(step, from, to, &Relation::of(&step.relation.subsystem, LINKED, ""));
        }
        self.connect(step, from, to, &step.relation)
    }

    fn connect(&mut self, step: &'r Step, from: u32, to: u32, relation: &Relation) -> Result<(), LoadError> {
        if self.associates {
            let contains = relation.type_ == CONTAINS;
            let above = self.above.entry((&step.relation.subsystem, to)).or_insert((from, contains));
            if contains && !above.1 {
                *above = (from, true);
            }
        }
        let joined = self.machine.connect_row(from, to, 1, relation);
        joined.map_err(|e| fault(&*step.place, e.to_string()))
    }

    /// The id of the `i`th of `scale` pools made for the `j`th source.
    fn id(&self, step: &Step, i: i64, scale: i64, j: i64) -> i64 {
        if step.id_scope == 0 {
            return step.id_start + i;
        }
        let scope = usize::try_from(step.id_scope).unwrap_or(usize::MAX).min(self.scales.len());
        let wrap = self.scales.iter().take(scope).fold(1i64, |product, s| product.saturating_mul(*s)).max(1);
        let first = (j % wrap).saturating_mul(scale).saturating_mul(step.id_stride);
        step.id_start.saturating_add(first).saturating_add(i.saturating_mul(step.id_stride))
    }
}
