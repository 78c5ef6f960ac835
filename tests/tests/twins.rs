//! The same policy, compiled natively and as a component, decides the same, job for job.

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::fixture::{policies, shared};
use fluxgate_tests::native_twin::NativeTwin;

fn schedule(workload: &Workload, machine: &Machine, policy: Box<dyn Policy>) -> Vec<Row> {
    let mut rows = Collect::default();
    let jobs = workload.jobs.iter().copied();
    driver::run(jobs, machine.resources.clone(), driver::replay_config(), Some(policy), &mut [&mut rows])
        .expect("the replay runs");
    rows.rows
}

fn native(name: &str) -> Box<dyn Policy> {
    match name {
        "fcfs" => Box::new(NativeTwin::<policy_fcfs::Fcfs>::new(&[]).unwrap()),
        "easy" => Box::new(NativeTwin::<policy_easy::Easy>::new(&[]).unwrap()),
        "sjf" => Box::new(NativeTwin::<policy_sjf::Sjf>::new(&[]).unwrap()),
        other => panic!("no twin of {other}"),
    }
}

fn compare(workload: &Workload, machine: &Machine) {
    let loader = Loader::new(Limits::default(), None).unwrap();
    for name in ["fcfs", "easy", "sjf"] {
        let file = policies().join(format!("{name}.wasm"));
        let component = loader.load_file(&file, &Default::default()).expect("run `cargo xtask policies`");
        let one = schedule(workload, machine, Box::new(component));
        let two = schedule(workload, machine, native(name));
        assert_eq!(one.len(), workload.jobs.len());
        assert!(one == two, "{name}: component and native twin differ");
    }
}

#[test]
fn on_a_made_up_log() {
    let mut text = "; MaxNodes: 8\n; MaxProcs: 32\n; UnixStartTime: 0\n".to_owned();
    for i in 0..2000u64 {
        let (run, cores) = (1 + i * 7919 % 400, 1 + i * i % 32);
        let asked = run * (1 + i % 5);
        text +=
            &format!("{} {} -1 {run} {cores} -1 -1 {cores} {asked} -1 1 1 1 -1 1 -1 -1 -1\n", i + 1, i * 60);
    }
    let mut log = fluxgate_sim::swf::Reader::new(text.as_bytes(), "made up");
    let workload = Workload::read(&mut log, &Options::default()).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    compare(&workload, &machine);
}

#[test]
fn on_a_real_log() {
    let Some(path) = shared("data/swf/KTH-SP2-1996-2.1-cln.swf.gz") else { return };
    let workload = Workload::load(&path, &Options { max_jobs: Some(8000), ..Options::default() }).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    compare(&workload, &machine);
}
