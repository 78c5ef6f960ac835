//! Results of an experiment as lines of JSON, `{"replay": .., "metrics": ..}`: each is written when it is there, so that an
//! experiment that was killed goes on. A last line that was cut off is removed.
//!
//! This module knows no policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::plan::Identity;

/// Largest file of results, in bytes.
pub const RESULTS_BYTES_MAX: u64 = 1 << 30;

/// The figures of a replay, by name.
pub type Figures = BTreeMap<String, f64>;

/// A file of results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A line is no result.
    #[error("{path}: line {line}: not a result of a sweep")]
    Line {
        /// The file.
        path: String,
        /// Its number, from 1.
        line: usize,
    },
    /// The file is larger than [`RESULTS_BYTES_MAX`].
    #[error("{path}: found more than {RESULTS_BYTES_MAX} bytes, accepted are at most as many")]
    Large {
        /// The file.
        path: String,
    },
}

/// A file of results, and what is in it; see the [module](self).
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, Figures>,
}

/// The same text for the same value, whatever the order of its keys.
fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let map: BTreeMap<&String, &Value> = map.iter().collect();
                Value::Object(
                    map.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>(),
                )
            }
            Value::Array(all) => Value::Array(all.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

/// The key of a result: a text that only equal identities have.
pub fn key(identity: &Identity<'_>) -> String {
    canonical(&json!(identity))
}

fn line(text: &[u8]) -> Option<(String, Figures)> {
    let read: Value = serde_json::from_slice(text).ok()?;
    let replay = read.get("replay").filter(|replay| replay.is_object())?;
    let figures = read.get("metrics")?.as_object()?;
    let figures = figures.iter().map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    Some((canonical(replay), figures.collect::<Option<Figures>>()?))
}

impl Results {
    /// Opens a file, which may be missing, and reads what is in it.
    ///
    /// # Errors
    /// The file cannot be read or written, is too large, or has a line that is no result; then it is unchanged.
    pub fn open(path: &Path) -> Result<Results, ResultsError> {
        let shown = || path.display().to_string();
        let failed = |source: io::Error| ResultsError::Io { path: shown(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        (&mut file).take(RESULTS_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > RESULTS_BYTES_MAX {
            return Err(ResultsError::Large { path: shown() });
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut known = BTreeMap::new();
        for (number, text) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
            if text.is_empty() && number > 0 {
                continue;
            }
            if whole == 0 {
                break;
            }
            let wrong = || ResultsError::Line { path: shown(), line: number + 1 };
            let (key, figures) = line(text).ok_or_else(wrong)?;
            known.insert(key, figures);
        }
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        Ok(Results { path: path.to_owned(), file, known })
    }

    /// The figures of the replay with this [`key`]; `None` if they are not there.
    pub fn get(&self, key: &str) -> Option<&Figures> {
        self.known.get(key)
    }

    /// Adds a result, and writes it at once. Figures that are not finite are left out, since JSON has no word for them.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn add(&mut self, identity: &Identity<'_>, mut figures: Figures) -> Result<(), ResultsError> {
        figures.retain(|_, value| value.is_finite());
        let mut text = json!({"replay": identity, "metrics": figures}).to_string();
        text.push('\n');
        let failed = |source| ResultsError::Io { path: self.path.display().to_string(), source };
        // In one piece, so that two sweeps into one file do not mix their lines.
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.known.insert(key(identity), figures);
        Ok(())
    }
}

/// Writes a CSV line for each replay, under a header line: policy, part, seed, settings and figures by name.
///
/// # Errors
/// The lines cannot be written.
pub fn write_csv(out: impl Write, rows: &[(&Identity<'_>, &Figures)]) -> Result<(), csv::Error> {
    let settings: BTreeSet<&String> =
        rows.iter().flat_map(|(identity, _)| identity.settings.keys()).collect();
    let metrics: BTreeSet<&String> = rows.iter().flat_map(|(_, figures)| figures.keys()).collect();
    let mut csv = csv::Writer::from_writer(out);
    let names = ["policy", "part", "seed"].map(str::to_owned).into_iter();
    let names = names.chain(settings.iter().map(|name| format!("setting_{name}")));
    csv.write_record(names.chain(metrics.iter().map(|name| (*name).clone())))?;
    for (identity, figures) in rows {
        let lead =
            [identity.policy.to_owned(), identity.part.to_owned(), identity.seed.to_string()].into_iter();
        let own = settings.iter().map(|name| identity.settings.get(*name).cloned().unwrap_or_default());
        let figures = metrics.iter().map(|name| figures.get(*name).map_or_else(String::new, f64::to_string));
        csv.write_record(lead.chain(own).chain(figures))?;
    }
    Ok(csv.flush()?)
}
