//! The objects of a topology in the arrangement that hwloc itself gives them.
//!
//! The objects of one type form a level. A level of groups or caches that repeats the one above or below it, object
//! for object, is removed, as hwloc does with `HWLOC_TYPE_FILTER_KEEP_STRUCTURE`. Memory is beside the objects that
//! it serves, also where version 1 put it above them.
//!
//! This module must never know the type of an object in a resource graph.

use roxmltree::{Document, Node};

use crate::description::error::LoadError;
use crate::description::model::MODEL_DEPTH_MAX;

use super::fault;

/// The kind of an object, as far as the arrangement depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Machine,
    Package,
    Core,
    Pu,
    /// Its level, and whether it holds instructions only.
    Cache(u8, bool),
    /// Its kind and subkind; in version 1 the depth in place of both.
    Group(u32, u32),
    Memory,
    Device,
    /// A die or an unknown object: it stays where it was found.
    Other,
    /// Bridges, PCI functions and DMA devices: objects in them belong to the object around them.
    Through,
}

impl Kind {
    fn of(node: Node<'_, '_>) -> Kind {
        let number = |key| node.attribute(key).and_then(|text| text.parse::<u8>().ok());
        match node.attribute("type").unwrap_or("") {
            "Machine" => Kind::Machine,
            "Package" | "Socket" => Kind::Package,
            "Core" => Kind::Core,
            "PU" => Kind::Pu,
            "NUMANode" => Kind::Memory,
            "Group" => {
                let part = |key| node.attribute(key).and_then(|text| text.parse().ok()).unwrap_or(0);
                Kind::Group(part("kind"), part("subkind").max(part("depth")))
            }
            "Cache" => Kind::Cache(number("depth").unwrap_or(0), number("cache_type") == Some(2)),
            // Devices of kind 4 move memory (DMA).
            "OSDev" if node.attribute("osdev_type") == Some("4") => Kind::Through,
            "OSDev" => Kind::Device,
            "Bridge" | "PCIDev" | "Misc" => Kind::Through,
            other => match other.strip_prefix('L').and_then(|rest| rest.split_at_checked(1)) {
                Some((level, kind @ ("Cache" | "iCache"))) => {
                    Kind::Cache(level.parse().unwrap_or(0), kind == "iCache")
                }
                _ => Kind::Other,
            },
        }
    }

    /// True if a level of this kind may be removed when it repeats another.
    fn only_structure(self) -> bool {
        matches!(self, Kind::Cache(..) | Kind::Group(..))
    }

    /// The weight of a level: of two levels that repeat each other, the one with the smaller weight is removed.
    fn weight(self) -> u8 {
        match self {
            Kind::Group(..) => 0,
            Kind::Cache(_, true) => 19,
            Kind::Cache(_, false) => 20,
            _ => 30,
        }
    }
}

/// One object and its children, by position in [`Tree::objects`].
#[derive(Debug)]
pub(super) struct Object<'d, 'x> {
    pub(super) kind: Kind,
    pub(super) node: Node<'d, 'x>,
    /// Number of earlier objects of its level, of memory or of devices.
    pub(super) index: i64,
    above: usize,
    /// The processors and their containers in it.
    inner: Vec<usize>,
    memory: Vec<usize>,
    devices: Vec<usize>,
}

/// A machine.
#[derive(Debug)]
pub(super) struct Tree<'d, 'x> {
    objects: Vec<Object<'d, 'x>>,
}

/// Most levels of one topology; hwloc has 20 types and few levels of groups.
const LEVELS_MAX: usize = 128;

/// The kind of group that hwloc puts in place of memory of version 1.
const GROUP_OF_MEMORY: Kind = Kind::Group(1001, 0);

/// The machine itself.
pub(super) const MACHINE: usize = 0;

impl<'d, 'x> Tree<'d, 'x> {
    /// Reads a machine.
    pub(super) fn new(document: &'d Document<'x>, machine: Node<'d, 'x>) -> Result<Self, LoadError> {
        let mut tree = Tree { objects: Vec::new() };
        let of_one = machine.parent_element().is_none_or(|top| top.attribute("version").is_none());
        tree.push(Kind::Machine, machine, MACHINE);
        tree.fill(document, machine, MACHINE, of_one, 0)?;
        tree.prune(MACHINE);
        let levels = tree.merge();
        let levels =
            levels.ok_or_else(|| fault("topology", format!("more than {LEVELS_MAX} levels of objects")))?;
        tree.number(&levels);
        Ok(tree)
    }

    /// An object.
    pub(super) fn object(&self, at: usize) -> &Object<'d, 'x> {
        &self.objects[at]
    }

    /// The children of an object, in the order of hwloc.
    pub(super) fn children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let it = &self.objects[at];
        [&it.inner, &it.memory, &it.devices].into_iter().flatten().copied()
    }

    fn push(&mut self, kind: Kind, node: Node<'d, 'x>, above: usize) -> usize {
        self.objects.push(Object {
            kind,
            node,
            index: 0,
            above,
            inner: Vec::new(),
            memory: Vec::new(),
            devices: Vec::new(),
        });
        self.objects.len() - 1
    }

    fn fill(
        &mut self,
        document: &Document<'_>,
        node: Node<'d, 'x>,
        within: usize,
        of_one: bool,
        depth: usize,
    ) -> Result<(), LoadError> {
        for child in node.children().filter(|n| super::is_object(*n)) {
            let place = || {
                let line = document.text_pos_at(child.range().start).row;
                format!("line {line}: object '{}'", child.attribute("type").unwrap_or(""))
            };
            if depth >= MODEL_DEPTH_MAX {
                return Err(fault(place(), format!("more than {MODEL_DEPTH_MAX} objects inside each other")));
            }
            if child.attribute("type").is_none() {
                return Err(fault(place(), "no attribute 'type' found"));
            }
            let kind = Kind::of(child);
            let mut inside = within;
            match kind {
                Kind::Through => {}
                Kind::Memory => {
                    let mut serves = within;
                    if of_one {
                        // Version 1 puts the objects that memory serves inside the memory: a group takes its place.
                        inside = self.push(GROUP_OF_MEMORY, child, within);
                        self.objects[within].inner.push(inside);
                        serves = self.highest_like(inside);
                    }
                    // Memory with an empty node set is not usable.
                    if !is_empty_set(child, "nodeset") {
                        let memory = self.push(kind, child, serves);
                        self.objects[serves].memory.push(memory);
                    }
                }
                Kind::Device => {
                    let device = self.push(kind, child, within);
                    self.objects[within].devices.push(device);
                    inside = device;
                }
                _ => {
                    inside = self.push(kind, child, within);
                    self.objects[within].inner.push(inside);
                }
            }
            self.fill(document, child, inside, of_one, depth + 1)?;
        }
        Ok(())
    }

    /// Removes objects without processors, memory and devices.
    fn prune(&mut self, at: usize) {
        let inner = std::mem::take(&mut self.objects[at].inner);
        let mut kept = Vec::with_capacity(inner.len());
        for at in inner {
            self.prune(at);
            let it = &self.objects[at];
            let bare = [&it.inner, &it.memory, &it.devices].iter().all(|list| list.is_empty());
            if !bare || !is_empty_set(it.node, "cpuset") {
                kept.push(at);
            }
        }
        self.objects[at].inner = kept;
    }

    /// The highest object at or above an object that has the same processors.
    fn highest_like(&self, at: usize) -> usize {
        let processors = |at: usize| self.objects[at].node.attribute("cpuset");
        let mut highest = at;
        while highest != MACHINE
            && processors(self.objects[highest].above).is_some_and(|p| processors(at) == Some(p))
        {
            highest = self.objects[highest].above;
        }
        highest
    }

    /// Numbers processors and their containers by level, and memory and devices in the order of the whole.
    fn number(&mut self, levels: &[Vec<usize>]) {
        for level in levels {
            for (index, &at) in (0..).zip(level) {
                self.objects[at].index = index;
            }
        }
        let (mut memory, mut devices) = (0, 0);
        let mut left = vec![MACHINE];
        while let Some(at) = left.pop() {
            let next = match self.objects[at].kind {
                Kind::Memory => Some(&mut memory),
                Kind::Device => Some(&mut devices),
                _ => None,
            };
            if let Some(next) = next {
                self.objects[at].index = *next;
                *next += 1;
            }
            let mut children: Vec<usize> = self.children(at).collect();
            children.reverse();
            left.extend(children);
        }
    }

    /// True if an object of a kind is somewhere in another object, which is of another kind.
    fn has(&self, at: usize, kind: Kind) -> bool {
        let mut left: Vec<usize> = self.objects[at].inner.clone();
        while let Some(next) = left.pop() {
            if self.objects[next].kind == kind {
                return true;
            }
            left.extend(&self.objects[next].inner);
        }
        false
    }

    /// The objects of each level, from the machine down. The next level has a type of which no remaining object is
    /// inside another; processing units come last.
    fn levels(&self) -> Option<Vec<Vec<usize>>> {
        let mut levels = vec![vec![MACHINE]];
        let mut front = self.objects[MACHINE].inner.clone();
        let kind = |at: usize| self.objects[at].kind;
        while let Some(&first) = front.iter().find(|&&at| kind(at) != Kind::Pu).or(front.first()) {
            if levels.len() > LEVELS_MAX {
                return None;
            }
            let mut top = kind(first);
            for &at in &front {
                if kind(at) != top && self.has(at, top) {
                    top = kind(at);
                }
            }
            let (mut level, mut next) = (Vec::new(), Vec::new());
            for at in front {
                if kind(at) == top {
                    level.push(at);
                    next.extend(&self.objects[at].inner);
                } else {
                    next.push(at);
                }
            }
            levels.push(level);
            front = next;
        }
        Some(levels)
    }

    /// Removes levels that only repeat another, and returns the others; `None` if there are too many levels.
    fn merge(&mut self) -> Option<Vec<Vec<usize>>> {
        let mut levels = self.levels()?;
        for lower in (1..levels.len()).rev() {
            let kind = |level: &[usize]| self.objects[level[0]].kind;
            let (above, below) = (kind(&levels[lower - 1]), kind(&levels[lower]));
            let upper_goes = match (above.only_structure(), below.only_structure()) {
                (false, false) => continue,
                (true, true) => above.weight() < below.weight(),
                (upper_goes, _) => upper_goes,
            };
            let one = |&at: &usize| self.objects[at].inner.len() == 1;
            let bare = |&at: &usize| below != Kind::Pu || self.objects[at].memory.is_empty();
            let (upper, under) = (&levels[lower - 1], &levels[lower]);
            if upper.len() != under.len() || !upper.iter().all(one) || !under.iter().all(bare) {
                continue;
            }
            for &at in upper {
                self.join(at, upper_goes);
            }
            levels.remove(lower);
        }
        Some(levels)
    }

    /// Merges an object and its only child.
    fn join(&mut self, at: usize, as_inner: bool) {
        let Some(&only) = self.objects[at].inner.first() else { return };
        let inner = &mut self.objects[only];
        let (kind, node) = (inner.kind, inner.node);
        let memory = std::mem::take(&mut inner.memory);
        let devices = std::mem::take(&mut inner.devices);
        let within = std::mem::take(&mut inner.inner);
        let it = &mut self.objects[at];
        it.memory.extend(memory);
        it.devices.extend(devices);
        it.inner = within;
        if as_inner {
            (it.kind, it.node) = (kind, node);
        }
    }
}

/// True for an attribute that is an empty set, written in hexadecimal words.
fn is_empty_set(node: Node<'_, '_>, key: &str) -> bool {
    node.attribute(key).is_some_and(|set| {
        let words = set.split(',').map(|word| word.trim_start_matches("0x"));
        words.flat_map(str::chars).all(|digit| digit == '0')
    })
}
