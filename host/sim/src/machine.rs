//! The machine of a replay: from the log's header, in words, or from a file.
//!
//! From a header: MaxProcs processors become cores, spread evenly over MaxNodes nodes (with a remainder, the first
//! nodes have one more). Without MaxNodes every core is a node of its own, without MaxProcs every node has one core.
//!
//! This module does not know the workload's jobs.

use std::path::Path;

use fluxgate_formats::rset::Children;
use fluxgate_formats::{Idset, R};
use fluxgate_graph::Resources;

use crate::flow::{Pools, TAKEN};
use crate::memory::{MEMORY, Memory};
use crate::schedule::{Cores, cores_of};
use crate::swf::Header;

pub mod alea;

/// Maximum number of cores of a machine from a header: far beyond any machine of the Parallel Workloads Archive, and
/// small enough that a typing error does not exhaust memory.
pub const MAX_CORES: u32 = 16 << 20;

/// Largest machine file, in bytes.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// The machine of a replay.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The graph, with all nodes up and no allocation.
    pub resources: Resources,
    /// The cores of each rank, for the sweep.
    pub cores: Cores,
    /// The pools of flow, for the sweep.
    pub pools: Pools,
    /// The memory of nodes, for the sweep.
    pub memory: Memory,
    /// The same cores as one pool, for runs that need no places; `None` for a machine that has more than nodes and cores, or is of
    /// a file.
    pub pool: Option<Resources>,
}

/// A machine cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The header does not describe one.
    #[error(
        "the log's header has neither MaxProcs nor MaxNodes: name the machine with --machine, as 256 (single cores), 128x8 (nodes of \
         cores) or 128x8+4gpu, or as a file with R, JGF or TOML"
    )]
    Unknown,
    /// The header is contradictory.
    #[error(
        "the log's header: found MaxNodes {nodes} and MaxProcs {procs}, accepted is 1 <= MaxNodes <= MaxProcs <= {MAX_CORES}"
    )]
    Header {
        /// MaxNodes, 0 if missing.
        nodes: u32,
        /// MaxProcs, 0 if missing.
        procs: u32,
    },
    /// Words do not describe one.
    #[error(
        "machine `{text}`: accepted is CORES, NODESxCORES or NODESxCORES+Ngpu, with numbers of at least 1 and at most \
         {MAX_CORES} cores and gpus, or a file"
    )]
    Words {
        /// The words.
        text: String,
    },
    /// Whole nodes are requested, but they are not all equal.
    #[error(
        "procs=nodes: found nodes of {least} to {most} cores, accepted is a machine whose nodes have equally many"
    )]
    Unequal {
        /// Cores of the smallest node.
        least: u32,
        /// Cores of the largest.
        most: u32,
    },
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a machine.
    #[error("{file}: {message}")]
    Load {
        /// The file.
        file: String,
        /// The error of its reader.
        message: String,
    },
}

impl Machine {
    /// Makes the machine that the header of a log describes.
    ///
    /// # Errors
    /// The header has neither MaxProcs nor MaxNodes, or contradicts itself.
    pub fn from_header(header: &Header) -> Result<Self, MachineError> {
        let (nodes, procs) = match (header.max_nodes, header.max_procs) {
            (None, None) => return Err(MachineError::Unknown),
            (Some(n), None) => (n, n),
            (None, Some(p)) => (p, p),
            (Some(n), Some(p)) => (n, p),
        };
        if !fits(nodes, procs) {
            let (nodes, procs) = (header.max_nodes.unwrap_or(0), header.max_procs.unwrap_or(0));
            return Err(MachineError::Header { nodes, procs });
        }
        Self::uniform(nodes, procs)
    }

    /// Makes `nodes` nodes with `cores` cores together, of which the first have one more where they cannot be spread evenly.
    ///
    /// # Errors
    /// [`MachineError::Load`]: a number is 0 or above the bound, there are more nodes than cores, or the graph of these resources cannot
    /// be made.
    pub fn uniform(nodes: u32, cores: u32) -> Result<Self, MachineError> {
        let invalid =
            |message: String| MachineError::Load { file: "machine of the header".to_owned(), message };
        if !fits(nodes, cores) {
            return Err(invalid(format!(
                "found {nodes} nodes with {cores} cores, accepted is 1 <= nodes <= cores <= {MAX_CORES}"
            )));
        }
        let pool = Resources::one_pool(nodes, cores).map_err(|e| invalid(e.to_string()))?;
        let made = Self::from_resources(
            Resources::from_r(&uniform_r(nodes, cores, 0)).map_err(|e| invalid(e.to_string()))?,
        )?;
        Ok(Self { pool: Some(pool), ..made })
    }

    /// Makes the machine of `text`: `256` is 256 nodes of one core, `128x8` is 128 nodes of 8 cores each, and
    /// `128x8+4gpu` has 4 gpus in each of them. `None` if the text does not begin with a digit or is a path.
    ///
    /// # Errors
    /// It has another form, or a number out of range.
    pub fn in_words(text: &str) -> Option<Result<Self, MachineError>> {
        if !text.starts_with(|c: char| c.is_ascii_digit()) || text.contains(['/', '.']) {
            return None;
        }
        let number = |text: &str| text.parse().ok().filter(|n: &u32| (1..=MAX_CORES).contains(n));
        let parsed = || {
            let (counts, gpus) = match text.split_once('+') {
                Some((counts, gpus)) => (counts, number(gpus.strip_suffix("gpu")?)?),
                None => (text, 0),
            };
            let (nodes, cores) = match counts.split_once('x') {
                Some((nodes, cores)) => (number(nodes)?, number(cores)?),
                None => (number(counts)?, 1),
            };
            let fits = |each: u32| nodes.checked_mul(each).filter(|all| *all <= MAX_CORES);
            fits(gpus)?;
            Some((nodes, fits(cores)?, gpus))
        };
        let wrong = || MachineError::Words { text: text.to_owned() };
        let made = parsed().ok_or_else(wrong).and_then(|(nodes, cores, gpus)| {
            if gpus == 0 {
                return Self::uniform(nodes, cores);
            }
            let resources = Resources::from_r(&uniform_r(nodes, cores, gpus)).map_err(|_| wrong())?;
            Self::from_resources(resources)
        });
        Some(made)
    }

    /// Reads a file with R, JGF (a JSON object with `graph`), TOML (`[[resource.config]]`), or [clusters](alea) of Alea.
    ///
    /// # Errors
    /// The file cannot be read, has more than [`MAX_FILE_BYTES`], is none of these, or has no node.
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let file = path.display().to_string();
        let io_error = |source| MachineError::Io { file: file.clone(), source };
        let size = std::fs::metadata(path).map_err(io_error)?.len();
        let failed = |message: String| MachineError::Load { file: file.clone(), message };
        if size > MAX_FILE_BYTES {
            return Err(failed(format!("found {size} bytes, accepted is at most {MAX_FILE_BYTES}")));
        }
        let text = std::fs::read_to_string(path).map_err(io_error)?;
        Self::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let resources = if alea::begins(text) {
            alea::read(text)?
        } else if !text.trim_start().starts_with('{') {
            Resources::from_toml(text).map_err(|e| e.to_string())?
        } else {
            let value: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
            if value.get("graph").is_some() {
                Resources::from_jgf(text).map_err(|e| e.to_string())?
            } else {
                let r = R::from_value(&value).map_err(|e| e.to_string())?;
                Resources::from_r(&r).map_err(|e| e.to_string())?
            }
        };
        if resources.totals().nodes == 0 {
            return Err("no node found; at least one is needed".to_owned());
        }
        Self::from_resources(resources).map_err(|e| e.to_string())
    }

    /// Makes a machine of resources; all nodes are up. It always succeeds.
    pub fn from_resources(mut resources: Resources) -> Result<Self, MachineError> {
        let r = resources.to_r_all();
        resources.set_up(&r.ranks());
        let memory = Memory::of(resources.node_rows().filter_map(|node| {
            let holds = node.holds.iter().find(|holds| holds.kind == MEMORY)?;
            Some((node.rank, holds.amount, holds.unit))
        }));
        Ok(Self { resources, cores: cores_of(&r), pools: Pools::of(&r), memory, pool: None })
    }

    /// The same nodes with one pool for all of them of each kind: name, size and unit (empty: none). Without a kind nothing changes.
    ///
    /// # Errors
    /// [`MachineError::Load`]: the name of a kind has another meaning or is there twice, or a unit is not accepted.
    pub fn with_pools(self, pools: &[(String, u64, String)]) -> Result<Self, MachineError> {
        if pools.is_empty() {
            return Ok(self);
        }
        let failed =
            |message: String| MachineError::Load { file: "pools of the machine".to_owned(), message };
        if let Some((name, ..)) = pools.iter().find(|(name, ..)| TAKEN.contains(&name.as_str())) {
            return Err(failed(format!("{name} is no name for what flows")));
        }
        let mut r = self.resources.to_r_all();
        let hosts = r.nodelist.to_string();
        let pool = |(name, size, unit): &(String, u64, String)| {
            let pools = serde_json::json!([{"name": name, "size": size, "hosts": hosts}]);
            let mut kind = serde_json::Map::from_iter([("pools".to_owned(), pools)]);
            if !unit.is_empty() {
                kind.insert("unit".to_owned(), unit.as_str().into());
            }
            (name.clone(), serde_json::Value::Object(kind))
        };
        let flow: serde_json::Map<_, _> = pools.iter().map(pool).collect();
        if flow.len() < pools.len() {
            return Err(failed("one kind is named twice".to_owned()));
        }
        r.scheduling = Some(serde_json::json!({"writer": "fluxgate", "flow": flow}));
        let machine = Self::from_resources(Resources::from_r(&r).map_err(|e| failed(e.to_string()))?)?;
        match machine.pools.kinds.len() == pools.len() {
            true => Ok(machine),
            false => Err(failed("a kind has the name of something else in the machine".to_owned())),
        }
    }

    /// Number of cores of each node.
    ///
    /// # Errors
    /// [`MachineError::Unequal`]: nodes have different numbers, or there is none.
    pub fn cores_per_node(&self) -> Result<u32, MachineError> {
        let counts = self.cores.values().map(|ids| u32::try_from(ids.len()).unwrap_or(u32::MAX));
        let (least, most) = counts.fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        if least == most { Ok(most) } else { Err(MachineError::Unequal { least, most }) }
    }

    /// Number of cores of all nodes.
    pub fn total_cores(&self) -> u64 {
        self.cores.values().map(|ids| ids.len()).sum()
    }
}

/// True if each of these nodes can have a core, and there are not too many.
fn fits(nodes: u32, cores: u32) -> bool {
    (1..=cores).contains(&nodes) && cores <= MAX_CORES
}

/// RFC 20 R of the machine: `cores` over all nodes, `gpus` in each.
fn uniform_r(nodes: u32, cores: u32, gpus: u32) -> R {
    let (each, more) = (cores / nodes, cores % nodes);
    R::from_nodes((0..nodes).map(|rank| {
        let last = if rank < more { each } else { each - 1 };
        let mut ids = Idset::new();
        ids.insert_range(0..=last);
        let mut children = Children::from([("core".to_owned(), ids)]);
        if let Some(last) = gpus.checked_sub(1) {
            let mut ids = Idset::new();
            ids.insert_range(0..=last);
            children.insert("gpu".to_owned(), ids);
        }
        (rank, format!("node{rank}"), children)
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn header(nodes: Option<u32>, procs: Option<u32>) -> Header {
        Header { max_nodes: nodes, max_procs: procs, ..Header::default() }
    }

    #[test]
    fn machines_of_headers() {
        let rows = [
            (Some(240), Some(240), 240, 240),
            (Some(144), Some(1152), 144, 1152),
            (Some(100), None, 100, 100),
            (None, Some(64), 64, 64),
            (Some(3), Some(8), 3, 8),
            (Some(1), Some(1), 1, 1),
        ];
        for (n, p, nodes, cores) in rows {
            let m = Machine::from_header(&header(n, p)).unwrap();
            assert_eq!((m.cores.len(), m.total_cores()), (nodes, cores), "{n:?} {p:?}");
            let totals = m.resources.totals();
            assert_eq!(u64::from(totals.free_cores), cores);
        }
    }

    #[test]
    fn headers_without_machine() {
        let message = |n, p| Machine::from_header(&header(n, p)).unwrap_err().to_string();
        assert!(message(None, None).contains("neither MaxProcs nor MaxNodes"));
        assert!(message(Some(8), Some(4)).contains("found MaxNodes 8 and MaxProcs 4"));
        assert!(message(Some(0), None).contains("found MaxNodes 0"));
        assert!(message(None, Some(u32::MAX)).contains("MaxProcs 4294967295"));
    }

    #[test]
    fn machines_of_every_kind_of_file() {
        let r = uniform_r(4, 16, 0).to_json();
        let toml = "[[resource.config]]\nhosts = \"a[0-3]\"\ncores = \"0-3\"\n".to_owned();
        // Core ids repeat in every socket, as published graphs have it.
        let mut nodes = vec![json!({"id": "c", "metadata": {"type": "cluster", "id": 0}})];
        let mut edges = Vec::new();
        let mut add = |parent: &str, id: &str, kind: &str, number: u32, rank: u32| {
            nodes.push(json!({"id": id, "metadata": {"type": kind, "id": number, "rank": rank}}));
            edges.push(json!({"source": parent, "target": id, "metadata": {"subsystem": "containment"}}));
        };
        for n in 0..4 {
            add("c", &format!("n{n}"), "node", n, n);
            for s in 0..2 {
                add(&format!("n{n}"), &format!("s{n}{s}"), "socket", s, n);
                for c in 0..2 {
                    add(&format!("s{n}{s}"), &format!("c{n}{s}{c}"), "core", c, n);
                }
            }
        }
        let jgf = json!({"graph": {"nodes": nodes, "edges": edges}}).to_string();
        for text in [r, toml, jgf] {
            let machine = Machine::parse(&text).unwrap();
            assert_eq!((machine.cores.len(), machine.total_cores()), (4, 16), "{text}");
            assert_eq!(machine.resources.totals().free_cores, 16);
        }
    }

    /// RES-11: a machine without a file.
    #[test]
    fn res_11_machines_in_words() {
        let of = |text: &str| {
            let totals = Machine::in_words(text).unwrap().unwrap().resources.totals();
            (totals.nodes, totals.free_cores, totals.free_gpus)
        };
        assert_eq!(of("256"), (256, 256, 0));
        assert_eq!(of("128x8"), (128, 1024, 0));
        assert_eq!(of("4x2+3gpu"), (4, 8, 12));
        for text in ["0", "4x", "4x0", "4x2+", "4x2+gpu", "4x2+3", "99999999", "65536x65536", "4 x 2"] {
            let error = Machine::in_words(text).unwrap().unwrap_err().to_string();
            assert!(error.contains("accepted is CORES, NODESxCORES"), "{text}: {error}");
        }
        assert!(Machine::in_words("cluster.toml").is_none() && Machine::in_words("2/m.json").is_none());
        let error = Machine::from_header(&header(None, None)).unwrap_err().to_string();
        assert!(error.contains("128x8") && error.contains("a file"), "{error}");
    }

    #[test]
    fn nodes_of_equally_many_cores() {
        assert_eq!(Machine::uniform(4, 16).unwrap().cores_per_node().unwrap(), 4);
        for (nodes, cores) in [(0, 0), (0, 4), (5, 4), (1, MAX_CORES + 1)] {
            let said = Machine::uniform(nodes, cores).map(drop).unwrap_err().to_string();
            assert!(said.contains(&format!("found {nodes} nodes with {cores} cores, accepted is")), "{said}");
        }
        let message = Machine::uniform(3, 16).unwrap().cores_per_node().unwrap_err().to_string();
        assert!(message.contains("found nodes of 5 to 6 cores"), "{message}");
    }

    #[test]
    fn machines_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.json");
        std::fs::write(&path, uniform_r(4, 16, 0).to_json()).unwrap();
        assert_eq!(Machine::load(&path).unwrap().total_cores(), 16);
        std::fs::write(&path, "{\"version\": 9}").unwrap();
        assert!(matches!(Machine::load(&path), Err(MachineError::Load { .. })));
        std::fs::write(&path, "{").unwrap();
        let message = Machine::load(&path).unwrap_err().to_string();
        assert!(message.contains("m.json") && message.contains("line 1"), "{message}");
        assert!(matches!(Machine::load(&dir.path().join("none")), Err(MachineError::Io { .. })));
    }
}
