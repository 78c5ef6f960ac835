//! Files of weights: what was trained, with all that a component needs to decide as the training environment did.
//!
//! The format is safetensors (a header of names, shapes and offsets as JSON, then numbers): it is read without running
//! code, and written by most libraries. Layers are the tensors `layers.0.weight` of shape [outputs, inputs] and
//! `layers.0.bias` of shape [outputs], and so on, all F32. The metadata of the file are texts:
//!
//! | key | meaning |
//! |--|--|
//! | `fluxgate.format` | `1` |
//! | `fluxgate.features` | a set of features, such as `rlscheduler-1` |
//! | `fluxgate.scales` | constants of normalisation, as `wait=43200,duration=162754` |
//! | `fluxgate.window`, `fluxgate.rows` | number of rows, and the rule by which jobs become rows |
//! | `fluxgate.network` | `kernel` or `flat` |
//! | `fluxgate.activation` | `relu`; `none` for one layer |
//! | `fluxgate.mode`, `fluxgate.backfill`, `fluxgate.ties` | how picks are carried out |
//! | `fluxgate.environment` | the environment that it was trained in; may be missing |
//! | `fluxgate.trained-on` | logs by SHA-256, separated by commas; may be missing. See [`crate::trained`] |
//!
//! A recording is a file of the same format: `observations` F32 [decisions, rows, features], `masks` U8
//! [decisions, rows], `actions` I64 [decisions].
//!
//! This module reads no file itself.

use std::collections::BTreeMap;

use fluxgate_networks::model::{Model, Parts, PlainLayer};
use fluxgate_networks::network::LAYERS_MAX;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::trained::Trained;

/// The custom section of a component that has the file it was made of.
pub const SECTION: &str = "fluxgate:weights";

/// Largest file, in bytes.
pub const FILE_BYTES_MAX: usize = 64 << 20;

/// Largest recording, in bytes.
pub const RECORDING_BYTES_MAX: u64 = 4 << 30;

/// The version of the format.
const FORMAT: &str = "1";

/// Keys of the metadata that have to be there, beside the format.
const KEYS: [&str; 9] =
    ["features", "scales", "window", "rows", "network", "activation", "mode", "backfill", "ties"];

/// Keys that may be there.
const MORE: [&str; 2] = ["environment", "trained-on"];

/// The place of a layer in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Offset of the weights in the file, in bytes.
    pub weights: usize,
    /// Offset of the biases in the file, in bytes.
    pub bias: usize,
}

/// A file of weights that was checked.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The model that it describes.
    pub model: Model,
    /// Its metadata by key, without the prefix `fluxgate.`; without `format`, and without keys that do not have the prefix.
    pub said: BTreeMap<String, String>,
    /// The places of its layers, first to last.
    pub places: Vec<Place>,
}

impl Weights {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The fault: the field or tensor, what was found and what is accepted.
    pub fn read(file: &[u8]) -> Result<Weights, String> {
        if file.len() > FILE_BYTES_MAX {
            return Err(format!("found {} bytes, accepted are at most {FILE_BYTES_MAX}", file.len()));
        }
        let (header, metadata) = header(file)?;
        let said = said(&metadata)?;
        let (places, layers) = layers(file, header, &metadata)?;
        let text = |key: &str| said.get(key).map_or("", String::as_str);
        let parts = Parts {
            features: text("features"),
            scales: text("scales"),
            window: text("window"),
            rows: text("rows"),
            network: text("network"),
            activation: text("activation"),
            mode: text("mode"),
            backfill: text("backfill"),
            ties: text("ties"),
            layers,
        };
        let model = Model::of(&parts)?;
        Ok(Weights { model, said, places })
    }

    /// The logs that it was trained on; empty if the file does not tell them.
    pub fn trained_on(&self) -> Vec<Trained> {
        let all = self.said.get("trained-on").map_or("", String::as_str);
        Trained::list(all).unwrap_or_default()
    }

    /// A description in one line: kind, widths, features, mode and backfilling.
    pub fn summary(&self) -> String {
        let text = |key: &str| self.said.get(key).map_or("", String::as_str);
        let widths: Vec<String> = std::iter::once(self.model.network.inputs())
            .chain(self.places.iter().map(|place| place.outputs))
            .map(|width| width.to_string())
            .collect();
        format!(
            "A trained network ({} {}, features {}, mode {}, backfill {})",
            text("network"),
            widths.join("-"),
            text("features"),
            text("mode"),
            text("backfill")
        )
    }
}

/// The length of everything before the numbers, and the header.
fn header(file: &[u8]) -> Result<(usize, Metadata), String> {
    let wrong =
        |error: safetensors::SafeTensorError| format!("not a file in the format safetensors: {error}");
    SafeTensors::deserialize(file).map_err(wrong)?;
    let (length, metadata) = SafeTensors::read_metadata(file).map_err(wrong)?;
    Ok((8 + length, metadata))
}

fn said(metadata: &Metadata) -> Result<BTreeMap<String, String>, String> {
    let mut said = BTreeMap::new();
    let all: BTreeMap<&String, &String> = metadata.metadata().iter().flatten().collect();
    for (key, value) in all {
        let Some(key) = key.strip_prefix("fluxgate.") else { continue };
        let known = key == "format" || KEYS.contains(&key) || MORE.contains(&key);
        if !known {
            let accepted: Vec<&str> = KEYS.into_iter().chain(MORE).collect();
            return Err(format!("metadata: found `fluxgate.{key}`, accepted is {}", accepted.join(", ")));
        }
        said.insert(key.to_owned(), value.clone());
    }
    match said.remove("format").as_deref() {
        Some(FORMAT) => {}
        Some(other) => return Err(format!("fluxgate.format: found `{other}`, accepted is {FORMAT}")),
        None => {
            return Err(format!(
                "fluxgate.format: not there, accepted is {FORMAT}; `fluxgate.export` of the Python package writes such files"
            ));
        }
    }
    if let Some(missing) = KEYS.iter().find(|key| !said.contains_key(**key)) {
        return Err(format!("fluxgate.{missing}: not there"));
    }
    let trained = said.get("trained-on").map_or("", String::as_str);
    Trained::list(trained).map_err(|wrong| format!("fluxgate.trained-on: {wrong}"))?;
    Ok(said)
}

/// All layers of a file.
fn layers(file: &[u8], header: usize, metadata: &Metadata) -> Result<(Vec<Place>, Vec<PlainLayer>), String> {
    let tensors: BTreeMap<String, &TensorInfo> = metadata.tensors().into_iter().collect();
    let (mut places, mut layers) = (Vec::new(), Vec::new());
    while let Some(weight) = tensors.get(&format!("layers.{}.weight", places.len())) {
        let name = format!("layers.{}", places.len());
        if places.len() == LAYERS_MAX {
            return Err(format!("{name}.weight: accepted are at most {LAYERS_MAX} layers"));
        }
        let bias = tensors.get(&format!("{name}.bias")).ok_or_else(|| format!("{name}.bias: not there"))?;
        for (part, info) in [("weight", weight), ("bias", bias)] {
            if info.dtype != Dtype::F32 {
                return Err(format!(
                    "{name}.{part}: found numbers of type {:?}, accepted is F32",
                    info.dtype
                ));
            }
        }
        let [outputs, inputs] = weight.shape[..] else {
            return Err(format!(
                "{name}.weight: found the shape {:?}, accepted is [outputs, inputs]",
                weight.shape
            ));
        };
        if bias.shape != [outputs] {
            return Err(format!("{name}.bias: found the shape {:?}, accepted is [{outputs}]", bias.shape));
        }
        let at = |info: &TensorInfo| header + info.data_offsets.0;
        let place = Place { inputs, outputs, weights: at(weight), bias: at(bias) };
        let mut plain =
            fluxgate_networks::policy::layers(file, &[(inputs, outputs, place.weights, place.bias)]);
        layers.append(&mut plain);
        places.push(place);
    }
    let used = |name: &str| {
        (0..places.len())
            .any(|at| name == format!("layers.{at}.weight") || name == format!("layers.{at}.bias"))
    };
    if let Some(other) = tensors.keys().find(|name| !used(name)) {
        let accepted = "layers.0.weight, layers.0.bias, layers.1.weight and so on";
        return Err(format!("tensor `{other}`: accepted is {accepted}"));
    }
    Ok((places, layers))
}

/// The file of weights that a component was made of; `None` without the section [`SECTION`].
///
/// # Errors
/// The bytes are not WebAssembly, or are damaged. A core module is accepted.
pub fn of_component(component: &[u8]) -> Result<Option<Vec<u8>>, String> {
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        let payload = payload.map_err(|error| format!("not a WebAssembly component: {error}"))?;
        if let wasmparser::Payload::CustomSection(section) = payload
            && section.name() == SECTION
        {
            return Ok(Some(section.data().to_vec()));
        }
    }
    Ok(None)
}

/// Decisions that were recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Number of rows of each decision.
    pub rows: usize,
    /// Number of features of a row.
    pub width: usize,
    /// Features by decision, row and place in the row.
    pub observations: Vec<f32>,
    /// True for rows that could be picked, by decision and row.
    pub masks: Vec<bool>,
    /// The row that was picked, of each decision.
    pub actions: Vec<usize>,
}

impl Recording {
    /// Reads and checks a file. Its reader bounds its length, by [`RECORDING_BYTES_MAX`].
    ///
    /// # Errors
    /// The fault: the tensor, what was found and what is accepted.
    pub fn read(file: &[u8]) -> Result<Recording, String> {
        let (header, metadata) = header(file)?;
        let tensor = |name: &str, dtype: Dtype| {
            let info = metadata.info(name).ok_or_else(|| format!("tensor {name}: not there"))?;
            if info.dtype != dtype {
                return Err(format!("{name}: found numbers of type {:?}, accepted is {dtype:?}", info.dtype));
            }
            let bytes = &file[header + info.data_offsets.0..header + info.data_offsets.1];
            Ok((info.shape.clone(), bytes))
        };
        let (shape, values) = tensor("observations", Dtype::F32)?;
        let [decisions, rows, width] = shape[..] else {
            return Err(format!(
                "observations: found the shape {shape:?}, accepted is [decisions, rows, features]"
            ));
        };
        let (shape, masks) = tensor("masks", Dtype::U8)?;
        if shape != [decisions, rows] {
            return Err(format!("masks: found the shape {shape:?}, accepted is [{decisions}, {rows}]"));
        }
        let (shape, actions) = tensor("actions", Dtype::I64)?;
        if shape != [decisions] {
            return Err(format!("actions: found the shape {shape:?}, accepted is [{decisions}]"));
        }
        let observations =
            values.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let masks: Vec<bool> = masks.iter().map(|byte| *byte != 0).collect();
        let mut picked = Vec::with_capacity(decisions);
        for (at, bytes) in actions.chunks_exact(8).enumerate() {
            let action = i64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let row = usize::try_from(action).ok().filter(|row| *row < rows && masks[at * rows + row]);
            picked.push(row.ok_or_else(|| {
                format!("actions, decision {at}: found {action}, accepted is a row that its mask allows")
            })?);
        }
        Ok(Recording { rows, width, observations, masks, actions: picked })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use safetensors::tensor::TensorView;
    use std::collections::HashMap;

    /// A file with these metadata and layers, each of inputs and outputs.
    pub(crate) fn file(said: &[(&str, &str)], layers: &[(usize, usize)]) -> Vec<u8> {
        let mut numbers: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        for (at, (inputs, outputs)) in layers.iter().enumerate() {
            let bytes = |count: usize| -> Vec<u8> {
                (0..count).flat_map(|n| (((n * 7 + at) % 13) as f32 / 13.0 - 0.5).to_le_bytes()).collect()
            };
            numbers.push((format!("layers.{at}.weight"), vec![*outputs, *inputs], bytes(inputs * outputs)));
            numbers.push((format!("layers.{at}.bias"), vec![*outputs], bytes(*outputs)));
        }
        let views = numbers.iter().map(|(name, shape, bytes)| {
            (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        let said = said.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let said: HashMap<String, String> = said.collect();
        safetensors::serialize(views, Some(said)).unwrap()
    }

    /// Metadata of a kernel.
    pub(crate) const SAID: [(&str, &str); 11] = [
        ("fluxgate.format", "1"),
        ("fluxgate.features", "rlscheduler-1"),
        ("fluxgate.scales", "duration=7200"),
        ("fluxgate.window", "128"),
        ("fluxgate.rows", "interleaved"),
        ("fluxgate.network", "kernel"),
        ("fluxgate.activation", "relu"),
        ("fluxgate.mode", "commit"),
        ("fluxgate.backfill", "none"),
        ("fluxgate.ties", "first"),
        ("other", "is not read"),
    ];

    #[test]
    fn res_43_a_file_is_read() {
        let weights = Weights::read(&file(&SAID, &[(8, 32), (32, 1)])).unwrap();
        assert_eq!(weights.places.len(), 2);
        assert_eq!((weights.model.view.rows, weights.trained_on()), (128, vec![]));
        assert_eq!(
            weights.summary(),
            "A trained network (kernel 8-32-1, features rlscheduler-1, mode commit, backfill none)"
        );
        let hash = "ab".repeat(32);
        let with = [&SAID[..], &[("fluxgate.trained-on", &hash)]].concat();
        let trained = Weights::read(&file(&with, &[(8, 1)])).unwrap().trained_on();
        assert_eq!(trained, [Trained { log: hash, jobs: None }]);
    }

    #[test]
    fn res_43_what_is_wrong_with_a_file_is_named() {
        let layers = [(8, 32), (32, 1)];
        let error = |file: &[u8]| Weights::read(file).unwrap_err();
        assert!(error(b"not a file").starts_with("not a file in the format safetensors: "));
        let whole = file(&SAID, &layers);
        for end in [0, 7, 8, 100, whole.len() - 1] {
            assert!(error(&whole[..end]).contains("safetensors"), "{end}");
        }
        assert!(error(&file(&[], &layers)).starts_with("fluxgate.format: not there, accepted is 1"));
        assert_eq!(
            error(&file(&[("fluxgate.format", "2")], &layers)),
            "fluxgate.format: found `2`, accepted is 1"
        );
        assert_eq!(error(&file(&SAID[..9], &layers)), "fluxgate.ties: not there");
        let odd = [&SAID[..], &[("fluxgate.colour", "red")]].concat();
        assert!(
            error(&file(&odd, &layers))
                .starts_with("metadata: found `fluxgate.colour`, accepted is features,")
        );
        let odd = [&SAID[..], &[("fluxgate.trained-on", "abc")]].concat();
        assert!(
            error(&file(&odd, &layers)).starts_with("fluxgate.trained-on: found `abc`, accepted is SHA-256")
        );
        assert!(
            error(&file(&SAID, &[(7, 1)]))
                .starts_with("layers.0.weight: found `[1, 7]`, accepted is [.., 8]")
        );
        assert!(error(&file(&SAID, &[])).starts_with("layers: found `no layer`"));
        let bytes = [0; 32];
        let half = TensorView::new(Dtype::F16, vec![1, 16], &bytes).unwrap();
        let said: HashMap<String, String> =
            SAID.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let one = |name: &str, view: &TensorView<'_>| {
            safetensors::serialize([(name, view.clone())], Some(said.clone())).unwrap()
        };
        assert_eq!(error(&one("layers.0.weight", &half)), "layers.0.bias: not there");
        assert!(error(&one("kernel", &half)).starts_with("tensor `kernel`: accepted is layers.0.weight"));
    }

    #[test]
    fn res_45_a_recording_is_read_and_its_faults_are_named() {
        let made = |rows: usize, actions: &[i64]| {
            let decisions = actions.len();
            let observations = vec![0u8; decisions * rows * 2 * 4];
            let masks: Vec<u8> = (0..decisions * rows).map(|at| u8::from(at % rows != 1)).collect();
            let actions: Vec<u8> = actions.iter().flat_map(|action| action.to_le_bytes()).collect();
            let view = |dtype, shape: &[usize], bytes| TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
            let all = [
                ("observations", view(Dtype::F32, &[decisions, rows, 2], &observations)),
                ("masks", view(Dtype::U8, &[decisions, rows], &masks)),
                ("actions", view(Dtype::I64, &[decisions], &actions)),
            ];
            safetensors::serialize(all, None).unwrap()
        };
        let read = Recording::read(&made(3, &[0, 2])).unwrap();
        assert_eq!((read.rows, read.width, read.actions), (3, 2, vec![0, 2]));
        for action in [1, 3, -1] {
            let error = Recording::read(&made(3, &[0, action])).unwrap_err();
            assert!(
                error.starts_with(&format!("actions, decision 1: found {action}, accepted is")),
                "{error}"
            );
        }
        assert_eq!(Recording::read(&file(&[], &[(8, 1)])).unwrap_err(), "tensor observations: not there");
    }
}
