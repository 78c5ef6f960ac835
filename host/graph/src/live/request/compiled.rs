//! Requests of the resource sections that were compiled last, without a constraint, so that jobs that ask for the same cost one
//! compilation. Large sections are not remembered.
//!
//! Must never know how a request is compiled.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fluxgate_formats::jobspec::{Count, Resource};
use rustc_hash::FxHashMap;

use super::Request;

/// Most requests that are remembered by their resource section.
const KEPT_MAX: usize = 8192;
/// Most addresses of resource sections that are remembered.
const ADDRESSES_MAX: usize = 4096;
/// Most bytes of a resource section that is remembered.
const BYTES_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Compiled {
    by_hash: HashMap<u64, Vec<Arc<Known>>>,
    count: usize,
    /// By the address at which a resource section was last. Jobs of a log share theirs, and a comparison costs less than a hash.
    at: FxHashMap<usize, Arc<Known>>,
}

#[derive(Debug)]
struct Known {
    resources: Vec<Resource>,
    request: Arc<Request>,
}

impl Compiled {
    /// The request of a resource section, or the hash under which it is to be [kept](Self::keep).
    pub(super) fn find(&mut self, resources: &[Resource]) -> Result<Arc<Request>, u64> {
        let address = resources.as_ptr() as usize;
        if let Some(known) = self.at.get(&address).filter(|known| known.resources == resources) {
            return Ok(known.request.clone());
        }
        let mut hasher = DefaultHasher::new();
        resources.hash(&mut hasher);
        let hash = hasher.finish();
        let mut list = self.by_hash.get(&hash).into_iter().flatten();
        let known = list.find(|known| known.resources == resources).ok_or(hash)?.clone();
        let request = known.request.clone();
        self.place(address, known);
        Ok(request)
    }

    /// Remembers a request that was not found.
    pub(super) fn keep(&mut self, hash: u64, resources: &[Resource], request: &Arc<Request>) {
        if resources.iter().map(bytes).sum::<usize>() > BYTES_MAX {
            return;
        }
        if self.count >= KEPT_MAX {
            *self = Compiled::default();
        }
        let known = Arc::new(Known { resources: resources.to_vec(), request: request.clone() });
        self.by_hash.entry(hash).or_default().push(known.clone());
        self.count += 1;
        self.place(resources.as_ptr() as usize, known);
    }

    fn place(&mut self, address: usize, known: Arc<Known>) {
        if self.at.len() >= ADDRESSES_MAX {
            self.at.clear();
        }
        self.at.insert(address, known);
    }
}

/// Bytes of a vertex and those below it; sets of counts are of any length.
fn bytes(resource: &Resource) -> usize {
    let texts = [&resource.unit, &resource.label, &resource.id];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let own = match resource.count {
        Count::Fixed(_) | Count::Range { .. } => size_of::<Resource>() + resource.type_.len() + texts,
        _ => BYTES_MAX + 1,
    };
    own + resource.with.iter().map(bytes).sum::<usize>()
}
