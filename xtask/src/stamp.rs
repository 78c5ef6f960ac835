//! Stamps, which show without starting cargo whether an output is up to date.
//!
//! A stamp is beside each output and lists every input with its hash: the sources that the compiler read, the
//! manifests and lock files that belong to them, and a line for tools and recipe.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True if the output exists, was made by this recipe, and no input has changed since.
pub(crate) fn is_fresh(stamp: &Path, output: &Path, recipe: &str) -> bool {
    let Ok(text) = fs::read_to_string(stamp) else { return false };
    let mut lines = text.lines();
    if lines.next() != Some(recipe) {
        return false;
    }
    let mut inputs = 0;
    for line in lines {
        let Some((hash, path)) = line.split_once(' ') else { return false };
        let Ok(bytes) = fs::read(path) else { return false };
        if sha256(&bytes) != hash {
            return false;
        }
        inputs += usize::from(Path::new(path) != output);
    }
    inputs > 0 && output.is_file()
}

/// Writes the stamp of an output that cargo just made. `dep_info` is the compiler's list of sources.
pub(crate) fn write(stamp: &Path, output: &Path, recipe: &str, dep_info: &Path) -> Result<()> {
    let text = fs::read_to_string(dep_info).with_context(|| format!("{}", dep_info.display()))?;
    let mut inputs = BTreeSet::new();
    for source in sources(&text) {
        inputs.extend(manifests(&source));
        inputs.insert(source);
    }
    write_inputs(stamp, output, recipe, inputs)
}

/// Writes the stamp of an output that was made from these files.
pub(crate) fn write_inputs(
    stamp: &Path,
    output: &Path,
    recipe: &str,
    mut inputs: BTreeSet<PathBuf>,
) -> Result<()> {
    inputs.insert(output.to_path_buf());
    let mut text = format!("{recipe}\n");
    for input in inputs {
        let bytes = fs::read(&input).with_context(|| format!("{}", input.display()))?;
        text.push_str(&format!("{} {}\n", sha256(&bytes), input.display()));
    }
    fs::write(stamp, text).with_context(|| format!("{}", stamp.display()))
}

/// The prerequisites of a make rule; a backslash escapes a space.
fn sources(rule: &str) -> Vec<PathBuf> {
    let Some((_, list)) = rule.lines().next().unwrap_or_default().split_once(": ") else { return Vec::new() };
    let mut found = vec![String::new()];
    let mut letters = list.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => found.last_mut().unwrap_or(&mut String::new()).extend(letters.next()),
            ' ' => found.push(String::new()),
            other => found.last_mut().unwrap_or(&mut String::new()).push(other),
        }
    }
    found.into_iter().filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// Every manifest, lock file and cargo configuration in the folders above a source.
fn manifests(source: &Path) -> Vec<PathBuf> {
    let names = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"];
    let folders = source.ancestors().skip(1);
    folders.flat_map(|folder| names.map(|name| folder.join(name))).filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_with_spaces() {
        let found = sources("/out/x.wasm: /a/b.rs /c\\ d/e.rs\n\n/other: /f.rs\n");
        assert_eq!(found, [PathBuf::from("/a/b.rs"), PathBuf::from("/c d/e.rs")]);
        assert!(sources("").is_empty());
    }

    #[test]
    fn fresh_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("in.rs"), "1").unwrap();
        fs::write(path("Cargo.toml"), "2").unwrap();
        fs::write(path("out.wasm"), "3").unwrap();
        fs::write(path("out.d"), format!("x: {}\n", path("in.rs").display())).unwrap();
        let fresh = |recipe: &str| is_fresh(&path("stamp"), &path("out.wasm"), recipe);
        assert!(!fresh("r"));
        let again = || write(&path("stamp"), &path("out.wasm"), "r", &path("out.d")).unwrap();
        again();
        assert!(fresh("r"));
        assert!(!fresh("another recipe"));
        for changed in ["in.rs", "Cargo.toml", "out.wasm"] {
            fs::write(path(changed), "changed").unwrap();
            assert!(!fresh("r"), "{changed}");
            again();
            assert!(fresh("r"));
        }
        fs::remove_file(path("out.wasm")).unwrap();
        assert!(!fresh("r"));
    }
}
