//! Queries of a policy about attributes of jobs: memory, group, application, name.
//!
//! Must never know the purpose of a query.

use fluxgate_formats::jobspec::JobAttributes;

use super::Pass;
use crate::policy_error::PolicyError;

impl Pass {
    /// The attributes of a candidate; `None` if none is known. They are kept from the first policy on that
    /// [reads](crate::Policy::reads_attributes) them.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass.
    pub fn attributes(&mut self, candidate: u32) -> Result<Option<&JobAttributes>, PolicyError> {
        self.known(candidate)?;
        if self.core.job(candidate).is_none() {
            return self.bad("no such job".to_owned());
        }
        Ok(self.core.job(candidate).and_then(|job| job.attributes().map(|attributes| &**attributes)))
    }
}
