//! Description of a job for the bench.

use std::collections::BTreeMap;

use super::capacity::{self, KINDS_MAX, Need};
use super::{Bench, Waiting};
use crate::job::{Happened, Job};

/// A job under construction; see [`Bench::job`].
#[must_use = "end with `submit` or `running`"]
#[derive(Debug)]
pub struct JobBuilder<'a> {
    pub(super) bench: &'a mut Bench,
    pub(super) job: Job,
    pub(super) real_duration: Option<f64>,
    pub(super) flows: [u64; KINDS_MAX],
    pub(super) attributes: BTreeMap<String, String>,
}

impl<'a> JobBuilder<'a> {
    /// It needs this many cores.
    pub fn cores(mut self, cores: u32) -> Self {
        self.job.cores = cores;
        self
    }

    /// It needs this many GPUs.
    pub fn gpus(mut self, gpus: u32) -> Self {
        self.job.gpus = gpus;
        self
    }

    /// It needs this amount of a kind that [`Bench::flow`] defined.
    ///
    /// # Panics
    /// The kind is not defined.
    pub fn flow(mut self, name: &str, amount: u64) -> Self {
        let kind = self.bench.kinds.iter().position(|kind| kind.name == name);
        self.flows[kind.unwrap_or_else(|| panic!("no {name} flows on this bench"))] = amount;
        self
    }

    /// It needs this amount of a kind that [`Bench::resource`] defined.
    ///
    /// # Panics
    /// The kind is not defined.
    pub fn resource(mut self, name: &str, amount: u64) -> Self {
        let kind = self.bench.pools.iter().position(|pool| pool.name == name);
        self.flows[KINDS_MAX - 1 - kind.unwrap_or_else(|| panic!("no {name} on this bench"))] = amount;
        self
    }

    /// It has this attribute, such as [`GROUP`](crate::attributes::GROUP); without, it is unknown.
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.insert(name.to_owned(), value.to_owned());
        self
    }

    /// It needs this many whole nodes.
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.job.nodes = nodes;
        self
    }

    /// It requests this duration in seconds, which may be infinite.
    pub fn duration(mut self, seconds: f64) -> Self {
        self.job.duration = seconds;
        self
    }

    /// Its actual run time in seconds; by default the requested duration.
    pub fn really(mut self, seconds: f64) -> Self {
        self.real_duration = Some(seconds);
        self
    }

    /// Its RFC 27 priority.
    pub fn priority(mut self, priority: u32) -> Self {
        self.job.priority = priority;
        self
    }

    /// The submitting user.
    pub fn userid(mut self, userid: u32) -> Self {
        self.job.userid = userid;
        self
    }

    /// Its time of submission in seconds, by default now. It is pending at once in any case.
    pub fn submitted_at(mut self, time: f64) -> Self {
        self.job.t_submit = time;
        self
    }

    /// Its queue by name.
    pub fn queue(mut self, name: &str) -> Self {
        self.job.queue = self.bench.queue_index(name);
        self
    }

    /// Submits the job: it is pending from now on.
    ///
    /// # Panics
    /// The id is in use.
    pub fn submit(self) {
        let (bench, waiting) = self.finish();
        let id = waiting.job.id;
        let known = bench.pending.iter().any(|other| other.job.id == id);
        assert!(!known && !bench.running.iter().any(|job| job.id == id), "job {id} exists already");
        bench.pending.push(waiting);
        bench.unkeyed.insert(id);
        bench.note(id, bench.now, Happened::Pending);
    }

    /// Starts the job: it holds its resources from now on, without a decision of a policy.
    ///
    /// # Panics
    /// It does not fit on the free resources.
    pub fn running(self) {
        let (bench, waiting) = self.finish();
        let free = bench.room().less(capacity::used_at(&bench.held(), bench.now));
        assert!(waiting.need.within(free), "job {} does not fit on what is free", waiting.job.id);
        bench.begin(waiting);
    }

    fn finish(self) -> (&'a mut Bench, Waiting) {
        let JobBuilder { bench, job, real_duration, flows, attributes } = self;
        let whole = job.nodes.saturating_mul(bench.cores_per_node());
        let need = Need { cores: job.cores.max(whole), gpus: job.gpus, flows };
        let real_duration = real_duration.unwrap_or(job.duration);
        (bench, Waiting { job, need, real_duration, key: 0.0, attributes })
    }
}
