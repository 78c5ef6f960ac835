//! `fluxgate bench verify FOLDER`: the table of a submission, made of its component.
//!
//! Must never change the folder.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fluxgate_sim::suite::submission::{FILE, FILE_BYTES_MAX, Submission};

use super::args::How;
use super::learned::Learned;
use super::run::{self, Added, Wanted};
use super::verify::Compared;
use crate::policy_source::PolicySource;
use crate::render;

/// The results that a submission may hold.
const RESULTS: &str = "results.json";

/// Check a submission, run it, print its table, and compare it with its results if it has some.
pub(super) fn verify(
    folder: &Path,
    file: Option<&str>,
    how: &How,
    seed: Option<u64>,
    (out, as_json): (Option<&Path>, bool),
) -> Result<()> {
    let path = folder.join(FILE);
    let text = super::read(&path, FILE_BYTES_MAX)?;
    let told =
        Submission::parse(&text).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())?;
    let mut faults = told.faults();
    let named = file.unwrap_or(&told.suite);
    let suite = super::suite(named);
    match &suite {
        Ok(suite) => faults.extend(told.not_for(suite)),
        Err(error) => faults.push(format!("suite: {error}")),
    }
    let component = folder.join(&told.component);
    // A name that leads out of the folder is a fault, and is not followed.
    if !told.component.contains(['/', '\\']) {
        faults.extend(component_faults(&told, &component, how));
    }
    if !faults.is_empty() {
        bail!("{}: the submission is not valid:\n{}", path.display(), faults.join("\n"));
    }
    let kept = folder.join(RESULTS);
    let kept = if kept.exists() { Some(super::results(&kept)?) } else { None };
    // Without --seed a submission is run with the seed of its results.
    let seed = seed.or_else(|| kept.as_ref().and_then(|kept| kept.seed));
    let draw = seed.map_or_else(String::new, |seed| format!(" --seed {seed}"));
    let command = Some(format!("fluxgate bench verify FOLDER{draw} --logs DIR"));
    let added = Added { entry: told.entry(), file: Some(component), command };
    let wanted = Wanted { added: vec![added], seed, ..Wanted::default() };
    let results = run::suite(&suite?, named, how, &wanted)?;
    super::tell(&results, out, as_json)?;
    let own = || results.tasks.iter().flat_map(|task| &task.entries).filter(|entry| entry.entry == told.name);
    if own().count() > 0 && own().all(|entry| entry.unranked.is_some()) {
        bail!("{}: no task of {} ranks it; the table has the reason", path.display(), told.suite);
    }
    let Some(kept) = kept else { return Ok(()) };
    let compared = Compared::of(&kept, &results);
    if !as_json {
        render::line(format!("{} results are those of {RESULTS}", compared.equal))?;
    }
    compared.outcome().with_context(|| folder.join(RESULTS).display().to_string())
}

/// Faults of the component.
fn component_faults(told: &Submission, path: &Path, how: &How) -> Vec<String> {
    let name = &told.component;
    let learned = || -> Result<Option<Learned>> {
        let source = PolicySource::open(how.policies.as_deref())?;
        let named = path.display().to_string();
        source.compile(&named)?;
        Learned::of(&source, &named)
    };
    let learned = match learned() {
        Ok(learned) => learned,
        Err(error) => return vec![format!("component: {error:#}")],
    };
    let fault = match (learned.map(|learned| learned.sha256), &told.weights_sha256) {
        (Some(found), Some(said)) if found == *said => None,
        (None, None) => None,
        (Some(found), Some(said)) => {
            Some(format!("weights-sha256: found {said}, but the weights in {name} have {found}"))
        }
        (Some(found), None) => Some(format!("weights-sha256: not there; the weights in {name} have {found}")),
        (None, Some(said)) => Some(format!("weights-sha256: found {said}, but {name} holds no weights")),
    };
    fault.into_iter().collect()
}
