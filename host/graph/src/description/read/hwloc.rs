//! Reading the XML of hwloc, version 1 or 2: one machine.
//!
//! # Interpretations
//!
//! - Objects are arranged as hwloc arranges them (`tree`): groups and caches that only repeat the level above or
//!   below are left out. NUMA nodes are beside the objects that they serve, also in version 1.
//! - These objects are kept: the machine as `node` (named by its info `HostName`), groups, NUMA nodes, packages
//!   (`socket`), data caches (`cache`, sized in KiB), cores, processing units, co-processors (`gpu`) and block
//!   devices with a size (`storage`, sized in GB). Objects inside any other one belong to the nearest of these above
//!   it.
//! - Ids count the objects of a type through the machine, groups within their level and storage among all devices.
//!   Ids of gpus are those in their names (`cuda0`, `rsmi2`, `opencl0d1`).

mod tree;

use roxmltree::{Document, Node};

use crate::description::error::LoadError;
use crate::description::model::{CONTAINMENT, Relation};
use crate::description::place::Format;
use crate::description::runs::Description;
use crate::description::vertex::Pool;

use super::r::split;
use tree::{Kind, MACHINE, Tree};

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("hwloc", place, what)
}

/// The machine that a topology describes.
pub(crate) fn load(text: &str, allow: Option<&[&str]>) -> Result<Description, LoadError> {
    let text = strip_doctype(text);
    let options = roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: 1 << 22, ..Default::default() };
    let document = Document::parse_with_options(&text, options)
        .map_err(|e| fault(format!("line {}", e.pos().row), e.to_string()))?;
    let root = document.root_element();
    let machine = root.children().find(|n| is_object(*n) && n.attribute("type") == Some("Machine"));
    let machine = match machine.filter(|_| root.tag_name().name() == "topology") {
        Some(machine) => machine,
        None => {
            let what = format!(
                "<{}> without an object of type Machine found; a topology with one is needed",
                root.tag_name().name()
            );
            return Err(fault("line 1", what));
        }
    };
    let mut made = Description::new(Format::Hwloc);
    let cluster = made.add_pool(Pool::new("cluster", 0)).map_err(|e| fault("text", e.to_string()))?;
    let tree = Tree::new(&document, machine)?;
    let mut reader = Reader { document: &document, made, allow, next_rank: 0 };
    reader.object(&tree, MACHINE, cluster)?;
    let mut made = reader.made;
    made.roots.insert(CONTAINMENT.to_owned(), cluster);
    made.settle();
    Ok(made)
}

/// Removes the document type without declarations that hwloc writes. Any other document type is left in, and refused.
fn strip_doctype(text: &str) -> String {
    let Some(start) = text.find("<!DOCTYPE") else { return text.to_owned() };
    let Some(end) = text[start..].find('>') else { return text.to_owned() };
    if text[start..start + end].contains('[') {
        return text.to_owned();
    }
    // Spaces keep the line numbers.
    let blank: String =
        text[start..=start + end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    format!("{}{blank}{}", &text[..start], &text[start + end + 1..])
}

fn is_object(node: Node<'_, '_>) -> bool {
    node.is_element() && node.tag_name().name() == "object"
}

struct Reader<'d, 'x> {
    document: &'d Document<'x>,
    made: Description,
    allow: Option<&'d [&'d str]>,
    next_rank: i64,
}

impl Reader<'_, '_> {
    fn object(&mut self, tree: &Tree<'_, '_>, at: usize, parent: u32) -> Result<(), LoadError> {
        let object = tree.object(at);
        let node = object.node;
        let line = self.document.text_pos_at(node.range().start).row;
        let place = format!("line {line}: object '{}'", node.attribute("type").unwrap_or(""));
        let within = match self.pool(object.kind, object.index, node, &place)? {
            None => parent,
            Some(pool) => {
                let id = self.made.add_pool(pool).map_err(|e| fault(&*place, e.to_string()))?;
                let joined = self.made.connect_row(parent, id, 1, &Relation::contains());
                joined.map_err(|e| fault(&*place, e.to_string()))?;
                id
            }
        };
        for child in tree.children(at) {
            self.object(tree, child, within)?;
        }
        Ok(())
    }

    /// The pool for an object, if the object is kept.
    fn pool(
        &mut self,
        kind: Kind,
        id: i64,
        node: Node<'_, '_>,
        place: &str,
    ) -> Result<Option<Pool>, LoadError> {
        let (kind, basename) = match kind {
            Kind::Machine => ("node", "node".to_owned()),
            Kind::Group(..) => ("group", "group".to_owned()),
            Kind::Memory => ("numanode", "numanode".to_owned()),
            Kind::Package => ("socket", "socket".to_owned()),
            Kind::Core => ("core", "core".to_owned()),
            Kind::Pu => ("pu", "pu".to_owned()),
            Kind::Cache(level @ 1..=3, false) => ("cache", format!("L{level}cache")),
            Kind::Device => ("device", "device".to_owned()),
            Kind::Cache(..) | Kind::Other | Kind::Through => return Ok(None),
        };
        if kind == "device" {
            return self.device(id, node, place);
        }
        let known = if kind == "cache" { basename.as_str() } else { kind };
        if !self.allows(known) {
            return Ok(None);
        }
        let mut pool = Pool::new(kind, id);
        pool.basename = basename;
        if kind == "cache" {
            pool.size = (number(node, "cache_size", place)?.unwrap_or(0) / 1024).max(1);
        }
        if kind == "node" {
            let Some(host) = info(node, "HostName") else { return Ok(None) };
            let (basename, id) = split(host).map_err(|what| fault(place, what))?;
            (pool.basename, pool.id) = (basename.to_owned(), id);
            pool.name = host.to_owned();
            pool.rank = self.next_rank;
            self.next_rank += 1;
        }
        Ok(Some(pool))
    }

    fn device(&self, id: i64, node: Node<'_, '_>, place: &str) -> Result<Option<Pool>, LoadError> {
        let name = node.attribute("name").unwrap_or("");
        // Version 2 numbers the kinds of devices as version 1 does: 0 block, 1 gpu, 5 co-processor.
        match node.attribute("osdev_type") {
            Some("5") if self.allows("gpu") => Ok(Some(Pool::new("gpu", device_id(name)))),
            Some("1") if name.starts_with("rsmi") && self.allows("gpu") => {
                Ok(Some(Pool::new("gpu", device_id(name))))
            }
            Some("0") if self.allows("storage") => {
                let Some(size) = info(node, "Size") else { return Ok(None) };
                let kilobytes: u64 = size
                    .parse()
                    .map_err(|_| fault(place, format!("Size '{size}' found; a number is accepted")))?;
                let mut pool = Pool::new("storage", id);
                pool.size = (kilobytes / 1_000_000).max(1);
                pool.unit = "GB".to_owned();
                let device = info(node, "LinuxDeviceID").unwrap_or("-1");
                pool.properties = vec![("LinuxDeviceID".to_owned(), device.to_owned())];
                Ok(Some(pool))
            }
            _ => Ok(None),
        }
    }

    fn allows(&self, type_: &str) -> bool {
        self.allow.is_none_or(|allow| allow.contains(&type_))
    }
}

fn info<'n>(node: Node<'n, '_>, name: &str) -> Option<&'n str> {
    let infos = node.children().filter(|n| n.is_element() && n.tag_name().name() == "info");
    infos.filter(|n| n.attribute("name") == Some(name)).find_map(|n| n.attribute("value"))
}

fn number(node: Node<'_, '_>, key: &str, place: &str) -> Result<Option<u64>, LoadError> {
    let Some(text) = node.attribute(key) else { return Ok(None) };
    let wrong = |_| fault(place, format!("{key} '{text}' found; a number is accepted"));
    text.parse().map(Some).map_err(wrong)
}

/// The number in the name of a device; -1 without one.
fn device_id(name: &str) -> i64 {
    let digits = match name.strip_prefix("opencl") {
        Some(rest) => rest.split_once('d').map_or("", |(_, device)| device),
        None => name.trim_start_matches(|c: char| !c.is_ascii_digit()),
    };
    digits.parse().unwrap_or(-1)
}
