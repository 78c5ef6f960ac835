//! Queries of a policy about resources beside nodes, cores and gpus: storage, memory, licences.
//!
//! Must never know the purpose of a query.

use std::sync::Arc;

use fluxgate_graph::ResourceKind;

use super::Pass;
use crate::policy_error::PolicyError;

impl Pass {
    /// The kinds of resources beside nodes, cores, GPUs and flow, staged decisions included; [`Pass::resources_asked`] numbers
    /// them in this order.
    pub fn resource_kinds(&self) -> Arc<[ResourceKind]> {
        self.core.resources.resource_kinds()
    }

    /// The least units of each kind that the candidate takes, 0 for kinds that it does not request.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass.
    pub fn resources_asked(&mut self, candidate: u32) -> Result<Vec<u64>, PolicyError> {
        self.known(candidate)?;
        let Some(job) = self.core.job(candidate) else { return self.bad("no such job".to_owned()) };
        Ok(self.core.resources.resources_asked(&job.request))
    }
}
