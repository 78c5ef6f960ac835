//! [`Description`]: a machine as a file describes it, with a run of equal vertices as one entry.
//!
//! Vertices are numbered from 0 in the order of the file. A [`Run`] is a row of vertices that differ only in their
//! number, their id and what follows from these: `core[0-95]` of a node is one run. A [`Link`] is an edge, or the
//! edges from one vertex to a row of vertices. Nothing is lost: the vertices and edges of the file follow from runs
//! and links, in their order. [`Model`](super::Model) is the expansion of a description into single vertices; the
//! layout of the machine that is scheduled is compiled from it.
//!
//! This module must never know a file format.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::model::{CONTAINMENT, ModelError, Relation, VERTICES_MAX};
use super::names::{Name, Names};
use super::place::Format;
use super::vertex::{Pool, State};

/// A row of vertices with equal data. Texts are read with [`Description::text`].
#[derive(Debug, Clone)]
pub struct Run {
    /// The number of its first vertex; the others follow.
    pub first: u32,
    /// Its vertices, 1 or more.
    pub count: u32,
    /// Their type.
    pub type_: Name,
    /// The start of their names; empty for the type.
    pub basename: Name,
    /// The name of a single vertex; empty for basename and id.
    pub name: Name,
    /// The unit of their size; may be empty.
    pub unit: Name,
    /// The id of the first vertex among those of its type; the others count on. -1 if it has none, `None` if the file
    /// does not say any.
    pub id: Option<i64>,
    /// The unique number of the first vertex, if the file has one; the others count on.
    pub unique: Option<i64>,
    /// The id of the first vertex in the file, where it is a plain number; the others count on.
    pub(crate) file: Option<u64>,
    /// Units of each vertex, 1 to [`SIZE_MAX`](crate::SIZE_MAX).
    pub size: u64,
    /// Their execution target; -1 for none.
    pub rank: i64,
    /// Their state.
    pub state: State,
    /// The containment path of the vertex above, if the file gives the path that follows from it.
    pub(crate) above: Option<Name>,
    pub(crate) extras: Option<u32>,
}

impl Run {
    /// The numbers of its vertices.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }

    /// A part of it that begins at one of its vertices.
    fn part(&self, from: u32, count: u32) -> Run {
        let by = from - self.first;
        let on = |n: i64| n + i64::from(by);
        Run {
            first: from,
            count,
            id: self.id.map(on),
            unique: self.unique.map(on),
            file: self.file.map(|file| file + u64::from(by)),
            ..self.clone()
        }
    }
}

/// Data that few vertices have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Extras {
    /// The id in the file, where it is no plain number.
    pub(crate) file: Option<String>,
    pub(crate) uuid: Option<String>,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) tags: BTreeMap<String, Vec<String>>,
    /// Paths by subsystem, beside a containment path that follows from the vertex above.
    pub(crate) paths: BTreeMap<String, String>,
    /// Keys of the metadata without a meaning here, and keys beside the metadata.
    pub(crate) extended: Map<String, Value>,
    pub(crate) outer: Map<String, Value>,
}

impl Extras {
    /// True if several vertices may have them.
    fn may_be_shared(&self) -> bool {
        self.file.is_none() && self.uuid.is_none() && self.paths.is_empty()
    }
}

/// The edges from one vertex to a row of vertices, all of one relation.
#[derive(Debug, Clone)]
pub struct Link {
    /// The number of the vertex where they start.
    pub from: u32,
    /// The number of the first vertex where they end; the others follow.
    pub to: u32,
    /// Their number.
    pub count: u32,
    pub(crate) relation: u32,
}

impl Link {
    /// The numbers of the vertices where they end.
    pub fn targets(&self) -> std::ops::Range<u32> {
        self.to..self.to + self.count
    }
}

/// Keys of an edge without a meaning here: of its metadata, and beside it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkExtras {
    pub(crate) extended: Map<String, Value>,
    pub(crate) outer: Map<String, Value>,
}

/// One vertex as a reader hands it over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said<'a> {
    pub(crate) type_: &'a str,
    pub(crate) basename: &'a str,
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) id: Option<i64>,
    pub(crate) unique: Option<i64>,
    pub(crate) file: &'a str,
    pub(crate) size: u64,
    pub(crate) rank: i64,
    pub(crate) state: State,
    pub(crate) path: Option<&'a str>,
    pub(crate) extras: Extras,
}

/// A machine as a file describes it.
#[derive(Debug, Clone, Default)]
pub struct Description {
    names: Names,
    /// Containment paths of vertices that contain others.
    paths: Names,
    runs: Vec<Run>,
    extras: Vec<Extras>,
    count: u32,
    relations: Vec<Relation>,
    known: HashMap<Relation, u32>,
    links: Vec<Link>,
    link_extras: BTreeMap<u32, LinkExtras>,
    /// Roots of subsystems that do not follow from paths and edges.
    pub(crate) roots: BTreeMap<String, u32>,
    /// Keys of the document around the graph.
    pub(crate) document: Map<String, Value>,
    pub(crate) format: Format,
}

impl Description {
    /// An empty description for a file of this format.
    pub(crate) fn new(format: Format) -> Self {
        Description { format, ..Self::default() }
    }

    /// The number of its vertices.
    pub fn vertex_count(&self) -> u32 {
        self.count
    }

    /// The runs, in the order of their vertices. No edge leads to or from a part of a run.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The edges, in the order of the file. Opposites `in` are left out.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// True if an edge, or a root, is of a subsystem.
    pub(crate) fn has_subsystem(&self, name: &str) -> bool {
        self.roots.contains_key(name) || self.relations.iter().any(|relation| relation.subsystem == name)
    }

    /// The relation of a link of this description.
    ///
    /// # Panics
    /// A link of another description may have no relation here.
    pub fn relation(&self, link: &Link) -> &Relation {
        &self.relations[link.relation as usize]
    }

    /// The text of a name of a run.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// The run with a vertex of this number; `None` for a number beyond the last one.
    pub fn run_of(&self, number: u32) -> Option<&Run> {
        let at = self.runs.partition_point(|run| run.first <= number).checked_sub(1)?;
        self.runs.get(at).filter(|run| run.numbers().contains(&number))
    }

    /// The start of the names of a run.
    pub fn basename<'d>(&'d self, run: &Run) -> &'d str {
        self.text(if run.basename == Name::EMPTY { run.type_ } else { run.basename })
    }

    /// The id of the vertex at a position of a run.
    pub(crate) fn id(&self, run: &Run, at: u32) -> Option<i64> {
        run.id.map(|id| id + i64::from(at))
    }

    /// The name of the vertex at a position of a run, from 0.
    pub fn name(&self, run: &Run, at: u32) -> String {
        if run.name != Name::EMPTY {
            return self.text(run.name).to_owned();
        }
        match self.id(run, at).filter(|id| *id >= 0) {
            Some(id) => format!("{}{id}", self.basename(run)),
            None => self.basename(run).to_owned(),
        }
    }

    /// The containment path that the file gives the vertex at a position of a run, from 0; `None` if it gives none.
    pub fn path(&self, run: &Run, at: u32) -> Option<String> {
        match run.above {
            Some(above) => Some(format!("{}/{}", self.paths.text(above), self.name(run, at))),
            None => self.extras(run)?.paths.get(CONTAINMENT).cloned(),
        }
    }

    /// True if the file gives the vertices of a run a containment path that is not empty.
    pub(crate) fn has_path(&self, run: &Run) -> bool {
        let given = || self.extras(run)?.paths.get(CONTAINMENT).filter(|path| !path.is_empty());
        run.above.is_some() || given().is_some()
    }

    /// The paths that the file gives the first vertex of a run, by subsystem.
    pub(crate) fn paths(&self, run: &Run) -> BTreeMap<String, String> {
        let mut paths = self.extras(run).map_or_else(BTreeMap::new, |extras| extras.paths.clone());
        if let Some(path) = run.above.and_then(|_| self.path(run, 0)) {
            paths.insert(CONTAINMENT.to_owned(), path);
        }
        paths
    }

    /// The containment path above a run, where the paths of its vertices follow from it.
    pub(crate) fn above(&self, run: &Run) -> Option<&str> {
        run.above.map(|above| self.paths.text(above))
    }

    /// The id in the file of the vertex at a position of a run; empty where the format has none.
    pub fn file_id(&self, run: &Run, at: u32) -> String {
        let text = || self.extras(run).and_then(|extras| extras.file.clone());
        run.file.map(|file| (file + u64::from(at)).to_string()).or_else(text).unwrap_or_default()
    }

    pub(crate) fn extras(&self, run: &Run) -> Option<&Extras> {
        run.extras.and_then(|at| self.extras.get(at as usize))
    }

    /// The keys of a link that have no meaning here, by its position. Such a link is one edge.
    pub(crate) fn link_extras(&self, at: usize) -> Option<&LinkExtras> {
        self.link_extras.get(&u32::try_from(at).ok()?)
    }

    /// The first vertex of a run as a pool of a model, without properties.
    pub(crate) fn pool(&self, run: &Run) -> Pool {
        Pool {
            type_: self.text(run.type_).to_owned(),
            basename: self.text(run.basename).to_owned(),
            name: self.text(run.name).to_owned(),
            unit: self.text(run.unit).to_owned(),
            id: run.id.unwrap_or(-1),
            unique: run.unique,
            size: run.size,
            rank: run.rank,
            state: run.state,
            properties: Vec::new(),
            uuid: self.extras(run).and_then(|extras| extras.uuid.clone()),
        }
    }

    /// Adds a vertex; returns its number.
    pub(crate) fn add(&mut self, mut it: Said<'_>) -> Result<u32, ModelError> {
        let number = self.count;
        if self.runs.len() >= VERTICES_MAX || number == u32::MAX {
            return Err(ModelError::TooMany);
        }
        if it.basename == it.type_ {
            it.basename = "";
        }
        let base = if it.basename.is_empty() { it.type_ } else { it.basename };
        let id = it.id.filter(|id| *id >= 0);
        let follows = |name: &str| id.is_some_and(|id| spells(name, base, id));
        if follows(it.name) {
            it.name = "";
        }
        let file = plain(it.file);
        if file.is_none() && !it.file.is_empty() {
            it.extras.file = Some(it.file.to_owned());
        }
        let mut above = None;
        if let Some(path) = it.path {
            let named = |last: &str| match (it.name, id) {
                ("", Some(id)) => spells(last, base, id),
                ("", None) => last == base,
                (name, _) => last == name,
            };
            match path.rsplit_once('/').filter(|(_, last)| named(last)) {
                Some((before, _)) => above = Some(before),
                None => drop(it.extras.paths.insert(CONTAINMENT.to_owned(), path.to_owned())),
            }
        }
        self.count += 1;
        if self.follows_last(&it, file, above) {
            if let Some(run) = self.runs.last_mut() {
                run.count += 1;
            }
            return Ok(number);
        }
        let extras = (it.extras != Extras::default()).then(|| {
            self.extras.push(it.extras);
            self.extras.len() as u32 - 1
        });
        let run = Run {
            first: number,
            count: 1,
            type_: self.names.intern(it.type_),
            basename: self.names.intern(it.basename),
            name: self.names.intern(it.name),
            unit: self.names.intern(it.unit),
            id: it.id,
            unique: it.unique,
            file,
            size: it.size,
            rank: it.rank,
            state: it.state,
            above: above.map(|above| self.paths.intern(above)),
            extras,
        };
        self.runs.push(run);
        Ok(number)
    }

    /// Adds a vertex with the data of a pool; returns its number.
    pub(crate) fn add_pool(&mut self, pool: Pool) -> Result<u32, ModelError> {
        let properties = pool.properties.into_iter().collect();
        self.add(Said {
            type_: &pool.type_,
            basename: &pool.basename,
            name: &pool.name,
            unit: &pool.unit,
            id: Some(pool.id),
            unique: pool.unique,
            size: pool.size,
            rank: pool.rank,
            state: pool.state,
            extras: Extras { uuid: pool.uuid, properties, ..Extras::default() },
            ..Said::default()
        })
    }

    /// Adds a row of vertices whose ids count on from that of the first one; returns its number.
    pub(crate) fn add_row(&mut self, first: Said<'_>, count: u32) -> Result<u32, ModelError> {
        let number = self.add(first)?;
        let (more, run) = (count.saturating_sub(1), self.runs.last_mut());
        self.count = self.count.checked_add(more).ok_or(ModelError::TooMany)?;
        run.into_iter().for_each(|run| run.count += more);
        Ok(number)
    }

    /// True if a vertex continues the last run.
    fn follows_last(&self, it: &Said<'_>, file: Option<u64>, above: Option<&str>) -> bool {
        let Some(run) = self.runs.last() else { return false };
        let next = |first: Option<i64>, now: Option<i64>| match (first, now) {
            (Some(first), Some(now)) => first.checked_add(i64::from(run.count)) == Some(now),
            (None, None) => true,
            _ => false,
        };
        let next_file = match (run.file, file) {
            (Some(first), Some(now)) => first.checked_add(u64::from(run.count)) == Some(now),
            (None, None) => it.extras.file.is_none(),
            _ => false,
        };
        next_file
            && run.id.is_some_and(|id| id >= 0)
            && next(run.id, it.id)
            && next(run.unique, it.unique)
            && (run.size, run.rank, run.state) == (it.size, it.rank, it.state)
            && run.name == Name::EMPTY
            && it.name.is_empty()
            && self.text(run.type_) == it.type_
            && self.text(run.basename) == it.basename
            && self.text(run.unit) == it.unit
            && self.above(run) == above
            && match self.extras(run) {
                Some(extras) => extras.may_be_shared() && *extras == it.extras,
                None => it.extras == Extras::default(),
            }
    }

    /// Adds an edge between vertices that are there.
    pub(crate) fn connect(
        &mut self,
        from: u32,
        to: u32,
        relation: &Relation,
        extras: LinkExtras,
    ) -> Result<(), ModelError> {
        if self.links.len() >= VERTICES_MAX {
            return Err(ModelError::TooMany);
        }
        if relation.subsystem.is_empty() {
            return Err(ModelError::NoSubsystem);
        }
        if relation.type_.is_empty() {
            return Err(ModelError::NoEdgeType);
        }
        let alone = !extras.extended.is_empty() || !extras.outer.is_empty();
        let at = self.links.len() as u32;
        let known = |link: &&mut Link| self.relations.get(link.relation as usize) == Some(relation);
        let last = self.links.last_mut().filter(known);
        let relation = match &last {
            Some(link) => link.relation,
            None => match self.known.get(relation) {
                Some(known) => *known,
                None => {
                    let new = self.relations.len() as u32;
                    self.relations.push(relation.clone());
                    self.known.insert(relation.clone(), new);
                    new
                }
            },
        };
        let last = last.filter(|link| {
            (link.from, link.to + link.count) == (from, to)
                && !alone
                && self.link_extras.last_key_value().is_none_or(|(last, _)| *last + 1 < at)
        });
        match last {
            Some(link) => link.count += 1,
            None => self.links.push(Link { from, to, count: 1, relation }),
        }
        if alone {
            self.link_extras.insert(at, extras);
        }
        Ok(())
    }

    /// Adds edges from a vertex to a row of vertices.
    pub(crate) fn connect_row(
        &mut self,
        from: u32,
        to: u32,
        count: u32,
        relation: &Relation,
    ) -> Result<(), ModelError> {
        self.connect(from, to, relation, LinkExtras::default())?;
        self.links.last_mut().into_iter().for_each(|link| link.count += count.saturating_sub(1));
        Ok(())
    }

    /// Divides the runs so that all vertices of a run have the same edges. Every reader calls it last.
    pub(crate) fn settle(&mut self) {
        if self.runs.len() == self.count as usize {
            return;
        }
        let ends =
            self.links.iter().flat_map(|link| [link.from, link.from + 1, link.to, link.to + link.count]);
        let mut begins: Vec<u32> = ends.collect();
        begins.sort_unstable();
        begins.dedup();
        // Most often no run is divided, and there are many.
        let mut next = 0;
        let divided = self.runs.iter().any(|run| {
            next += begins.get(next..).unwrap_or_default().iter().take_while(|at| **at <= run.first).count();
            begins.get(next).is_some_and(|at| *at < run.first + run.count)
        });
        if !divided {
            return;
        }
        let mut runs = Vec::with_capacity(self.runs.len());
        let mut begins = begins.into_iter().peekable();
        for run in &self.runs {
            let (mut from, end) = (run.first, run.first + run.count);
            while let Some(at) = begins.next_if(|at| *at < end) {
                if at > from {
                    runs.push(run.part(from, at - from));
                    from = at;
                }
            }
            runs.push(run.part(from, end - from));
        }
        self.runs = runs;
    }
}

/// True if a name is a basename and an id in decimal digits.
pub(crate) fn spells(name: &str, base: &str, id: i64) -> bool {
    name.strip_prefix(base).and_then(plain).is_some_and(|number| i64::try_from(number) == Ok(id))
}

/// The number that a text spells in decimal digits without leading zeros.
pub(crate) fn plain(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits && (text == "0" || !text.starts_with('0')) { text.parse().ok() } else { None }
}

/// The number at the end of a name.
pub(crate) fn trailing(name: &str) -> Option<i64> {
    name[name.trim_end_matches(|c: char| c.is_ascii_digit()).len()..].parse().ok()
}
