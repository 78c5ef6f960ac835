//! Steps a second of the environment `Pick`: `cargo run --release -p fluxgate-environments --example steps`.
//!
//! Ten sequences of 1,024 jobs of a generated log, 128 rows of eight features, written into one buffer at each step; the
//! shortest request is picked.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use fluxgate_environments::deciding::Picking;
use fluxgate_environments::episode::{Episode, Given};
use fluxgate_environments::player::Answer;
use fluxgate_environments::reward::Metric;
use fluxgate_environments::world::Rows;
use fluxgate_networks::features::{Scales, Set};
use fluxgate_networks::model::View;
use fluxgate_networks::pick::{Backfill, Mode};
use fluxgate_networks::window::Rule;
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::model::lublin99;
use fluxgate_sim::rules::Semantics;

const ROWS: usize = 128;
const LENGTH: usize = 1024;
const SEQUENCES: usize = 10;

fn main() -> io::Result<()> {
    let view =
        View { set: Set::RlScheduler1, scales: Scales::default(), rows: ROWS, rule: Rule::Interleaved };
    let machine = Machine::uniform(256, 256).map_err(io::Error::other)?;
    let mut rules = Semantics::RlScheduler.rules();
    rules.set_all("commit=no,backfill=policy").map_err(io::Error::other)?;
    let surroundings = Arc::new(Surroundings { rules, ..Surroundings::default() });
    let log = lublin99(LENGTH * SEQUENCES, 256, 1);
    let (mut values, mut allowed) = (vec![0.0; ROWS * view.set.width()], vec![false; ROWS]);
    let (mut steps, mut waiting) = (0u64, 0u64);
    let begin = Instant::now();
    for jobs in log.chunks(LENGTH) {
        let decider = Picking::new(view, Mode::Commit, Backfill::None, true, false);
        let player = Box::new(Rows::new(Box::new(decider)));
        let reward = (Metric::BoundedSlowdown(10.0), Given::Terminal);
        let episode = Episode::new(jobs.to_vec(), &machine, Arc::clone(&surroundings), player, reward);
        let mut episode = episode.map_err(io::Error::other)?;
        while !episode.is_over() {
            episode.write(&mut values, &mut allowed);
            waiting += episode.waiting() as u64;
            let rows = allowed.iter().zip(values.chunks_exact(view.set.width())).enumerate();
            let shortest =
                rows.filter(|(_, (allowed, _))| **allowed).min_by(|a, b| a.1.1[1].total_cmp(&b.1.1[1]));
            episode.act(Answer::Action(shortest.map_or(0, |(row, _)| row))).map_err(io::Error::other)?;
            steps += 1;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mean = waiting as f64 / steps as f64;
    writeln!(
        io::stdout(),
        "{steps} steps in {seconds:.2} s, {:.0} a second; {mean:.0} jobs waited on average",
        steps as f64 / seconds
    )
}
