//! How long a checkpoint of the journal stops scheduling, at 1 k, 100 k and 1 M waiting jobs on a full machine of 8,192 nodes
//! with a running job on each; the cost of the next events while the record is not written yet; and the work of the journal's
//! thread on the record.
//!
//! The files fill with changes of priorities. Each line is the best of three checkpoints.

use std::sync::Arc;
use std::time::Instant;

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{JobId, R};
use fluxgate_graph::Resources;
use fluxgate_journal::{Appender, LocalDisk, Options, Recorded, Writer};

const NODES: u64 = 8192;
/// Bytes of the journal for each waiting job, so that a checkpoint leaves room for records after it.
const JOB_BYTES: u64 = 64;
/// Bytes of the smallest journal, which has room for the running jobs.
const JOURNAL_BYTES_MIN: u64 = 16 << 20;
/// Changes of priorities after a checkpoint whose time is taken.
const AFTER: u64 = 1000;
const CHECKPOINTS: usize = 3;

fn machine() -> Resources {
    let r = serde_json::json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-8191", "children": {"core": "0-63"}}],
            "nodelist": ["n[0-8191]"], "starttime": 0, "expiration": 0,
        },
    });
    let mut resources = Resources::from_r(&R::from_value(&r).expect("an R")).expect("a machine");
    let all = resources.to_r_all().ranks();
    resources.set_up(&all);
    resources
}

/// This many nodes for this many hours.
fn job(nodes: u32, hours: u64) -> Arc<Jobspec> {
    let command = vec!["x".to_owned()];
    let simple =
        Simple { nodes: Some(nodes), slots: nodes, cores_per_slot: 64, command, ..Simple::default() };
    Arc::new(Simple { duration: 3600.0 * hours as f64, ..simple }.build())
}

struct Site {
    engine: Recorded,
    appender: Appender,
    depth: u64,
    changes: u64,
}

impl Site {
    fn submit(&mut self, number: u64, jobspec: Arc<Jobspec>) {
        let id = JobId(number << 24);
        let event = Event::Alloc { id, priority: 16, userid: number as u32 % 500, t_submit: 1.0, jobspec };
        drop(self.engine.step(event, 1.0));
    }

    /// Another priority for a waiting job.
    fn change(&mut self) {
        self.changes += 1;
        let id = JobId((NODES + self.changes * 7919 % self.depth) << 24);
        // Priorities that do not compress, so that the file is full after fewer changes.
        let priority = (self.changes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32;
        drop(self.engine.step(Event::Prioritize { jobs: vec![(id, priority)] }, 1.0));
    }

    /// Milliseconds of this many changes.
    fn changes_ms(&mut self, count: u64) -> f64 {
        let begin = Instant::now();
        (0..count).for_each(|_| self.change());
        begin.elapsed().as_secs_f64() * 1e3
    }

    /// Fills the file. Milliseconds: the stop of scheduling, the changes after it, the record.
    fn checkpoint(&mut self) -> [f64; 3] {
        loop {
            (0..100).for_each(|_| self.change());
            self.appender.pump(0.0);
            let begin = Instant::now();
            drop(self.engine.keep_journal(true, 1.0));
            let stopped = begin.elapsed().as_secs_f64() * 1e3;
            if self.engine.figures().is_some_and(|figures| figures.waiting > 0) {
                let after = self.changes_ms(AFTER);
                let begin = Instant::now();
                self.appender.pump(0.0);
                return [stopped, after, begin.elapsed().as_secs_f64() * 1e3];
            }
        }
    }
}

#[allow(clippy::print_stdout)]
fn main() {
    println!("| waiting | scheduling stops, ms | {AFTER} changes before, ms | after, ms | record, ms |");
    println!("|--:|--:|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        let dir = tempfile::tempdir().expect("a folder");
        let bytes_max = JOURNAL_BYTES_MIN.max(depth * JOB_BYTES);
        let options = Options { bytes_max, ..Options::new(dir.path().join("j")) };
        let (writer, appender) = Writer::on(Box::<LocalDisk>::default(), &options).expect("a journal");
        let engine = Recorded::new(Engine::new(machine(), Config::default()), Some(writer), 0.0);
        let mut site = Site { engine, appender, depth, changes: 0 };
        for number in 0..NODES {
            site.submit(number, job(1, 24));
            for action in site.engine.pass(1.0) {
                if let Action::Start { id, .. } = action {
                    drop(site.engine.step(Event::Committed { id }, 1.0));
                }
            }
            site.appender.pump(0.0);
        }
        assert_eq!(site.engine.running() as u64, NODES);
        for number in 0..depth {
            site.submit(NODES + number, job(1 + (number % 64) as u32, 1 + number % 16));
            // Where a file is full, nothing more is written before a checkpoint.
            drop(site.engine.keep_journal(true, 1.0));
            site.appender.pump(0.0);
        }
        drop(site.engine.pass(1.0));
        assert_eq!(site.engine.pending() as u64, depth);
        let before = site.changes_ms(AFTER);
        let mut best = [f64::INFINITY; 3];
        for _ in 0..CHECKPOINTS {
            for (best, found) in best.iter_mut().zip(site.checkpoint()) {
                *best = best.min(found);
            }
        }
        assert_eq!(site.engine.figures().map(|figures| figures.dropped), Some(0));
        let [stopped, after, record] = best;
        println!("| {depth} | {stopped:.1} | {before:.1} | {after:.1} | {record:.0} |");
    }
}
