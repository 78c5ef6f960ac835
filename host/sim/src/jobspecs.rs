//! Jobspecs for the jobs of a log: a number of cores for a time (one slot of one core for each, on any nodes), or whole
//! nodes for a time (one slot that is all of each node), with memory and flow for each slot or node; and the jobspecs
//! that jobs bring themselves.
//!
//! This module does not know policies.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fluxgate_formats::jobspec::{JobAttributes, Resource, Simple};
use fluxgate_formats::{Count, Jobspec};

use crate::flow::Asks;
use crate::hash::Spread;
use crate::workload::{Job, queue_name};

/// Number of shapes that are kept.
const KEPT_MAX: usize = 8192;

/// Builds jobspecs, each shape once. The limit is no part of a shape: in a jobspec that no one else holds it is replaced.
pub struct Jobspecs {
    built: HashMap<Key, Arc<Jobspec>, Spread>,
    /// Numbers of amounts of flow, from 1; 0 for none.
    flows: BTreeMap<Box<[u64]>, u32>,
    /// The same for jobs with a jobspec of their own, by its number, queue, attributes, and whether there is a limit.
    told: HashMap<(u32, u32, u32, bool), Arc<Jobspec>, Spread>,
    queues: BTreeMap<u32, String>,
    jobspecs: Vec<Arc<Jobspec>>,
    flow: Asks,
    /// Attributes by number, if jobspecs tell them.
    attributes: Option<Arc<[JobAttributes]>>,
}

/// Cores, nodes, queue, memory, the numbers of amounts of flow and of attributes, and whether there is a limit.
type Key = (u32, u32, u32, u64, u32, u32, bool);

impl Jobspecs {
    /// Takes the names of the queues by number, and the [jobspecs](crate::workload::Workload::jobspecs) of the jobs.
    pub fn new(queues: &BTreeMap<u32, String>, jobspecs: &[Arc<Jobspec>]) -> Self {
        let (queues, jobspecs, flow) = (queues.clone(), jobspecs.to_vec(), Asks::default());
        Jobspecs {
            built: HashMap::default(),
            flows: BTreeMap::new(),
            told: HashMap::default(),
            queues,
            jobspecs,
            flow,
            attributes: None,
        }
    }

    /// The same, with flow for jobs without a jobspec of their own.
    pub fn with_flow(self, flow: &Asks) -> Self {
        Jobspecs { flow: flow.clone(), ..self }
    }

    /// From now on jobspecs tell these attributes of jobs, and no others.
    pub fn tell_attributes(&mut self, attributes: &Arc<[JobAttributes]>) {
        self.built.clear();
        self.told.clear();
        self.attributes = Some(Arc::clone(attributes));
    }

    /// The attributes of a job, if jobspecs tell them.
    fn known(&self, job: &Job) -> Option<JobAttributes> {
        let all = self.attributes.as_ref()?;
        let known = (job.attributes as usize).checked_sub(1).and_then(|number| all.get(number));
        Some(known.cloned().unwrap_or_default())
    }

    /// The jobspec of a job (RFC 14). Jobs with the same request share one as long as no job with another limit comes between.
    pub fn of(&mut self, job: &Job) -> Arc<Jobspec> {
        if self.built.len() + self.told.len() >= KEPT_MAX {
            self.built.clear();
            self.flows.clear();
            self.told.clear();
        }
        let numbered = if self.attributes.is_some() { job.attributes } else { 0 };
        let limited = job.limit.is_finite();
        let number = (job.jobspec as usize).checked_sub(1);
        if let Some(spec) = number.and_then(|number| self.jobspecs.get(number)) {
            let key = (job.jobspec, job.queue, numbered, limited);
            if let Some(told) = self.told.get_mut(&key) {
                return limited_to(told, job.limit);
            }
            let made = Arc::new(with(timed(spec, job, &self.queues), self.known(job)));
            self.told.insert(key, Arc::clone(&made));
            return made;
        }
        let (queues, flow) = (&self.queues, &self.flow);
        let (mut amounts, mut number) = (Box::default(), 0);
        if !flow.is_empty() {
            amounts = flow.amounts(job);
            let next = self.flows.len() as u32 + 1;
            number = match self.flows.get(&amounts) {
                Some(known) => *known,
                None => *self.flows.entry(amounts.clone()).or_insert(next),
            };
        }
        let key = (job.cores, job.nodes, job.queue, job.memory_kb, number, numbered, limited);
        if let Some(built) = self.built.get_mut(&key) {
            return limited_to(built, job.limit);
        }
        let made = Arc::new(with(build(job, queues, flow.resources(&amounts)), self.known(job)));
        self.built.insert(key, Arc::clone(&made));
        made
    }
}

/// The jobspec with this limit, if there is one.
fn limited_to(spec: &mut Arc<Jobspec>, limit: f64) -> Arc<Jobspec> {
    let seconds = limit.max(0.0);
    if seconds.is_finite() && spec.duration() != seconds {
        // The key is a plain one with a valid value, so it is accepted.
        let _ = Arc::make_mut(spec).set_system_attr("duration", seconds.into());
    }
    Arc::clone(spec)
}

/// A jobspec that tells attributes.
fn with(mut spec: Jobspec, known: Option<JobAttributes>) -> Jobspec {
    known.into_iter().for_each(|known| known.tell(&mut spec));
    spec
}

/// A jobspec of a job's own, with the queue and the limit of the job.
fn timed(spec: &Jobspec, job: &Job, queues: &BTreeMap<u32, String>) -> Jobspec {
    let mut spec = spec.clone();
    let queue = (job.queue > 0).then(|| ("queue", queue_name(job.queue, queues).into()));
    for (key, value) in [("duration", job.limit.into())].into_iter().chain(queue) {
        // Both are plain keys with valid values, so they are accepted.
        let _ = spec.set_system_attr(key, value);
    }
    spec
}

fn build(job: &Job, queues: &BTreeMap<u32, String>, mut more: Vec<Resource>) -> Jobspec {
    let whole = job.nodes > 0;
    let mut spec = Simple {
        nodes: whole.then_some(job.nodes),
        // On whole nodes the slots have the requests.
        slots: if whole { 0 } else { job.cores },
        cores_per_slot: 1,
        duration: job.limit,
        queue: (job.queue > 0).then(|| queue_name(job.queue, queues)),
        command: vec!["replayed".to_owned()],
        ..Simple::default()
    }
    .build();
    if job.memory_kb > 0 {
        let memory = Resource::new("memory", Count::Fixed(job.memory_kb));
        more.push(Resource { unit: Some("kB".to_owned()), ..memory });
    }
    if let Some(first) = spec.resources.first_mut().filter(|_| !more.is_empty()) {
        // The node, or the slot; version 1 has no others.
        first.with.extend(more);
        spec.version = 9999;
    }
    spec
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::JobId;

    use super::*;

    #[test]
    fn jobs_of_one_shape_share_a_jobspec_with_their_limits() {
        let own = Arc::new(Simple { slots: 3, duration: 7.0, ..Simple::default() }.build());
        let mut specs = Jobspecs::new(&BTreeMap::new(), &[own]);
        for jobspec in [0, 1] {
            let job = |limit| Job { jobspec, ..Job::new(JobId(1), 0.0, 3, limit, 1.0) };
            let first = specs.of(&job(60.0));
            let address = Arc::as_ptr(&first);
            // Another limit while the first jobspec is in use.
            let second = specs.of(&job(90.0));
            assert_eq!((first.duration(), second.duration()), (60.0, 90.0));
            assert_eq!((first.min_cores(), &first.resources), (3, &second.resources));
            assert_ne!(address, Arc::as_ptr(&second));
            let address = Arc::as_ptr(&second);
            drop(second);
            let third = specs.of(&job(60.0));
            assert_eq!((third.duration(), Arc::as_ptr(&third)), (60.0, address));
            // Without a limit a jobspec of the job's own keeps its duration.
            let unlimited = specs.of(&job(f64::INFINITY));
            assert_eq!(unlimited.duration(), if jobspec == 0 { 0.0 } else { 7.0 });
            assert_eq!(specs.of(&job(60.0)).duration(), 60.0);
        }
    }
}
