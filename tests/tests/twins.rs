//! The same policy, compiled natively and as a component, decides the same, job for job.

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::crank::{made_up, schedule};
use fluxgate_tests::fixture::{policies, shared};
use fluxgate_tests::native_twin::NativeTwin;

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
    let workload = made_up(2000);
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
