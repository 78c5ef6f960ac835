//! Filters that are somebody else's code, behind messages: a component, a process, a service.
//!
//! A [`Judge`] is asked about many vertices at once and answers for each whether to go on below it and what it scores.
//! [`Judged`] makes filters of a walk out of one: it asks ahead, for the vertex at hand and others that the walk will come to,
//! so that a walk over a graph costs a message for each batch and none for a vertex. Whoever judges, in this process or
//! in another, the visits are the same; a judge that fails ends the walk.
//!
//! This module must never know how a judge is reached.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::graph::Model;
use super::vertex::VertexId;
use super::walk::{Pruning, Scored, Visit};

/// Most vertices of one question.
pub const BATCH_MAX: usize = 1024;

/// A vertex as a judge sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its name.
    pub name: String,
    /// Its id; -1 for none.
    pub id: i64,
    /// The execution target it belongs to; -1 for none.
    pub rank: i64,
    /// Units.
    pub size: u64,
    /// What a unit is called.
    pub unit: String,
    /// Its state, in the words of RFC 4.
    pub state: String,
    /// Its properties with their values.
    pub properties: BTreeMap<String, String>,
}

/// What a judge says of a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Visit what is below it.
    pub descend: bool,
    /// The score it qualifies with; `None` when it does not.
    pub score: Option<i64>,
}

/// Judges vertices, each by itself.
pub trait Judge {
    /// Why there is no answer.
    type Error;

    /// One verdict for each vertex, in their order.
    fn judge(&mut self, batch: &[Asked]) -> Result<Vec<Verdict>, Self::Error>;
}

/// Why a judged walk ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError<E> {
    /// The judge failed: it trapped, took too long, or is gone.
    #[error("the judge failed: {0}")]
    Failed(E),
    /// Not one verdict for each vertex.
    #[error("{found} verdicts found for {asked} vertices")]
    Count {
        /// Vertices of the question.
        asked: usize,
        /// Verdicts of the answer.
        found: usize,
    },
}

/// The filters of a walk, out of a judge.
#[derive(Debug)]
pub struct Judged<J> {
    judge: J,
    subsystem: String,
    /// Where the walk began.
    start: Option<VertexId>,
    known: BTreeMap<VertexId, Verdict>,
}

impl<J: Judge> Judged<J> {
    /// Filters for a walk in this subsystem.
    pub fn new(judge: J, subsystem: &str) -> Self {
        Judged { judge, subsystem: subsystem.to_owned(), start: None, known: BTreeMap::new() }
    }

    fn verdict(&mut self, model: &Model, vertex: VertexId) -> Result<Verdict, JudgeError<J::Error>> {
        if let Some(&verdict) = self.known.get(&vertex) {
            return Ok(verdict);
        }
        let batch = self.ahead(model, vertex);
        let asked: Vec<Asked> = batch.iter().filter_map(|&v| asked(model, v)).collect();
        let verdicts = self.judge.judge(&asked).map_err(JudgeError::Failed)?;
        if verdicts.len() != batch.len() || verdicts.is_empty() {
            return Err(JudgeError::Count { asked: batch.len(), found: verdicts.len() });
        }
        self.known.extend(batch.into_iter().zip(verdicts.iter().copied()));
        Ok(verdicts[0])
    }

    /// The vertex, and what else the walk will come to, level by level, as far as it was not judged yet.
    fn ahead(&self, model: &Model, vertex: VertexId) -> Vec<VertexId> {
        let mut batch = vec![vertex];
        let start = self.start.unwrap_or(vertex);
        let mut met = BTreeSet::from([start, vertex]);
        let mut queue = VecDeque::from([start]);
        let subsystem = model.name(&self.subsystem);
        while let Some(v) = queue.pop_front() {
            if v != vertex && !self.known.contains_key(&v) {
                batch.push(v);
            }
            if batch.len() >= BATCH_MAX {
                break;
            }
            if self.known.get(&v).is_some_and(|verdict| !verdict.descend) {
                continue;
            }
            let below = subsystem.into_iter().flat_map(|name| model.steps(v, name));
            queue.extend(below.filter(|next| met.insert(*next)));
        }
        batch
    }
}

fn asked(model: &Model, v: VertexId) -> Option<Asked> {
    let it = model.vertex(v)?;
    let text = |name| model.text(name).to_owned();
    Some(Asked {
        type_: text(it.type_()),
        name: text(it.name()),
        id: it.id().unwrap_or(-1),
        rank: it.rank().unwrap_or(-1),
        size: it.size(),
        unit: text(it.unit()),
        state: it.state().text().to_owned(),
        properties: model.properties(v).map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    })
}

impl<J: Judge> Visit for Judged<J> {
    type Error = JudgeError<J::Error>;

    fn prune(&mut self, model: &Model, vertex: VertexId) -> Result<Pruning, Self::Error> {
        self.start.get_or_insert(vertex);
        let verdict = self.verdict(model, vertex)?;
        Ok(if verdict.descend { Pruning::Descend } else { Pruning::Prune })
    }

    fn evaluate(
        &mut self,
        model: &Model,
        vertex: VertexId,
        _: &[Scored],
    ) -> Result<Option<i64>, Self::Error> {
        self.verdict(model, vertex).map(|verdict| verdict.score)
    }
}
