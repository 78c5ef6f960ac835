//! The inside of nodes that R describes in `scheduling` (RFC 49, writer `TreePool`): sockets, NUMA domains and other
//! domains, each with its cores and gpus.
//!
//! The topology is a hint; R_lite decides which resources there are. A node whose ids differ from those of its
//! topology (a child instance that got part of a node) is read as flat. A malformed topology is not used, and the
//! reason is kept. `memory` and `storage` are not tracked (RFC 49). Ranks may be those of the enclosing instance;
//! they are renumbered in their order.
//!
//! This module must never know which units are free.

use std::sync::Arc;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;
use serde_json::{Map, Value, json};

/// The writer that RFC 49 names.
const WRITER: &str = "TreePool";
/// Most domains of one node.
const DOMAINS_MAX: usize = 4096;
/// Deepest nesting.
const DEPTH_MAX: usize = 16;
/// Types that a domain cannot have, because they mean something else here.
const TAKEN: &[&str] = &["cluster", "node", "slot", "core", "gpu"];

/// The key `scheduling` of an R, by its meaning to this scheduler.
#[derive(Debug, Clone, Default)]
pub(crate) enum Scheduling {
    /// R has no such key.
    #[default]
    None,
    /// The key of another writer; it is kept unchanged.
    Opaque(Arc<Value>),
    /// The graph of a site, which is stored in the layout.
    Site,
    /// RFC 49; an allocation gets the part about its ranks.
    TreePool(Arc<TreePool>),
}

/// A topology, with the ranks of this instance.
#[derive(Debug)]
pub(crate) struct TreePool {
    rest: Map<String, Value>,
    entries: Vec<Entry>,
}

/// Nodes of one topology.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) ranks: Idset,
    pub(crate) node: Domain,
    topo: Value,
}

/// A domain of a node, with the resources that are in it and in no smaller domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) type_: String,
    /// Its number among domains of its type.
    pub(crate) id: u32,
    pub(crate) cores: Idset,
    pub(crate) gpus: Idset,
    pub(crate) within: Vec<Domain>,
}

impl Scheduling {
    /// Reads the key of an R of these ranks; the text says why a topology is not used.
    pub(crate) fn read(scheduling: Option<&Value>, ranks: &Idset) -> (Scheduling, Option<String>) {
        let Some(value) = scheduling else { return (Scheduling::None, None) };
        let opaque = || Scheduling::Opaque(Arc::new(value.clone()));
        if value.get("writer").and_then(Value::as_str) != Some(WRITER) {
            return (opaque(), None);
        }
        match TreePool::read(value, ranks) {
            Ok(pool) => (Scheduling::TreePool(Arc::new(pool)), None),
            Err(why) => (opaque(), Some(format!("scheduling.children: {why}"))),
        }
    }

    /// The key for this R, which is a part of the R that was read (of the machine or of an allocation).
    pub(crate) fn of(&self, r: &R) -> Option<Value> {
        match self {
            Scheduling::None | Scheduling::Site => None,
            Scheduling::Opaque(value) => Some(Value::clone(value)),
            Scheduling::TreePool(pool) => Some(pool.of(&r.ranks())),
        }
    }

    /// The topologies of the nodes.
    pub(crate) fn entries(&self) -> &[Entry] {
        match self {
            Scheduling::TreePool(pool) => &pool.entries,
            _ => &[],
        }
    }
}

impl TreePool {
    fn read(scheduling: &Value, ranks: &Idset) -> Result<TreePool, String> {
        let mut rest = scheduling.as_object().cloned().unwrap_or_default();
        let Some(Value::Array(children)) = rest.remove("children") else {
            return Err("expected an array".to_owned());
        };
        let mut all = Idset::new();
        let mut entries = Vec::with_capacity(children.len());
        for (index, child) in children.into_iter().enumerate() {
            let place = |why: String| format!("[{index}]: {why}");
            let text = child["ranks"].as_str().ok_or_else(|| place("ranks: expected an idset".to_owned()))?;
            let of = Idset::parse(text).map_err(|error| place(format!("ranks: {error}")))?;
            if !all.is_disjoint(&of) {
                return Err(place(format!("ranks: {text} names a rank that stands in another entry")));
            }
            all = all.union(&of);
            let mut count = 0;
            let node = Domain::read("node", 0, &child["topo"], 0, &mut count)
                .and_then(|node| node.check().map(|()| node))
                .map_err(|why| place(format!("topo{why}")))?;
            entries.push(Entry { ranks: of, node, topo: child["topo"].clone() });
        }
        let direct = ranks.is_subset(&all);
        if !direct && ranks.len() != all.len() {
            return Err(format!("{} ranks, but R_lite has {}", all.len(), ranks.len()));
        }
        for entry in &mut entries {
            entry.ranks = if direct {
                entry.ranks.intersection(ranks)
            } else {
                entry.ranks.iter().filter_map(|rank| ranks.nth(all.position(rank)?)).collect()
            };
        }
        entries.retain(|entry| !entry.ranks.is_empty());
        Ok(TreePool { rest, entries })
    }

    /// The part about these ranks (RFC 49: entries without ranks are dropped, topologies are unchanged).
    fn of(&self, ranks: &Idset) -> Value {
        let trimmed = |entry: &Entry| {
            let ranks = entry.ranks.intersection(ranks);
            (!ranks.is_empty()).then(|| json!({"ranks": ranks.to_string(), "topo": entry.topo}))
        };
        let mut scheduling = self.rest.clone();
        scheduling.insert("children".to_owned(), self.entries.iter().filter_map(trimmed).collect());
        Value::Object(scheduling)
    }
}

impl Domain {
    fn read(type_: &str, id: u32, topo: &Value, depth: usize, count: &mut usize) -> Result<Domain, String> {
        let Value::Object(topo) = topo else { return Err(": expected an object".to_owned()) };
        *count += 1;
        if depth > DEPTH_MAX || *count > DOMAINS_MAX {
            return Err(format!(": more than {DEPTH_MAX} levels or {DOMAINS_MAX} domains"));
        }
        let ids = |key: &str| match topo.get(key) {
            None => Ok(Idset::new()),
            Some(Value::String(text)) => Idset::parse(text).map_err(|error| format!(".{key}: {error}")),
            Some(other) => Err(format!(".{key}: expected an idset, found {other}")),
        };
        let (cores, gpus) = (ids("cores")?, ids("gpus")?);
        let mut within = Vec::new();
        for (key, value) in topo {
            let Value::Array(list) = value else { continue };
            if key == "storage" {
                continue;
            }
            if TAKEN.contains(&key.as_str()) || key.is_empty() {
                return Err(format!(".{key}: a domain cannot be called so"));
            }
            for (index, one) in list.iter().enumerate() {
                let domain = Domain::read(key, index as u32, one, depth + 1, count);
                within.push(domain.map_err(|why| format!(".{key}[{index}]{why}"))?);
            }
        }
        Ok(Domain { type_: type_.to_owned(), id, cores, gpus, within })
    }

    /// Checks that every id stands in one domain.
    fn check(&self) -> Result<(), String> {
        let (cores, gpus) = self.ids();
        let mut counts = (0, 0);
        self.visit(&mut |domain| {
            counts.0 += domain.cores.len();
            counts.1 += domain.gpus.len();
        });
        match (cores.len(), gpus.len()) == counts {
            true => Ok(()),
            false => Err(": an id stands in two places".to_owned()),
        }
    }

    fn visit(&self, each: &mut impl FnMut(&Domain)) {
        each(self);
        self.within.iter().for_each(|domain| domain.visit(each));
    }

    /// All cores and gpus in it.
    pub(crate) fn ids(&self) -> (Idset, Idset) {
        let (mut cores, mut gpus) = (Idset::new(), Idset::new());
        self.visit(&mut |domain| {
            cores = cores.union(&domain.cores);
            gpus = gpus.union(&domain.gpus);
        });
        (cores, gpus)
    }
}
