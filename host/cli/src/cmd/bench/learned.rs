//! Entries of trained networks: which of them a task does not rank.
//!
//! Must never know how a policy is run.

use anyhow::{Context, Result, anyhow};
use fluxgate_languages::weights::{Weights, of_component};
use sha2::{Digest, Sha256};

use super::cell::Prepared;
use crate::policy_source::PolicySource;

/// The weights of a component.
pub(super) struct Learned {
    weights: Weights,
    /// SHA-256 of the file of weights.
    pub(super) sha256: String,
}

impl Learned {
    /// The weights of this component, if it was made of some.
    pub(super) fn of(source: &PolicySource, name: &str) -> Result<Option<Learned>> {
        let (path, bytes) = source.take(name)?;
        Learned::read(&bytes).with_context(|| path.display().to_string())
    }

    /// The same of its bytes.
    pub(super) fn read(component: &[u8]) -> Result<Option<Learned>> {
        let Some(file) = of_component(component).map_err(|wrong| anyhow!(wrong))? else { return Ok(None) };
        let weights = Weights::read(&file).map_err(|wrong| anyhow!("its weights: {wrong}"))?;
        let sha256 = Sha256::digest(&file).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Learned { weights, sha256 }))
    }

    /// The reason, if there is one, not to rank it on the jobs of this task.
    pub(super) fn unranked(&self, prepared: &Prepared<'_>) -> Option<String> {
        let trained = self.weights.trained_on();
        let numbers = prepared.parts.iter().filter_map(|part| {
            let numbers = || part.jobs.iter().map(|job| job.id.0);
            Some((numbers().min()?, numbers().max()?))
        });
        if numbers.into_iter().any(|jobs| trained.iter().any(|trained| trained.saw(&prepared.log, jobs))) {
            return Some("trained on this log".to_owned());
        }
        let wanted = &prepared.trained_on;
        let right = !trained.is_empty() && trained.iter().all(|trained| wanted.contains(&trained.log));
        let names = || prepared.task.trained_on.join(", ");
        (!wanted.is_empty() && !right).then(|| format!("not trained on {} alone", names()))
    }
}
