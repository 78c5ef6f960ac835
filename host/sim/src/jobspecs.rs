//! Jobspecs for jobs that are a number of cores, or of whole nodes, for a time: one slot of one core for each, on any
//! nodes, or one slot that is all of each node.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::Simple;

use crate::workload::{Job, queue_name};

/// Shapes that are kept built. The logs at hand have 1,700 to 2,700.
const KEPT_MAX: usize = 65_536;

/// Builds jobspecs, each shape once; the engine then reads each once, too.
pub(crate) struct Jobspecs {
    /// By cores, nodes, queue and the bits of the limit.
    built: BTreeMap<(u32, u32, u32, u64), Arc<Jobspec>>,
    queues: BTreeMap<u32, String>,
}

impl Jobspecs {
    pub(crate) fn new(queues: &BTreeMap<u32, String>) -> Self {
        Jobspecs { built: BTreeMap::new(), queues: queues.clone() }
    }

    pub(crate) fn of(&mut self, job: &Job) -> Arc<Jobspec> {
        if self.built.len() >= KEPT_MAX {
            self.built.clear();
        }
        let queues = &self.queues;
        let key = (job.cores, job.nodes, job.queue, job.limit.to_bits());
        self.built.entry(key).or_insert_with(|| Arc::new(build(job, queues))).clone()
    }
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
