//! `fluxgate policy verify FILE --recorded RECORDING`: a trained network against decisions that were recorded.
//!
//! The network is run natively, which gives the bits of the component. A recorded decision may come from another way of
//! summing (another library, f64). Two logits count as equal if they differ by less than rounding can change: a
//! disagreement counts only above the bound of the two.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_languages::weights::{RECORDING_BYTES_MAX, Recording, Weights, of_component};
use fluxgate_networks::network::{Kind, largest};
use serde_json::json;

use super::super::answers::said;
use crate::render;

/// Disagreements that are named.
const NAMED: usize = 5;

/// The result of a comparison.
#[derive(Debug, Default)]
struct Found {
    /// Decisions with two or more rows to pick from.
    choices: usize,
    /// Of these, with two equal largest logits.
    ties: usize,
    /// Of these, with a gap of the best two below the bound of rounding; ties included.
    below: usize,
    /// Recorded actions that are not the network's, below the bound.
    excused: usize,
    /// The same above the bound: decision, action, row, gap, bound.
    wrong: Vec<(usize, usize, usize, f64, f64)>,
    /// Smallest gap.
    gap: Option<f64>,
}

/// The weights of a component, or of a file of weights.
fn weights(file: &Path) -> Result<Weights> {
    let named = || file.display().to_string();
    let bytes = std::fs::read(file).with_context(named)?;
    let own = if bytes.starts_with(b"\0asm") {
        let own = of_component(&bytes).map_err(|wrong| anyhow!("{}: {wrong}", file.display()))?;
        own.with_context(|| {
            format!(
                "{}: not made of a file of weights; `policy new --template` makes such policies",
                file.display()
            )
        })?
    } else {
        bytes
    };
    Weights::read(&own).map_err(|wrong| anyhow!("{}: {wrong}", file.display()))
}

/// Compare, print, and fail if the network decides otherwise.
pub(super) fn verify(file: &Path, recorded: &Path, as_json: bool) -> Result<()> {
    let weights = weights(file)?;
    let named = || recorded.display().to_string();
    let size = std::fs::metadata(recorded).with_context(named)?.len();
    if size > RECORDING_BYTES_MAX {
        bail!("{}: has {size} bytes; at most {RECORDING_BYTES_MAX} are accepted", recorded.display());
    }
    let bytes = std::fs::read(recorded).with_context(named)?;
    let recording = Recording::read(&bytes).map_err(|wrong| anyhow!("{}: {wrong}", recorded.display()))?;
    let (rows, width) = (weights.model.view.rows, weights.model.view.set.width());
    if (recording.rows, recording.width) != (rows, width) {
        bail!(
            "{}: observations: found {} rows of {} features, accepted are {rows} of {width}, as the network takes",
            recorded.display(),
            recording.rows,
            recording.width
        );
    }
    let found = compare(&weights, &recording).map_err(|wrong| anyhow!("{}: {wrong}", recorded.display()))?;
    let wrong = found.wrong.iter().map(|(decision, action, row, gap, bound)| {
        json!({"decision": decision, "recorded": action, "network": row, "gap": gap, "bound": bound})
    });
    let answer = json!({
        "decisions": recording.actions.len(), "choices": found.choices, "ties": found.ties,
        "below_bound": found.below, "smallest_gap": found.gap, "differ_below_bound": found.excused,
        "differ": found.wrong.len(), "first": wrong.take(NAMED).collect::<Vec<_>>(),
    });
    said(&answer, as_json, || {
        format!(
            "{} decisions, {} with a choice: {} exact ties, {} with a gap below the bound of rounding (smallest gap {}); \
             {} recorded otherwise below the bound, {} above it",
            recording.actions.len(),
            found.choices,
            found.ties,
            found.below,
            found.gap.map_or_else(|| "none".to_owned(), |gap| format!("{gap:.3e}")),
            found.excused,
            found.wrong.len()
        )
    })?;
    if found.wrong.is_empty() {
        return Ok(());
    }
    if !as_json {
        for (decision, action, row, gap, bound) in found.wrong.iter().take(NAMED) {
            render::line(format!(
                "decision {decision}: recorded is row {action}, the network picks row {row}; gap {gap:.3e}, bound {bound:.3e}"
            ))?;
        }
    }
    bail!(
        "{}: the network decides otherwise in {} of {} decisions",
        recorded.display(),
        found.wrong.len(),
        recording.actions.len()
    )
}

fn compare(weights: &Weights, recording: &Recording) -> Result<Found, String> {
    let (network, width) = (&weights.model.network, recording.width);
    let mut found = Found::default();
    let (mut logits, size) = (Vec::new(), recording.rows * width);
    let decisions = recording
        .observations
        .chunks_exact(size.max(1))
        .zip(recording.masks.chunks_exact(recording.rows.max(1)));
    for (decision, ((values, mask), action)) in decisions.zip(&recording.actions).enumerate() {
        let rows = mask.iter().rposition(|allowed| *allowed).map_or(0, |last| last + 1);
        network.logits(values, width, rows, &mut logits);
        let picked = largest(&logits, mask)
            .map_err(|row| format!("decision {decision}, row {row}: the logit is no number"))?;
        let Some(picked) = picked else { continue };
        let others = (0..logits.len()).filter(|row| mask[*row] && *row != picked);
        let Some(second) = others.max_by(|a, b| logits[*a].total_cmp(&logits[*b])) else { continue };
        found.choices += 1;
        let bound = |row: usize| match network.kind() {
            Kind::Kernel => network.bounds(&values[row * width..(row + 1) * width])[0],
            Kind::Flat => network.bounds(values)[row],
        };
        let gap_to = |row: usize| f64::from(logits[picked]) - f64::from(logits[row]);
        let gap = gap_to(second);
        found.ties += usize::from(gap == 0.0);
        found.below += usize::from(gap <= bound(picked) + bound(second));
        found.gap = Some(found.gap.map_or(gap, |least| least.min(gap)));
        if *action != picked {
            let (gap, bound) = (gap_to(*action), bound(picked) + bound(*action));
            match gap <= bound {
                true => found.excused += 1,
                false => found.wrong.push((decision, *action, picked, gap, bound)),
            }
        }
    }
    Ok(found)
}
