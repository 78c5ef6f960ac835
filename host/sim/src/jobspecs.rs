//! Jobspecs for jobs that are a number of cores, or of whole nodes, for a time: one slot of one core for each, on any
//! nodes, or one slot that is all of each node; and those that jobs bring themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::Simple;

use crate::workload::{Job, queue_name};

/// Shapes that are kept built. The logs at hand have 1,700 to 2,700.
const KEPT_MAX: usize = 65_536;

/// Builds jobspecs, each shape once; the engine then reads each once, too.
pub struct Jobspecs {
    /// By cores, nodes, queue and the bits of the limit.
    built: BTreeMap<(u32, u32, u32, u64), Arc<Jobspec>>,
    /// The same for jobs that have a jobspec, by its number, queue and the bits of the limit.
    told: BTreeMap<(u32, u32, u64), Arc<Jobspec>>,
    queues: BTreeMap<u32, String>,
    jobspecs: Vec<Arc<Jobspec>>,
}

impl Jobspecs {
    /// With names of the queues by number, and the [jobspecs](crate::workload::Workload::jobspecs) that jobs bring.
    pub fn new(queues: &BTreeMap<u32, String>, jobspecs: &[Arc<Jobspec>]) -> Self {
        let (queues, jobspecs) = (queues.clone(), jobspecs.to_vec());
        Jobspecs { built: BTreeMap::new(), told: BTreeMap::new(), queues, jobspecs }
    }

    /// The jobspec of a job.
    pub fn of(&mut self, job: &Job) -> Arc<Jobspec> {
        if self.built.len() + self.told.len() >= KEPT_MAX {
            self.built.clear();
            self.told.clear();
        }
        let number = (job.jobspec as usize).checked_sub(1);
        if let Some(spec) = number.and_then(|number| self.jobspecs.get(number)) {
            let queues = &self.queues;
            let key = (job.jobspec, job.queue, job.limit.to_bits());
            return self.told.entry(key).or_insert_with(|| Arc::new(timed(spec, job, queues))).clone();
        }
        let queues = &self.queues;
        let key = (job.cores, job.nodes, job.queue, job.limit.to_bits());
        self.built.entry(key).or_insert_with(|| Arc::new(build(job, queues))).clone()
    }
}

/// A jobspec with the queue and the limit of a job.
fn timed(spec: &Jobspec, job: &Job, queues: &BTreeMap<u32, String>) -> Jobspec {
    let mut spec = spec.clone();
    let queue = (job.queue > 0).then(|| ("queue", queue_name(job.queue, queues).into()));
    for (key, value) in [("duration", job.limit.into())].into_iter().chain(queue) {
        // Both are plain keys with values of their kind, so they are taken.
        let _ = spec.set_system_attr(key, value);
    }
    spec
}

fn build(job: &Job, queues: &BTreeMap<u32, String>) -> Jobspec {
    let whole = job.nodes > 0;
    Simple {
        nodes: whole.then_some(job.nodes),
        // On whole nodes the slots say it themselves.
        slots: if whole { 0 } else { job.cores },
        cores_per_slot: 1,
        duration: job.limit,
        queue: (job.queue > 0).then(|| queue_name(job.queue, queues)),
        command: vec!["replayed".to_owned()],
        ..Simple::default()
    }
    .build()
}
