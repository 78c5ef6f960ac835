//! Puts components into the program, so that one file is a scheduler with its policies: all of the folder that FLUXGATE_EMBED
//! names, or of `components/` beside this file. Without either the program has none, and finds policies in folders alone.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=FLUXGATE_EMBED");
    println!("cargo::rerun-if-changed=build.rs");
    let named = env::var_os("FLUXGATE_EMBED").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let beside = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("components");
    let folder = named.or_else(|| beside.is_dir().then_some(beside));
    let mut found = Vec::new();
    if let Some(folder) = folder {
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("FLUXGATE_EMBED: {}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("an entry of the folder").path()) {
            if path.extension().is_some_and(|ending| ending == "wasm") {
                found.push(path.canonicalize().expect("it was just found"));
            }
        }
    }
    // The same bytes whatever the order of the folder.
    found.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    let mut text = String::from("&[\n");
    for path in found {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name in UTF-8");
        writeln!(text, "    ({name:?}, include_bytes!({path:?})),").expect("text can be written");
    }
    text += "]\n";
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("components.rs");
    fs::write(&out, text).expect("the folder of the build can be written");
}
