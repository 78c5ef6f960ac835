//! The example graphs in docs/graphs: they load, and the statements of their page are true.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fluxgate_formats::jobspec::{Checks, Jobspec};

use super::names;
use crate::matching::{Item, Matcher, Miss, Op, Policy, Setup};
use fluxgate_graph::description::{Direction, Model};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/graphs")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn figure(name: &str) -> Model {
    Model::load(&text(&format!("{name}.json")), None).unwrap()
}

fn matcher(name: &str) -> Matcher {
    let setup = Setup { policy: Policy::parse("low").unwrap(), ..Setup::default() };
    Matcher::new(figure(name), &setup).unwrap()
}

/// The selection for a request of the folder.
fn run(matcher: &mut Matcher, request: &str, op: Op, job: u64) -> Result<Vec<String>, Miss> {
    let jobspec = Jobspec::from_yaml_with(&text(request), Checks::Scheduling).unwrap();
    let request = matcher.compile(&jobspec);
    let matched = matcher.run(&request, op, job, 0)?;
    let vertices = matched.booked.items.iter().filter_map(|item| match item {
        Item::Vertex { vertex, .. } => Some(*vertex),
        Item::Edge { .. } => None,
    });
    Ok(names(matcher.model(), &vertices.collect::<Vec<_>>()))
}

/// Names and free units of the vertices of a flow, in the order of the file.
fn left(matcher: &Matcher, subsystem: &str) -> Vec<(String, u64)> {
    let model = matcher.model();
    let (all, _) = model.subsystem(subsystem).unwrap();
    let free = |v| {
        let size = model.vertex(v).unwrap().size();
        (1..=size).rev().find(|n| matcher.route(subsystem, v, v, *n, (0, 10)).is_ok()).unwrap_or(0)
    };
    all.into_iter().map(|v| (names(model, &[v]).remove(0), free(v))).collect()
}

#[test]
fn all_example_graphs_load_and_are_saved_without_loss() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let model = Model::load(&std::fs::read_to_string(&path).unwrap(), None);
            let model = model.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(Model::from_jgf(&model.to_jgf().to_string()).unwrap().to_jgf(), model.to_jgf());
            count += 1;
        }
    }
    assert_eq!(count, 8);
    let both = figure("figure2");
    let (switches, edges) = both.subsystem("io").unwrap();
    assert_eq!(both.edge(edges[0]).unwrap().direction, Direction::Both);
    let io = both.name("io").unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(both.steps(switches[from], io).collect::<Vec<_>>(), [switches[to]]);
    }
    // Figure 3 repeats the edges of figure 1.
    assert_eq!(figure("figure3").to_jgf()["graph"]["edges"], figure("figure1").to_jgf()["graph"]["edges"]);
}

/// M4-20: Nic1 is in containment and in the I/O subsystem, and one request constrains both.
#[test]
fn m4_20_and_m4_18_figure_6_one_request_for_a_node_cores_and_bandwidth() {
    let mut matcher = matcher("figure6");
    let model = matcher.model();
    let nic = model.at_path("/Cluster/Rack1/Node9/Nic1");
    assert_eq!(nic, model.at_path("/PFS1/CoreSwitch1/EdgeSwitch3/Nic1"));
    let subsystems: BTreeSet<&str> = model.paths(nic[0]).iter().map(|(name, _)| model.text(*name)).collect();
    assert_eq!(subsystems, ["containment", "io"].into());
    let units = |m: &Matcher| left(m, "io").into_iter().map(|(_, n)| n).collect::<Vec<_>>();
    assert_eq!(units(&matcher), [10, 8, 5, 4]);
    // Node7 is the first with free cores; only Node9 has a path to the file system.
    let got = run(&mut matcher, "io.yaml", Op::Allocate, 1).unwrap();
    assert_eq!(got, ["core0", "core1", "Node9", "Rack1", "Cluster"]);
    assert_eq!(units(&matcher), [7, 5, 2, 1], "every hop is debited");
    // Node9 has two more cores, but the hops to it have too little left: nothing is debited.
    assert_eq!(run(&mut matcher, "io.yaml", Op::Allocate, 2), Err(Miss::Busy));
    assert_eq!(units(&matcher), [7, 5, 2, 1]);
    assert!(run(&mut matcher, "io.yaml", Op::Satisfiability, 3).is_ok());
    matcher.cancel(1).unwrap();
    assert_eq!(units(&matcher), [10, 8, 5, 4], "released exactly");
}

/// M16-18 and M4-18: power through conduits, in one request with nodes and cores.
#[test]
fn m16_18_power_capped_at_the_rack_refuses_a_third_node_though_its_cores_are_free() {
    let mut matcher = matcher("power");
    for job in 1..=2 {
        run(&mut matcher, "power.yaml", Op::Allocate, job).unwrap();
    }
    assert_eq!(left(&matcher, "power")[0], ("pdu0".to_owned(), 2));
    assert_eq!(run(&mut matcher, "power.yaml", Op::Allocate, 3), Err(Miss::Busy));
    let free = matcher.holding("type=core and sched-now=free").unwrap().len();
    assert_eq!(free, 8);
    matcher.cancel(1).unwrap();
    assert!(run(&mut matcher, "power.yaml", Op::Allocate, 3).is_ok());
}
