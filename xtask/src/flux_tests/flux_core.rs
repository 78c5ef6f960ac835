//! The test suite of flux-core, with shims in the place of its schedulers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::table::Table;
use super::{Environment, Suite, folder};
use crate::house::{House, Program};

/// Its table.
pub(super) const TABLE: Table = Table { heading: "## Tests of flux-core", beside: false };

/// The schedulers that are replaced, and the arguments that come before those of a script.
const REPLACED: [(&str, &[&str]); 3] = [
    ("sched-simple", &["policy=fcfs", "placement=spread", "queue-depth=8"]),
    ("sched-fifo", &["policy=fcfs", "placement=spread"]),
    ("sched-backfill", &["policy=easy", "placement=spread"]),
];
/// An argument of these schedulers that is an argument of another name here.
const TRANSLATED: (&str, &str) = ("pool-class=TreePool", "placement=locality");

/// A tree of flux-core that was built in place.
pub(super) fn find(path: &Path) -> Result<PathBuf> {
    let tree = folder("--flux-core", path)?;
    if !tree.join("src/cmd/flux").is_file() {
        bail!("--flux-core {}: no src/cmd/flux: build flux-core there first", tree.display());
    }
    Ok(tree)
}

/// Its suite.
pub(super) fn suite(house: &House, tree: &Path) -> Result<Suite> {
    let shims = tempfile::tempdir().context("cannot make a folder")?;
    let source = fs::read_to_string(house.root().join("host/cli/share/sched-fluxgate.py"))?;
    for (name, before) in REPLACED {
        let binary = house.target().join("debug/fluxgate");
        fs::write(shims.path().join(format!("{name}.py")), shim(&source, &binary, before)?)?;
    }
    Ok(Suite {
        table: TABLE,
        version: version(&tree.join("src/cmd/flux"))?,
        scripts: tree.join("t"),
        folder: tree.join("t"),
        before: Vec::new(),
        apart: true,
        ours: vec![("FLUX_MODULE_PATH_PREPEND", shims.path().into())],
        theirs: Environment::new(),
        _kept: vec![shims],
    })
}

/// The version that a `flux` prints.
pub(super) fn version(flux: &Path) -> Result<String> {
    let said = Program::new(flux).arg("version").read()?;
    let version = said.lines().find_map(|line| line.strip_prefix("libflux-core:")).unwrap_or("").trim();
    Ok(format!("flux-core {version}"))
}

/// The shim of one scheduler: ours, with arguments before those of the script.
fn shim(source: &str, binary: &Path, before: &[&str]) -> Result<String> {
    let own = "json.dumps(args)";
    if !source.contains(own) || !source.contains("@BINARY@") {
        bail!("the installed shim has no `{own}` or no @BINARY@");
    }
    let (theirs, ours) = TRANSLATED;
    let arguments =
        format!("json.dumps({before:?} + [\"{ours}\" if one == \"{theirs}\" else one for one in args])");
    Ok(source.replace(own, &arguments).replace("@BINARY@", &binary.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_shim_gets_arguments() {
        let source = include_str!("../../../host/cli/share/sched-fluxgate.py");
        let made = shim(source, Path::new("/x/fluxgate"), REPLACED[0].1).unwrap();
        assert!(made.contains("BINARY = \"/x/fluxgate\""), "{made}");
        assert!(
            made.contains(r#"json.dumps(["policy=fcfs", "placement=spread", "queue-depth=8"] + ["#),
            "{made}"
        );
    }

    #[test]
    fn a_tree_that_was_not_built_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = format!("{:#}", find(dir.path()).unwrap_err());
        assert!(error.contains("no src/cmd/flux"), "{error}");
    }
}
