//! Machines of Alea: a file `LOG.machines` with a cluster a line, fields apart by tabulators: number, name, nodes, cores of
//! a node, speed, memory of a node in kB (none without it), and partition.
//!
//! Nodes are named by their cluster, as `seth-0`, and ranked in the order of lines. Run times do not depend on places, so all
//! clusters must have the same speed. The partition and the fields after it are not used.
//!
//! This module does not know the workload's jobs.

use std::collections::BTreeSet;

use fluxgate_graph::{GraphBuilder, GraphError, Ids, Pool, Resources, SIZE_MAX};

use super::MAX_CORES;
use crate::memory::MEMORY;
use crate::swf::quoted;

/// Most nodes of all clusters together.
pub const NODES_MAX: u32 = 1 << 20;

const FIELDS: &str = "number, name, nodes, cores of a node, speed, and perhaps memory in kB";

struct Cluster<'a> {
    name: &'a str,
    nodes: u32,
    cores: u32,
    memory_kb: Option<u64>,
}

/// True if a text begins like one of these.
pub(super) fn begins(text: &str) -> bool {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    matches!(fields.as_slice(), [id, _, nodes, cores, ..] if [id, nodes, cores].into_iter().all(|field| number(field)))
}

/// The machine of a text, all nodes down.
///
/// # Errors
/// Line and field, what was found and what is accepted.
pub fn read(text: &str) -> Result<Resources, String> {
    let mut clusters: Vec<Cluster<'_>> = Vec::new();
    let mut speed: Option<&str> = None;
    let mut names = BTreeSet::new();
    let (mut nodes, mut cores) = (0_u64, 0_u64);
    for (line, number) in text.lines().zip(1_u64..) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str, found: &str, accepted: &str| {
            format!("line {number}: {what}: found {}, accepted is {accepted}", quoted(found))
        };
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [_, name, of_nodes, of_cores, fast, more @ ..] = fields.as_slice() else {
            return Err(wrong("fields", line, FIELDS));
        };
        let whole = |what: &str, found: &str| {
            let value = found.parse().ok().filter(|value| (1..=MAX_CORES).contains(value));
            value.ok_or_else(|| wrong(what, found, &format!("a whole number from 1 to {MAX_CORES}")))
        };
        let named =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !named {
            return Err(wrong("name", name, "letters, digits, -, _ and ."));
        }
        if !names.insert(*name) {
            return Err(wrong("name", name, "a name that no earlier line has"));
        }
        if *speed.get_or_insert(fast) != *fast {
            let accepted = "the speed of the first line: run times do not depend on nodes";
            return Err(wrong("speed", fast, accepted));
        }
        let memory_kb = match more.first().filter(|found| !found.is_empty()) {
            None => None,
            Some(found) => {
                let value = found.parse().ok().filter(|kb| (1..=SIZE_MAX).contains(kb));
                let accepted = || format!("kB, a whole number from 1 to {SIZE_MAX}");
                Some(value.ok_or_else(|| wrong("memory", found, &accepted()))?)
            }
        };
        let cluster = Cluster {
            name,
            nodes: whole("nodes", of_nodes)?,
            cores: whole("cores of a node", of_cores)?,
            memory_kb,
        };
        nodes += u64::from(cluster.nodes);
        cores += u64::from(cluster.nodes) * u64::from(cluster.cores);
        if cores > u64::from(MAX_CORES) || nodes > u64::from(NODES_MAX) {
            let accepted = format!("at most {MAX_CORES} cores on {NODES_MAX} nodes of all clusters");
            return Err(wrong("machine", line, &accepted));
        }
        clusters.push(cluster);
    }
    built(&clusters).map_err(|error| error.to_string())
}

fn built(clusters: &[Cluster<'_>]) -> Result<Resources, GraphError> {
    let mut graph = GraphBuilder::new();
    let [cluster, node, core, memory, kb] =
        ["cluster", "node", "core", MEMORY, "kB"].map(|name| graph.name(name));
    let mut root = Pool::new(cluster, Ids::one(0));
    root.name = graph.name("alea");
    let root = graph.add(root)?;
    let mut rank = 0;
    for cluster in clusters {
        for number in 0..cluster.nodes {
            let mut pool = Pool::new(node, Ids::one(rank));
            (pool.rank, pool.name) = (Some(rank), graph.name(&format!("{}-{number}", cluster.name)));
            let pool = graph.add(pool)?;
            graph.contain(root, pool);
            let cores = graph.add(Pool::new(core, Ids::Range { first: 0, count: cluster.cores }))?;
            graph.contain(pool, cores);
            if let Some(kb_of_node) = cluster.memory_kb {
                let mut held = Pool::new(memory, Ids::one(0));
                (held.size, held.unit) = (kb_of_node, kb);
                let held = graph.add(held)?;
                graph.contain(pool, held);
            }
            rank += 1;
        }
    }
    Ok(Resources::from_graph(graph.finish()?))
}

#[cfg(test)]
mod tests {
    use super::super::Machine;

    /// RES-20: the two files with Alea whose form differs: with carriage returns and a partition, and without.
    #[test]
    fn res_20_clusters_of_alea() {
        let text = "0\tizewura\t20\t80\t1\t529426432\n1\tizegox\t48\t12\t1\t94035968\n";
        let machine = Machine::parse(text).unwrap();
        assert_eq!((machine.cores.len(), machine.total_cores()), (68, 20 * 80 + 48 * 12));
        assert_eq!((machine.cores[&19].len(), machine.cores[&20].len()), (80, 12));
        let r = machine.resources.to_r_all();
        assert_eq!(r.nodelist.to_string(), "izewura-[0-19],izegox-[0-47]");
        assert_eq!(machine.memory.on(19), 529_426_432_000);
        assert_eq!(machine.memory.on(20), 94_035_968_000);
        let demo = Machine::parse("0\tFIT-demo-cluster\t16\t16\t1\t67108864\t30\t\r\n").unwrap();
        assert_eq!((demo.cores.len(), demo.total_cores()), (16, 256));
        let bare = Machine::parse("\n7\tseth\t120\t2\t1\n").unwrap();
        assert_eq!((bare.total_cores(), bare.memory.is_empty()), (240, true));
    }

    #[test]
    fn res_20_clusters_that_are_not_good() {
        let first = "0\ta\t2\t4\t1\t1000\n";
        let rows = [
            ("1\tb\t2\n", "line 2: fields: found `1\\tb\\t2`, accepted is number, name, nodes"),
            ("1\tb\tmany\t4\t1\n", "line 2: nodes: found `many`, accepted is a whole number from 1 to"),
            ("1\tb\t2\t0\t1\n", "line 2: cores of a node: found `0`, accepted is"),
            ("1\tb\t2\t4\t2\n", "line 2: speed: found `2`, accepted is the speed of the first line"),
            ("1\ta\t2\t4\t1\n", "line 2: name: found `a`, accepted is a name that no earlier line has"),
            ("1\tb [0]\t2\t4\t1\n", "line 2: name: found `b [0]`, accepted is letters"),
            ("1\tb\t2\t4\t1\tmuch\n", "line 2: memory: found `much`, accepted is kB"),
            ("1\tb\t16777216\t16777216\t1\n", "line 2: machine: found"),
        ];
        for (line, expected) in rows {
            let error = Machine::parse(&format!("{first}{line}")).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
}
