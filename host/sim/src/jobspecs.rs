//! Jobspecs for jobs that are a number of cores for a time: one slot of one core for each, on any nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::Simple;

use crate::workload::Job;

/// Shapes that are kept built. The logs at hand have 1,700 to 2,700.
const KEPT_MAX: usize = 65_536;

/// Builds jobspecs, each shape once; the engine then reads each once, too.
#[derive(Default)]
pub(crate) struct Jobspecs {
    /// By cores and the bits of the limit.
    built: BTreeMap<(u32, u64), Arc<Jobspec>>,
}

impl Jobspecs {
    pub(crate) fn of(&mut self, job: &Job) -> Arc<Jobspec> {
        if self.built.len() >= KEPT_MAX {
            self.built.clear();
        }
        self.built.entry((job.cores, job.limit.to_bits())).or_insert_with(|| Arc::new(build(job))).clone()
    }
}

fn build(job: &Job) -> Jobspec {
    Simple {
        slots: job.cores,
        cores_per_slot: 1,
        duration: job.limit,
        command: vec!["replayed".to_owned()],
        ..Simple::default()
    }
    .build()
}
