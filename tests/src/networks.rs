//! Policies of exported networks: files of weights from a seed, folders that are built, and native twins.
//!
//! This module does not know what a network is good for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use fluxgate_engine::{JobColumns, Policy};
use fluxgate_formats::JobId;
use fluxgate_guest::prelude as guest;
use fluxgate_languages::template::{self, Template};
use fluxgate_languages::weights::Weights;
use fluxgate_networks::policy::Learned;
use fluxgate_policy::{Config, Limits};
use fluxgate_testing::{Need, skipped};
use serde_json::json;

use crate::fixture;

/// Numbers from a seed.
#[derive(Debug, Clone)]
pub struct Draw(pub u64);

impl Draw {
    /// 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// From -1 to 1.
    pub fn number(&mut self) -> f32 {
        (f64::from(self.bits()) / f64::from(1u32 << 31) - 1.0) as f32
    }

    /// The same, and now and then zeros, denormals and extremes.
    pub fn odd_number(&mut self) -> f32 {
        match self.bits() % 16 {
            0 => 0.0,
            1 => -0.0,
            2 => f32::from_bits(self.bits() % 0x0080_0000),
            3 => f32::MAX * self.number(),
            4 => f32::MIN_POSITIVE * self.number(),
            _ => self.number(),
        }
    }
}

/// A file of weights from a seed, with these widths of layers.
pub fn weights(widths: &[usize], said: &[(&str, &str)], seed: u64) -> Vec<u8> {
    let mut draw = Draw(seed);
    let mut metadata = serde_json::Map::new();
    let usual = [
        ("format", "1"),
        ("features", "queue-1"),
        ("scales", ""),
        ("window", "16"),
        ("rows", "interleaved"),
        ("network", "kernel"),
        ("activation", "relu"),
        ("mode", "commit"),
        ("backfill", "easy"),
        ("ties", "first"),
    ];
    for (key, value) in usual.iter().chain(said) {
        metadata.insert(format!("fluxgate.{key}"), json!(value));
    }
    let (mut header, mut numbers) = (json!({ "__metadata__": metadata }), Vec::new());
    for (at, pair) in widths.windows(2).enumerate() {
        for (part, shape) in [("weight", vec![pair[1], pair[0]]), ("bias", vec![pair[1]])] {
            let (begin, count) = (numbers.len(), shape.iter().product::<usize>());
            numbers.extend((0..count).flat_map(|_| draw.number().to_le_bytes()));
            header[format!("layers.{at}.{part}")] =
                json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, numbers.len()]});
        }
    }
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &numbers].concat()
}

/// A component with this file of weights in its section, whatever it does with it.
pub fn learned(component: &[u8], weights: &[u8]) -> Vec<u8> {
    let number = |mut value: usize| {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let name = fluxgate_languages::weights::SECTION.as_bytes();
    let content = [&number(name.len())[..], name, weights].concat();
    [component, &[0], &number(content.len())[..], &content].concat()
}

/// True if policies in Rust can be built here; else the test is skipped.
pub fn can_build() -> bool {
    let there = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "wasm32-unknown-unknown"])
        .output();
    let there = there.is_ok_and(|out| Path::new(String::from_utf8_lossy(&out.stdout).trim()).exists());
    if !there {
        skipped(Need::Program, "no rustc with the target wasm32-unknown-unknown");
    }
    there
}

/// The folder of a policy of these weights; `source` replaces its `src/lib.rs`.
pub fn folder(place: &Path, template: Template, name: &str, weights: &[u8], source: Option<&str>) -> PathBuf {
    let folder = place.join(name);
    for (path, content) in template::files(template, name, weights).unwrap() {
        let file = folder.join(&path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, content).unwrap();
    }
    if let Some(source) = source {
        std::fs::write(folder.join("src/lib.rs"), source).unwrap();
    }
    folder
}

/// Builds a folder as its `fluxgate-policy.toml` says; with `simd` false without SIMD. Versions, the profile's name and cargo's folder are
/// those of `cargo xtask policies`, which has compiled the macros. The folder is copied to one path, so SDK and networks are compiled once.
pub fn build(folder: &Path, simd: bool) -> Vec<u8> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let root = fluxgate_testing::root();
    let (place, target) = (root.join("target/tmp/networks"), root.join("target/wasm"));
    let name = folder.file_name().unwrap().to_str().unwrap();
    update(folder, &place);
    std::fs::copy(root.join("Cargo.lock"), place.join("Cargo.lock")).unwrap();
    if !simd {
        let file = place.join(".cargo/config.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"-C\", \"target-feature=+simd128\", ", "")).unwrap();
    }
    let mut command = Command::new("cargo");
    command
        .args(["build", "--quiet", "--profile", "policy", "--config", "profile.policy.inherits='release'"])
        .args(["--target", "wasm32-unknown-unknown", "--target-dir"])
        .arg(&target);
    for (variable, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO") && name != "CARGO_HOME")
    {
        command.env_remove(variable);
    }
    let status = command.current_dir(&place).status().expect("cargo can be started");
    assert!(status.success(), "{} does not build", folder.display());
    let file = format!("wasm32-unknown-unknown/policy/policy_{}.wasm", name.replace('-', "_"));
    std::fs::read(target.join(file)).expect("cargo made a component")
}

/// Copies the files of a folder that differ, so that cargo finds the others unchanged.
fn update(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (file, copy) = (entry.path(), to.join(entry.file_name()));
        if file.is_dir() {
            update(&file, &copy);
        } else if std::fs::read(&copy).ok() != Some(std::fs::read(&file).unwrap()) {
            std::fs::copy(&file, &copy).unwrap();
        }
    }
}

/// The policy of a component.
pub fn component(bytes: &[u8]) -> impl Policy + use<> {
    configured(bytes, &[])
}

/// The policy of a component with settings.
pub fn configured(bytes: &[u8], settings: &[(&str, &str)]) -> impl Policy + use<> {
    let loader = fixture::loader(Limits::default());
    let config: Config =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    loader.compile(bytes).unwrap().instantiate(&config).unwrap()
}

/// A component that gives the bits of the logit of each row as its key; a row are the eight columns of 32 bits.
pub const PROBE: &str = r#"//! The logits of rows, for a test.
mod model;
use fluxgate_guest::prelude::*;
use fluxgate_networks::model::Model;

#[derive(Debug)]
pub struct Probe(Model);
impl Default for Probe {
    fn default() -> Self {
        Probe(model::model())
    }
}
impl Policy for Probe {
    fn info() -> Info {
        Info::new("probe", model::SUMMARY)
    }
}
impl Ordering for Probe {
    fn key(&mut self, _now: f64, _job: &Job) -> f64 {
        0.0
    }
    fn keys(&mut self, _now: f64, jobs: &JobColumns) -> Vec<f64> {
        let mut values = Vec::with_capacity(8 * jobs.len());
        for job in jobs.rows() {
            let bits = [job.id as u32, (job.id >> 32) as u32, job.priority, job.userid, job.queue, job.nodes, job.cores, job.gpus];
            values.extend(bits.map(f32::from_bits));
        }
        let mut logits = Vec::new();
        self.0.network.logits(&values, 8, jobs.len(), &mut logits);
        logits.into_iter().map(|logit| f64::from(logit.to_bits())).collect()
    }
}
export_policy!(Probe: ordering);
"#;

/// Asks a probe for the logits of this many rows from a seed, and compares them with those computed here. Returns the
/// number of logits that are no NaN.
///
/// # Panics
/// If one differs in a bit; which NaN it is may differ.
pub fn compare_logits(probe: &mut impl Policy, weights: &Weights, rows: usize, seed: u64) -> usize {
    const BATCH: usize = 4096;
    let (mut draw, mut done, mut numbers) = (Draw(seed), 0, 0);
    let mut expected = Vec::new();
    while done < rows {
        let count = BATCH.min(rows - done);
        let values: Vec<f32> = (0..8 * count).map(|_| draw.odd_number()).collect();
        let column = |at: usize| values.iter().skip(at).step_by(8).map(|x| x.to_bits()).collect::<Vec<u32>>();
        let wide = |(low, high): (u32, u32)| JobId(u64::from(low) | u64::from(high) << 32);
        let columns = JobColumns {
            id: column(0).into_iter().zip(column(1)).map(wide).collect(),
            t_submit: vec![0.0; count],
            duration: vec![1.0; count],
            priority: column(2),
            userid: column(3),
            queue: column(4),
            nodes: column(5),
            cores: column(6),
            gpus: column(7),
        };
        let keys = probe.keys(0.0, &columns).unwrap();
        weights.model.network.logits(&values, 8, count, &mut expected);
        for (row, (key, expected)) in keys.iter().zip(&expected).enumerate() {
            let found = f32::from_bits(*key as u32);
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "row {}: {found:e} and {expected:e}", done + row);
            numbers += usize::from(!found.is_nan());
        }
        done += count;
    }
    numbers
}

/// The weights of [`Twin`].
pub static TWIN: OnceLock<Vec<u8>> = OnceLock::new();

/// The native twin of the component of [`TWIN`].
#[derive(Debug)]
pub struct Twin(Learned);

impl Default for Twin {
    fn default() -> Self {
        Twin(Learned::new(Weights::read(TWIN.get().expect("weights were set")).unwrap().model))
    }
}

impl guest::Policy for Twin {
    fn info() -> guest::Info {
        guest::Info::new("twin", "A trained network").key("sample-seed", guest::Kind::Integer, "0", "a seed")
    }

    fn configure(&mut self, config: &guest::Config) -> Result<(), String> {
        self.0.sample(config.integer("sample-seed")?.unsigned_abs());
        Ok(())
    }
}

impl guest::Scheduling for Twin {
    fn run(&mut self, pass: &mut dyn guest::Pass) {
        self.0.run(pass);
    }
}

impl guest::Observing for Twin {
    fn observe(&mut self, _now: f64, events: &[guest::JobEvent]) {
        self.0.observe(events);
    }
}

fluxgate_guest::export_policy!(Twin: scheduling, observing);
