//! The places of policies that place jobs, against a list of nodes: `packing` on nodes in use, `topology` in one node
//! or rack that has enough.

use std::collections::BTreeMap;

use fluxgate_engine::Policy;
use fluxgate_formats::JobId;
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::sweep::sweep;
use fluxgate_sim::workload::{self, Job};
use fluxgate_tests::native_twin::NativeTwin;
use proptest::prelude::*;
use serde_json::json;

/// Nodes of a rack, and cores of a node. There are three racks.
const RACK: u32 = 4;
const NODE: u32 = 4;

/// Racks, nodes and cores as a graph.
fn racks() -> Machine {
    let mut nodes = vec![json!({"id": "c", "metadata": {"type": "cluster", "id": 0}})];
    let mut edges = Vec::new();
    let mut add = |parent: String, id: &str, kind: &str, number: u32, rank: Option<u32>| {
        nodes.push(
            json!({"id": id, "metadata": {"type": kind, "id": number, "rank": rank.map_or(-1, i64::from)}}),
        );
        edges.push(json!({"source": parent, "target": id, "metadata": {"subsystem": "containment"}}));
    };
    for rack in 0..3 {
        add("c".to_owned(), &format!("r{rack}"), "rack", rack, None);
        for rank in rack * RACK..(rack + 1) * RACK {
            add(format!("r{rack}"), &format!("n{rank}"), "node", rank, Some(rank));
            for core in 0..NODE {
                add(format!("n{rank}"), &format!("n{rank}c{core}"), "core", core, Some(rank));
            }
        }
    }
    let text = json!({"graph": {"nodes": nodes, "edges": edges}}).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.json");
    std::fs::write(&file, text).unwrap();
    Machine::load(&file).unwrap()
}

prop_compose! {
    /// Jobs of some cores on any nodes; the machine is seldom full for long.
    fn workloads()(fields in prop::collection::vec((0..8_u32, 1..24_u32, 1..30_u32), 1..60)) -> Vec<Job> {
        let mut submit = 0.0;
        let mut jobs: Vec<Job> = fields.into_iter().zip(1..).map(|((gap, cores, length), id)| {
            submit += f64::from(gap);
            // More small ones than large ones.
            let cores = if cores > 12 { cores } else { 1 + cores % 5 };
            let (limit, run) = (f64::from(length), f64::from(length));
            Job::new(JobId(id), submit, cores, limit, run)
        }).collect();
        workload::sort(&mut jobs);
        jobs
    }
}

/// The cores of a job on each node, by rank.
type Place = BTreeMap<u32, u64>;

/// Every start in order, with the free cores of each node before it, and its place.
fn starts(jobs: &[Job], policy: Box<dyn Policy>) -> Vec<(u64, Vec<u64>, Place)> {
    let machine = racks();
    let mut rows = Collect::default();
    let config = driver::replay_config();
    driver::run(jobs.iter().copied(), machine.resources.clone(), config, Some(policy), &mut [&mut rows])
        .unwrap();
    let report = sweep(&machine.cores, jobs, &[], &rows.rows);
    assert!(report.ok(), "{:?}", report.first);
    assert_eq!(rows.rows.len(), jobs.len());
    let place =
        |row: &Row| row.cores.iter().flatten().map(|(rank, ids)| (*rank, ids.len())).collect::<Place>();
    let mut list = Vec::new();
    for (at, row) in rows.rows.iter().enumerate() {
        let mut free = vec![u64::from(NODE); (3 * RACK) as usize];
        for other in rows.rows[..at].iter().filter(|other| other.end > row.start) {
            place(other).into_iter().for_each(|(rank, cores)| free[rank as usize] -= cores);
        }
        let place = place(row);
        list.push((place.values().sum(), free, place));
    }
    list
}

/// Free cores, before the job, of its nodes; least first.
fn chosen(free: &[u64], place: &Place) -> Vec<u64> {
    let mut chosen: Vec<u64> = place.keys().map(|rank| free[*rank as usize]).collect();
    chosen.sort_unstable();
    chosen
}

/// In one node, the fullest that has enough; else in one rack, the one with least spare cores; else anywhere; and
/// there on the nodes with most free cores.
fn close(cores: u64, free: &[u64], place: &Place) {
    if let Some(fullest) = free.iter().copied().filter(|n| *n >= cores).min() {
        assert_eq!(chosen(free, place), [fullest], "{cores} cores of {free:?}: {place:?}");
        return;
    }
    let racks: Vec<&[u64]> = free.chunks(RACK as usize).collect();
    let room = |rack: &[u64]| rack.iter().sum::<u64>();
    let tightest = racks.iter().map(|rack| room(rack)).filter(|room| *room >= cores).min();
    let mut part = free.to_vec();
    if let Some(tightest) = tightest {
        let mut of: Vec<u32> = place.keys().map(|rank| rank / RACK).collect();
        of.dedup();
        assert_eq!(of.len(), 1, "{cores} cores of {free:?} are in more than one rack: {place:?}");
        let rack = racks[of[0] as usize];
        assert_eq!(
            room(rack),
            tightest,
            "{cores} cores of {free:?}: another rack has less to spare: {place:?}"
        );
        part = rack.to_vec();
    }
    part.sort_unstable();
    let mut left = cores;
    let most: Vec<u64> = part
        .into_iter()
        .rev()
        .take_while(|n| {
            let more = left > 0;
            left = left.saturating_sub(*n);
            more
        })
        .collect();
    let taken: Vec<u64> = chosen(free, place).into_iter().rev().collect();
    assert_eq!(taken, most, "{cores} cores of {free:?} are not on few nodes: {place:?}");
}

proptest! {
    #[test]
    fn topology_keeps_jobs_together(jobs in workloads()) {
        let policy = NativeTwin::<policy_topology::Topology>::new(&[]).unwrap();
        for (cores, free, place) in starts(&jobs, Box::new(policy)) {
            close(cores, &free, &place);
        }
    }

    #[test]
    fn packing_keeps_nodes_idle(jobs in workloads()) {
        let policy = NativeTwin::<policy_packing::Packing>::new(&[]).unwrap();
        for (cores, free, place) in starts(&jobs, Box::new(policy)) {
            if cores >= u64::from(NODE) {
                close(cores, &free, &place);
                continue;
            }
            // The fullest nodes, as many as necessary.
            let mut fullest: Vec<u64> = free.iter().copied().filter(|n| *n > 0).collect();
            fullest.sort_unstable();
            let mut left = cores;
            fullest.retain(|n| {
                let more = left > 0;
                left = left.saturating_sub(*n);
                more
            });
            prop_assert_eq!(chosen(&free, &place), fullest, "{} cores of {:?}: {:?}", cores, free, place);
        }
    }
}
