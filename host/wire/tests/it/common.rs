//! Reads the captured conversations, where they are available.

use std::path::PathBuf;

use serde_json::Value;

/// One line of a capture.
#[derive(Debug, Clone)]
pub struct Record {
    pub n: u64,
    pub from_broker: bool,
    pub frame: Vec<u8>,
    pub meta: Value,
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex digits"))
        .collect()
}

/// The frames of a capture, without the authentication byte.
pub fn read_trace(path: &std::path::Path) -> Vec<Record> {
    let text = std::fs::read_to_string(path).expect("a readable trace");
    let mut records = Vec::new();
    for line in text.lines() {
        let meta: Value = serde_json::from_str(line).expect("JSON lines");
        if meta["kind"] == "auth" {
            continue;
        }
        records.push(Record {
            n: meta["n"].as_u64().expect("n"),
            from_broker: meta["dir"] == "rx",
            frame: unhex(meta["hex"].as_str().expect("hex")),
            meta,
        });
    }
    records
}

/// All captures by name, or `None`, as skipped, where they are not on this machine.
pub fn all_traces() -> Option<Vec<(String, Vec<Record>)>> {
    let folder = fluxgate_testing::shared("flux/traces")?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    paths.sort();
    Some(
        paths
            .iter()
            .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), read_trace(path)))
            .collect(),
    )
}
