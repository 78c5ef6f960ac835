//! The test suite of flux-coral2, the software of a site with rack storage, with the graph scheduler's modules replaced.
//!
//! Its scripts need nothing of it that is compiled.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::graph_scheduler::{MODULES, Tree};
use super::table::Table;
use super::{Environment, Suite, before, folder};

/// Its table.
pub(super) const TABLE: Table = Table { heading: "## Tests of the site stack", beside: true };

/// A source tree.
pub(super) fn find(path: &Path) -> Result<PathBuf> {
    let tree = folder("--coral2", path)?;
    if !tree.join("src/cmd/flux-dws2jgf.py").is_file() || !tree.join("t/sharness.sh").is_file() {
        bail!("--coral2 {}: no src/cmd/flux-dws2jgf.py or no t/sharness.sh", tree.display());
    }
    Ok(tree)
}

/// Its suite, with the installation of Fluxgate in this prefix.
pub(super) fn suite(site: &Path, tree: &Tree, prefix: &Path) -> Result<Suite> {
    let scratch = tempfile::tempdir().context("cannot make a folder")?;
    let commands = tree.source.join("src/cmd");
    let environment = |modules: &[&Path]| -> Result<Environment> {
        Ok(vec![
            ("PATH", before("PATH", &[&tree.bin])?),
            ("PYTHONPATH", before("PYTHONPATH", &[&tree.source.join("src/python")])?),
            ("FLUX_EXEC_PATH_PREPEND", before("FLUX_EXEC_PATH_PREPEND", &[&commands])?),
            ("FLUX_MODULE_PATH_PREPEND", before("FLUX_MODULE_PATH_PREPEND", modules)?),
            ("SHARNESS_TEST_SRCDIR", site.join("t").into()),
            ("SHARNESS_TEST_DIRECTORY", scratch.path().into()),
            ("SHARNESS_BUILD_DIRECTORY", site.into()),
        ])
    };
    let (resource, queues) = (tree.build.join("resource/modules"), tree.build.join("qmanager/modules"));
    Ok(Suite {
        table: TABLE,
        version: format!("flux-coral2 {}, {}", site.display(), tree.version()),
        scripts: site.join("t"),
        folder: scratch.path().to_owned(),
        before: Vec::new(),
        apart: false,
        ours: environment(&[&prefix.join(MODULES)])?,
        theirs: environment(&[&resource, &queues])?,
        _kept: vec![scratch],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = format!("{:#}", find(dir.path()).unwrap_err());
        assert!(error.starts_with("--coral2 ") && error.contains("no src/cmd/flux-dws2jgf.py"), "{error}");
    }
}
