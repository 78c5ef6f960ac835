//! Machines from flags.

use anyhow::Result;
use fluxgate_formats::rset::RLite;
use fluxgate_formats::{Hostlist, Idset, R};

/// `nodes` equal nodes, named node0, node1 ...
pub(crate) fn uniform(nodes: u32, cores: u32, gpus: u32) -> Result<R> {
    let hosts: Hostlist = match nodes {
        1 => "node0".parse()?,
        n => format!("node[0-{}]", n - 1).parse()?,
    };
    let ids = |count: u32| {
        let mut set = Idset::new();
        if count > 0 {
            set.insert_range(0..=count - 1);
        }
        set
    };
    let mut children = std::collections::BTreeMap::from([("core".to_owned(), ids(cores))]);
    if gpus > 0 {
        children.insert("gpu".to_owned(), ids(gpus));
    }
    Ok(R { r_lite: vec![RLite { rank: ids(nodes), children }], nodelist: hosts, ..R::default() })
}
