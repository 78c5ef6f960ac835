//! A trained policy as a whole: features, rows, network, and the rules of the pass in which it picks.
//!
//! This module knows no format of files: the reader of one fills [`Parts`], and gets each fault in words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::features::{Around, Scales, Set, Waiting};
use crate::network::{Kind, Layer, Network, WEIGHTS_MAX, WIDTH_MAX};
use crate::noise::{gumbel, sampled};
use crate::pick::{Backfill, Mode};
use crate::window::{ROWS_MAX, Rule};

/// The parts of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// Features of a row.
    pub set: Set,
    /// Constants of normalisation.
    pub scales: Scales,
    /// Most rows, 1 to [`ROWS_MAX`].
    pub rows: usize,
    /// Which jobs are rows.
    pub rule: Rule,
}

/// An observation: rows and the jobs that they are of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Features of all [`View::rows`] rows, row after row; rows without a job are padding. An environment may append values.
    pub values: Vec<f32>,
    /// For each row, true if it may be picked; false for padding.
    pub allowed: Vec<bool>,
    /// The jobs of the first rows, at most [`View::rows`].
    pub jobs: Vec<Waiting>,
    /// The state of machine and queue around the jobs.
    pub around: Around,
    /// Number of jobs among which the rows were chosen.
    pub waiting: usize,
}

impl Seen {
    /// The row that may be picked if exactly one may; `None` for no row and for several.
    pub fn only(&self) -> Option<usize> {
        let mut rows = self.allowed.iter().enumerate().filter(|(_, allowed)| **allowed);
        let (row, _) = rows.next()?;
        rows.next().is_none().then_some(row)
    }
}

/// A trained policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The parts of its observations.
    pub view: View,
    /// Its network.
    pub network: Network,
    /// How its picks are carried out.
    pub mode: Mode,
    /// Which jobs start before the one that was picked and has to wait.
    pub backfill: Backfill,
}

/// A dense layer as a file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainLayer {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Weights by output, then input.
    pub weights: Vec<f32>,
    /// A bias for each output.
    pub bias: Vec<f32>,
}

/// A model as texts and numbers, before it is checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts<'a> {
    /// Name of a [`Set`].
    pub features: &'a str,
    /// `NAME=VALUE` of [`Scales`], separated by commas; those that are not named have their defaults.
    pub scales: &'a str,
    /// Number of rows, 1 to [`ROWS_MAX`].
    pub window: &'a str,
    /// Name of a [`Rule`].
    pub rows: &'a str,
    /// Name of a [`Kind`].
    pub network: &'a str,
    /// `relu`, or `none` for a network of one layer.
    pub activation: &'a str,
    /// Name of a [`Mode`].
    pub mode: &'a str,
    /// Name of a [`Backfill`].
    pub backfill: &'a str,
    /// Choice among equal logits: `first`, the first row, is the only value.
    pub ties: &'a str,
    /// Layers, first to last.
    pub layers: Vec<PlainLayer>,
}

/// A fault of a model in words: the field, what was found and what is accepted.
fn wrong(field: &str, found: impl core::fmt::Display, accepted: impl core::fmt::Display) -> String {
    format!("{field}: found `{found}`, accepted is {accepted}")
}

fn one_of<T: Copy>(field: &str, found: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let known = all.iter().copied().find(|each| name(*each) == found);
    known
        .ok_or_else(|| wrong(field, found, all.iter().map(|each| name(*each)).collect::<Vec<_>>().join(", ")))
}

/// Reads `NAME=VALUE,..` of [`Scales`]; constants that are not named have their defaults.
///
/// # Errors
/// The text found and what is accepted.
pub fn scales(text: &str) -> Result<Scales, String> {
    let mut values = Scales::default().values();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let known = pair.split_once('=').and_then(|(name, value)| {
            let at = Scales::NAMES.iter().position(|known| *known == name.trim())?;
            Some((at, value.trim().parse::<f64>().ok()?))
        });
        let accepted = || format!("NAME=NUMBER with a name of {}", Scales::NAMES.join(", "));
        let (at, value) = known.ok_or_else(|| wrong("fluxgate.scales", pair, accepted()))?;
        values[at] = value;
    }
    let accepted = "finite numbers, wait and duration above 0, cores and users of 0 or more";
    Scales::of(values).ok_or_else(|| wrong("fluxgate.scales", text, accepted))
}

impl View {
    /// Writes the observation of these waiting jobs to `seen`. A job with a row may be picked if `allowed` says so; a job
    /// without a row cannot be picked.
    pub fn see(
        &self,
        around: &Around,
        jobs: &[Waiting],
        mut allowed: impl FnMut(&Waiting) -> bool,
        seen: &mut Seen,
    ) {
        let width = self.set.width();
        seen.around = *around;
        seen.waiting = jobs.len();
        seen.values.resize(self.rows * width, 0.0);
        seen.allowed.clear();
        seen.allowed.resize(self.rows, false);
        seen.jobs.clear();
        seen.jobs.extend(self.rule.choose(jobs, self.rows).into_iter().map(|at| jobs[at]));
        for (at, row) in seen.values.chunks_exact_mut(width).enumerate() {
            match seen.jobs.get(at) {
                Some(job) => {
                    self.set.row(job, around, &self.scales, row);
                    seen.allowed[at] = allowed(job);
                }
                None => self.set.pad(row),
            }
        }
    }
}

impl Model {
    /// Checks all parts, and makes the model of them.
    ///
    /// # Errors
    /// The first fault, with field, what was found and what is accepted.
    pub fn of(parts: &Parts<'_>) -> Result<Model, String> {
        let set = one_of("fluxgate.features", parts.features, &Set::ALL, Set::name)?;
        let scales = scales(parts.scales)?;
        let rows = parts.window.parse().ok().filter(|rows| (1..=ROWS_MAX).contains(rows));
        let rows: usize =
            rows.ok_or_else(|| wrong("fluxgate.window", parts.window, format!("1 to {ROWS_MAX}")))?;
        let rule = one_of("fluxgate.rows", parts.rows, &Rule::ALL, Rule::name)?;
        let kind = one_of("fluxgate.network", parts.network, &[Kind::Kernel, Kind::Flat], Kind::name)?;
        let mode = one_of("fluxgate.mode", parts.mode, &Mode::ALL, Mode::name)?;
        let backfill = one_of("fluxgate.backfill", parts.backfill, &Backfill::ALL, Backfill::name)?;
        if mode == Mode::Pass && backfill == Backfill::Frozen {
            return Err(wrong("fluxgate.backfill", "frozen", "none, easy with the mode pass"));
        }
        if parts.ties != "first" {
            return Err(wrong("fluxgate.ties", parts.ties, "first"));
        }
        let one = parts.layers.len() == 1;
        if parts.activation != "relu" && !(one && parts.activation == "none") {
            let accepted = "relu, or none for a network of one layer";
            return Err(wrong("fluxgate.activation", parts.activation, accepted));
        }
        let (inputs, outputs) = match kind {
            Kind::Kernel => (set.width(), 1),
            Kind::Flat => (rows * set.width(), rows),
        };
        let network = network(kind, &parts.layers, (inputs, outputs))?;
        Ok(Model { view: View { set, scales, rows, rule }, network, mode, backfill })
    }

    /// Writes the logits of an observation, by row; a kernel gives none for padding.
    pub fn logits(&self, seen: &Seen, out: &mut Vec<f32>) {
        self.network.logits(&seen.values, self.view.set.width(), seen.jobs.len(), out);
    }

    /// The row with the largest logit, of equal ones the first; `None` where no row may be picked. `logits` gets the logits.
    ///
    /// # Errors
    /// The first allowed row whose logit is NaN.
    pub fn pick(&self, seen: &Seen, logits: &mut Vec<f32>) -> Result<Option<usize>, usize> {
        self.logits(seen, logits);
        crate::network::largest(logits, &seen.allowed)
    }

    /// The row that it picks by chance, with the probability that the softmax of the logits gives it; `None` where none is
    /// allowed. The same for the same seed, number of the decision and jobs; see [`crate::noise`].
    ///
    /// # Errors
    /// The first allowed row whose logit is NaN.
    pub fn sample(
        &self,
        seen: &Seen,
        (seed, decision): (u64, u64),
        logits: &mut Vec<f32>,
    ) -> Result<Option<usize>, usize> {
        self.logits(seen, logits);
        let noise = |row: usize| gumbel(seed, decision, seen.jobs.get(row).map_or(0, |job| job.id));
        sampled(logits, &seen.allowed, noise)
    }
}

fn network(kind: Kind, plain: &[PlainLayer], (inputs, outputs): (usize, usize)) -> Result<Network, String> {
    let mut layers = Vec::with_capacity(plain.len());
    let (mut expected, mut weights) = (inputs, 0);
    for (at, layer) in plain.iter().enumerate() {
        let name = format!("layers.{at}.weight");
        let shape = format!("[{}, {}]", layer.outputs, layer.inputs);
        if layer.inputs != expected {
            let source = match at {
                0 => format!("[.., {expected}], as many inputs as the features give"),
                _ => format!("[.., {expected}], as many inputs as the layer before has outputs"),
            };
            return Err(wrong(&name, shape, source));
        }
        if layer.outputs == 0 || layer.outputs > WIDTH_MAX || layer.inputs > WIDTH_MAX {
            return Err(wrong(&name, shape, format!("1 to {WIDTH_MAX} of each")));
        }
        weights += layer.inputs * layer.outputs;
        if weights > WEIGHTS_MAX {
            return Err(wrong("layers", format!("{weights} weights"), format!("at most {WEIGHTS_MAX}")));
        }
        let finite = |all: &[f32]| all.iter().position(|x| !x.is_finite());
        for (part, values) in [("weight", &layer.weights), ("bias", &layer.bias)] {
            if let Some(bad) = finite(values) {
                let field = format!("layers.{at}.{part}, number {bad}");
                return Err(wrong(&field, values[bad], "a finite number"));
            }
        }
        let made = Layer::new(layer.inputs, layer.outputs, &layer.weights, &layer.bias);
        let accepted = format!("a bias for each of {} outputs", layer.outputs);
        layers.push(made.ok_or_else(|| wrong(&format!("layers.{at}.bias"), layer.bias.len(), accepted))?);
        expected = layer.outputs;
    }
    if expected != outputs || layers.is_empty() {
        let last =
            plain.last().map_or_else(|| "no layer".to_string(), |layer| format!("{} outputs", layer.outputs));
        let why = match kind {
            Kind::Kernel => "1 output of the last layer, the logit of a row".to_string(),
            Kind::Flat => format!("{outputs} outputs of the last layer, one for each row"),
        };
        return Err(wrong("layers", last, why));
    }
    let count = layers.len();
    Network::new(kind, layers)
        .ok_or_else(|| wrong("layers", count, format!("1 to {}", crate::network::LAYERS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn layer(inputs: usize, outputs: usize) -> PlainLayer {
        PlainLayer { inputs, outputs, weights: vec![0.5; inputs * outputs], bias: vec![0.25; outputs] }
    }

    type Change = fn(&mut Parts<'static>);

    fn parts() -> Parts<'static> {
        Parts {
            features: "rlscheduler-1",
            scales: "duration=7200, wait=100",
            window: "4",
            rows: "first",
            network: "kernel",
            activation: "relu",
            mode: "commit",
            backfill: "none",
            ties: "first",
            layers: vec![layer(8, 3), layer(3, 1)],
        }
    }

    #[test]
    fn res_43_each_fault_has_words() {
        let model = Model::of(&parts()).unwrap();
        assert_eq!((model.view.scales.duration, model.view.scales.wait, model.view.rows), (7200.0, 100.0, 4));
        let with = |change: Change| {
            let mut parts = parts();
            change(&mut parts);
            Model::of(&parts).unwrap_err()
        };
        let cases: [(Change, &str); 15] = [
            (|p| p.features = "x", "fluxgate.features: found `x`, accepted is rlscheduler-1, queue-1, gap-1"),
            (
                |p| p.scales = "x=1",
                "fluxgate.scales: found `x=1`, accepted is NAME=NUMBER with a name of wait, duration, cores, users",
            ),
            (|p| p.scales = "wait=0", "fluxgate.scales: found `wait=0`, accepted is finite numbers"),
            (|p| p.window = "0", "fluxgate.window: found `0`, accepted is 1 to 1024"),
            (|p| p.rows = "all", "fluxgate.rows: found `all`, accepted is first, interleaved, split"),
            (|p| p.network = "lenet", "fluxgate.network: found `lenet`, accepted is kernel, flat"),
            (|p| p.activation = "tanh", "fluxgate.activation: found `tanh`, accepted is relu"),
            (|p| p.mode = "wait", "fluxgate.mode: found `wait`, accepted is commit, pass"),
            (|p| p.backfill = "all", "fluxgate.backfill: found `all`, accepted is none, frozen, easy"),
            (
                |p| (p.mode, p.backfill) = ("pass", "frozen"),
                "fluxgate.backfill: found `frozen`, accepted is none, easy",
            ),
            (|p| p.ties = "last", "fluxgate.ties: found `last`, accepted is first"),
            (
                |p| p.layers[0].inputs = 7,
                "layers.0.weight: found `[3, 7]`, accepted is [.., 8], as many inputs as the features",
            ),
            (
                |p| p.layers[1].weights[1] = f32::NAN,
                "layers.1.weight, number 1: found `NaN`, accepted is a finite number",
            ),
            (|p| p.layers.truncate(1), "layers: found `3 outputs`, accepted is 1 output of the last layer"),
            (
                |p| p.layers[0].bias.truncate(2),
                "layers.0.bias: found `2`, accepted is a bias for each of 3 outputs",
            ),
        ];
        for (change, expected) in cases {
            let found = with(change);
            assert!(found.starts_with(expected), "{found}");
        }
        let flat = Parts { network: "flat", layers: vec![layer(32, 4)], activation: "none", ..parts() };
        assert!(Model::of(&flat).is_ok());
    }
}
