//! The test suite of the graph scheduler (flux-sched), with the modules of these names that `fluxgate install` writes in the
//! place of its three modules.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::table::Table;
use super::{Environment, Suite, before, flux_core, folder};
use crate::house::House;

/// Its table.
pub(super) const TABLE: Table = Table { heading: "## Tests of the graph scheduler", beside: true };

/// The modules that are replaced, below the folder in which they were built. Scripts put their folders before
/// FLUX_MODULE_PATH_PREPEND.
const REPLACED: [&str; 3] = [
    "resource/modules/sched-fluxion-resource.so",
    "resource/modules/sched-fluxion-feasibility.so",
    "qmanager/modules/sched-fluxion-qmanager.so",
];

/// flux-sched, as it was built.
#[derive(Debug)]
pub(super) struct Tree {
    /// The folder of its source.
    pub(super) source: PathBuf,
    /// The folder in which it was built.
    pub(super) build: PathBuf,
    /// The folder of the `flux` that it was built for.
    pub(super) bin: PathBuf,
    version: String,
}

impl Tree {
    /// The tree that was given on the command line.
    pub(super) fn find(path: &Path) -> Result<Tree> {
        let path = folder("--flux-sched", path)?;
        let told = path.display();
        let Some(build) = [path.clone(), path.join("build")].into_iter().find(|f| f.join(CACHE).is_file())
        else {
            bail!("--flux-sched {told}: no {CACHE} there or in build: configure flux-sched with cmake first");
        };
        let cache = fs::read_to_string(build.join(CACHE)).with_context(|| format!("{told}: {CACHE}"))?;
        let entry = |name: &str| {
            cached(&cache, name).with_context(|| format!("--flux-sched {told}: {CACHE} has no {name}"))
        };
        if let Some(missing) = REPLACED.iter().find(|name| !build.join(name).is_file()) {
            bail!("--flux-sched {told}: no {missing} in {}: build flux-sched first", build.display());
        }
        let flux = PathBuf::from(entry("FLUX")?);
        if !flux.is_file() {
            bail!("--flux-sched {told}: it was built for {}, which is gone", flux.display());
        }
        let source = PathBuf::from(entry("CMAKE_HOME_DIRECTORY")?);
        if !source.join("t/sharness.sh").is_file() {
            bail!("--flux-sched {told}: its source was in {}, which has no t/sharness.sh", source.display());
        }
        let bin = flux.parent().context("a file is in a folder")?.to_owned();
        let version = format!("flux-sched {}", entry("CMAKE_PROJECT_VERSION")?);
        Ok(Tree { source, build, bin, version: format!("{}, {version}", flux_core::version(&flux)?) })
    }

    /// The versions of flux-core and flux-sched.
    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// The file in which cmake keeps its configuration.
const CACHE: &str = "CMakeCache.txt";

/// The value of an entry `NAME:TYPE=VALUE`.
fn cached<'a>(cache: &'a str, name: &str) -> Option<&'a str> {
    let entries =
        cache.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_once('='));
    entries.map(|(_, value)| value).next()
}

/// An installation of Fluxgate; its modules are in [`MODULES`].
pub(super) fn modules(house: &House) -> Result<TempDir> {
    let prefix = tempfile::tempdir().context("cannot make a folder")?;
    let binary = house.target().join("debug/fluxgate");
    house.program(binary).args(["install", "--prefix"]).arg(prefix.path()).read()?;
    Ok(prefix)
}

/// Where an installation has the modules under the names of the graph scheduler.
pub(super) const MODULES: &str = "lib/fluxgate/graph-scheduler";

/// Its suite, with the installation of Fluxgate in this prefix.
pub(super) fn suite(tree: &Tree, prefix: &Path) -> Result<Suite> {
    let tests = tree.source.join("t");
    let kept = vec![built(&tree.build, Some(&prefix.join(MODULES)))?, built(&tree.build, None)?];
    let environment = |built: &Path| -> Result<Environment> {
        Ok(vec![
            ("PATH", before("PATH", &[&tree.bin])?),
            ("SHARNESS_TEST_SRCDIR", tests.clone().into()),
            ("SHARNESS_TEST_DIRECTORY", built.join("t").into()),
            ("SHARNESS_BUILD_DIRECTORY", built.into()),
        ])
    };
    Ok(Suite {
        table: TABLE,
        version: tree.version.clone(),
        folder: kept[0].path().join("t"),
        before: vec![tree.bin.join("flux").into(), "env".into()],
        apart: false,
        ours: environment(kept[0].path())?,
        theirs: environment(kept[1].path())?,
        scripts: tests,
        _kept: kept,
    })
}

/// A folder that stands for the one in which flux-sched was built: all of it is there as links, but for an empty `t`, and with
/// these modules in the place of its own. Flux prefers a `NAME.so` in any folder to a `NAME.py`.
fn built(build: &Path, modules: Option<&Path>) -> Result<TempDir> {
    let stands = tempfile::tempdir().context("cannot make a folder")?;
    let made = |folder: &str| {
        let folder = stands.path().join(folder);
        fs::create_dir(&folder).with_context(|| format!("{}", folder.display()))
    };
    let linked = |folder: &str, but: &[&str]| -> Result<()> {
        let own = build.join(folder);
        for entry in fs::read_dir(&own).with_context(|| format!("{}", own.display()))? {
            let entry = entry?;
            let link = stands.path().join(folder).join(entry.file_name());
            if !but.iter().any(|name| entry.file_name() == *name) {
                symlink(entry.path(), &link).with_context(|| format!("{}", link.display()))?;
            }
        }
        Ok(())
    };
    made("t")?;
    let Some(modules) = modules else {
        linked("", &["t"])?;
        return Ok(stands);
    };
    linked("", &["t", "resource", "qmanager"])?;
    for folder in ["resource", "qmanager"] {
        made(folder)?;
        linked(folder, &["modules"])?;
        made(&format!("{folder}/modules"))?;
    }
    for name in REPLACED {
        let module = Path::new(name).with_extension("py");
        let file = modules.join(module.file_name().context("a module has a name")?);
        if !file.is_file() {
            bail!("{}: `fluxgate install` did not write it", file.display());
        }
        symlink(&file, stands.path().join(&module)).with_context(|| format!("{}", file.display()))?;
    }
    Ok(stands)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files, each with its own name in it.
    fn tree(files: &[&str]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        }
        dir
    }

    #[test]
    fn entries_of_the_cache_are_found_by_their_whole_name() {
        let cache = "# FLUX:FILEPATH=/no\nFLUX_CORE:INTERNAL=1\nFLUX:FILEPATH=/x/bin/flux\n";
        assert_eq!(cached(cache, "FLUX"), Some("/x/bin/flux"));
        assert_eq!(cached(cache, "FLUX_SCHED"), None);
    }

    #[test]
    fn what_is_missing_in_a_tree_is_named() {
        let error = |dir: &TempDir| format!("{:#}", Tree::find(dir.path()).unwrap_err());
        let dir = tree(&["README.md"]);
        assert!(error(&dir).contains("no CMakeCache.txt there or in build"), "{}", error(&dir));
        fs::create_dir(dir.path().join("build")).unwrap();
        let cache = dir.path().join("build/CMakeCache.txt");
        fs::write(&cache, "").unwrap();
        assert!(error(&dir).contains("no resource/modules/sched-fluxion-resource.so"), "{}", error(&dir));
        for name in REPLACED {
            let file = dir.path().join("build").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        assert!(error(&dir).contains("CMakeCache.txt has no FLUX"), "{}", error(&dir));
        fs::write(&cache, "FLUX:FILEPATH=/nosuch/flux\n").unwrap();
        assert!(error(&dir).contains("built for /nosuch/flux, which is gone"), "{}", error(&dir));
        let flux = dir.path().join("README.md");
        let text = |source: &Path| {
            format!("FLUX:FILEPATH={}\nCMAKE_HOME_DIRECTORY:INTERNAL={}\n", flux.display(), source.display())
        };
        fs::write(&cache, text(dir.path())).unwrap();
        assert!(error(&dir).contains("which has no t/sharness.sh"), "{}", error(&dir));
    }

    #[test]
    fn our_modules_stand_in_the_place_of_theirs() {
        let build = tree(&[&REPLACED[..], &["t/CTest", "resource/utilities/query", "src/x"]].concat());
        let modules = tree(&["sched-fluxion-resource.py", "sched-fluxion-feasibility.py"]);
        let error = format!("{:#}", built(build.path(), Some(modules.path())).unwrap_err());
        assert!(error.contains("sched-fluxion-qmanager.py: `fluxgate install` did not write it"), "{error}");
        fs::write(modules.path().join("sched-fluxion-qmanager.py"), "").unwrap();

        let ours = built(build.path(), Some(modules.path())).unwrap();
        let theirs = built(build.path(), None).unwrap();
        for name in REPLACED {
            let module = Path::new(name).with_extension("py");
            assert!(theirs.path().join(name).is_file() && !theirs.path().join(&module).exists(), "{name}");
            assert!(!ours.path().join(name).exists() && ours.path().join(&module).is_file(), "{name}");
        }
        for stands in [&ours, &theirs] {
            assert!(stands.path().join("resource/utilities/query").is_file());
            assert!(stands.path().join("src/x").is_file());
            assert_eq!(fs::read_dir(stands.path().join("t")).unwrap().count(), 0);
        }
    }
}
