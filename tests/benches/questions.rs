//! `gaps` and `when` asked before the submission of 1,000 jobs of a log: how many shapes and jobs were said to start at once and
//! did, and the error of `when` by horizon beside that of the forecast. Policies are components.
//!
//! Arguments choose logs and policies: `cargo xtask bench --bench questions -- KTH easy`. `FLUXGATE_BENCH_MOMENTS` is the
//! number of jobs.

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::asked::Asking;
use fluxgate_sim::calibration::{Calibrated, Errors, HORIZONS};
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::fair;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::fixture::{note, policies, shared};

const LOGS: [&str; 3] = ["KTH-SP2-1996-2.1-cln", "SDSC-BLUE-2000-4.2-cln", "HPC2N-2002-2.1-cln"];
const POLICIES: [&str; 4] = ["fcfs", "easy", "conservative", "sjf"];
const SEED: u64 = 1;

fn of<'a>(found: &'a Calibrated, horizon: &str) -> Option<&'a Errors> {
    found.errors.iter().find(|errors| errors.horizon == horizon)
}

fn figures(errors: Option<&Errors>) -> String {
    let Some(e) = errors else { return "0 | | | | ".to_owned() };
    let (early, late) = (100.0 * e.early, 100.0 * e.late);
    format!("{} | {:.0} | {:.0} | {early:.0} % | {late:.0} %", e.count, e.median_s, e.abs_s.mean)
}

#[allow(clippy::print_stdout)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |of: &[&'static str]| {
        let some = of.iter().filter(|one| arguments.iter().any(|argument| one.starts_with(argument)));
        let some: Vec<&str> = some.copied().collect();
        if some.is_empty() { of.to_vec() } else { some }
    };
    let moments = std::env::var("FLUXGATE_BENCH_MOMENTS").ok().and_then(|count| count.parse().ok());
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    for log in chosen(&LOGS) {
        let Some(path) = shared(&format!("data/swf/{log}.swf.gz")) else { continue };
        let workload = Workload::load(&path, &Options::default()).expect("the log is good");
        let machine = Machine::from_header(&workload.header).expect("the header tells the machine");
        let places = fair::draw(workload.jobs.len(), moments.unwrap_or(1000), SEED);
        for name in chosen(&POLICIES) {
            let compiled = loader
                .compile_file(&policies().join(format!("{name}.wasm")))
                .expect("run `cargo xtask policies`");
            let policy =
                || Box::new(compiled.instantiate(&Default::default()).expect("it starts")) as Box<dyn Policy>;
            let surroundings = Surroundings::default();
            let resources = &machine.resources;
            let asking =
                Asking { jobs: &workload.jobs, surroundings: &surroundings, resources, policy: &policy };
            let found = asking.ask(&places, driver::replay_config()).expect("the replay runs");
            println!(
                "\n{log}, {name}: asked {} times; {} shapes and {} jobs said to start at once, {} of these did not; {} more \
                 jobs would have started at once\n",
                found.moments,
                found.boxes,
                found.free,
                found.broken.len(),
                found.untold
            );
            found.broken.iter().for_each(|broken| note(broken));
            println!(
                "| horizon | `when` | median | mean without sign | early | late | forecast | median | mean without sign | early | late |"
            );
            println!("|--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
            for horizon in std::iter::once("all").chain(HORIZONS.map(|(name, _)| name)) {
                let [when, forecast] =
                    [&found.when, &found.forecast].map(|found| figures(of(found, horizon)));
                println!("| {horizon} | {when} | {forecast} |");
            }
        }
    }
}
