//! A policy makes the same decisions, job for job, natively and as a component.

use fluxgate_engine::Policy;
use fluxgate_guest::Exported;
use fluxgate_policy::Limits;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::drive::{made_up, schedule};
use fluxgate_tests::fixture::{SHIPPED, loader, policies, shared};
use fluxgate_tests::native_twin::NativeTwin;

fn native(name: &str) -> Box<dyn Policy> {
    fn twin<P: Exported + Send + 'static>() -> Box<dyn Policy> {
        Box::new(NativeTwin::<P>::new(&[]).unwrap())
    }
    match name {
        "bandwidth-aware" => twin::<policy_bandwidth_aware::BandwidthAware>(),
        "broken" => twin::<policy_broken::Broken>(),
        "conservative" => twin::<policy_conservative::Conservative>(),
        "easy" => twin::<policy_easy::Easy>(),
        "easy-plus-plus" => twin::<policy_easy_plus_plus::EasyPlusPlus>(),
        "fcfs" => twin::<policy_fcfs::Fcfs>(),
        "formula" => twin::<policy_formula::Formula>(),
        "hybrid" => twin::<policy_hybrid::Hybrid>(),
        "ljf" => twin::<policy_ljf::Ljf>(),
        "multifactor" => twin::<policy_multifactor::Multifactor>(),
        "packing" => twin::<policy_packing::Packing>(),
        "power-capped" => twin::<policy_power_capped::PowerCapped>(),
        "priority" => twin::<policy_priority::Priority>(),
        "sjf" => twin::<policy_sjf::Sjf>(),
        "smallest-first" => twin::<policy_smallest_first::SmallestFirst>(),
        "sparing" => twin::<policy_sparing::Sparing>(),
        "topology" => twin::<policy_topology::Topology>(),
        "xf" => twin::<policy_xf::Xf>(),
        other => panic!("no twin of {other}"),
    }
}

fn compare(workload: &Workload, machine: &Machine) {
    let loader = loader(Limits::default());
    for name in SHIPPED {
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
    let workload = Workload::load(&path, &Options { max_jobs: Some(4000), ..Options::default() }).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    compare(&workload, &machine);
}
