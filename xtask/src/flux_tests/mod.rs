//! `cargo xtask flux-tests`: scripts of the test suites of Flux with Fluxgate in the place of its schedulers, and the tables of
//! `docs/flux-core-tests.md` that they make.
//!
//! The trees are the user's, built there; nothing is written into them. Must never know what a script tests.

mod coral2;
mod counts;
mod exchange;
mod flux_core;
mod graph_scheduler;
mod table;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};

use crate::house::House;
use crate::policies;
use counts::Counts;
use table::{PAGE, Row, Table};

/// Options of `cargo xtask flux-tests`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("trees").args(["flux_core", "flux_sched"]).required(true).multiple(true)))]
pub(crate) struct Options {
    /// A source tree of flux-core, configured and built in place.
    #[arg(long, value_name = "DIR")]
    flux_core: Option<PathBuf>,
    /// The folder in which flux-sched was built, or its source tree with that folder as `build`.
    #[arg(long, value_name = "DIR")]
    flux_sched: Option<PathBuf>,
    /// A source tree of flux-coral2, the software of a site with rack storage.
    #[arg(long, value_name = "DIR", requires = "flux_sched")]
    coral2: Option<PathBuf>,
    /// Run each script of flux-sched and flux-coral2 with the graph scheduler itself, too.
    #[arg(long, requires = "flux_sched")]
    beside: bool,
    /// Instead of scripts, put one scheduler in the place of the other while jobs run.
    #[arg(long, requires = "flux_sched", conflicts_with_all = ["coral2", "beside", "scripts"])]
    exchange: bool,
    /// Write the rows into docs/flux-core-tests.md, too.
    #[arg(long)]
    write: bool,
    /// Seconds after which a script is ended.
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    limit: u64,
    /// Scripts, such as t2300-sched-simple; by default those of the tables in docs/flux-core-tests.md.
    scripts: Vec<String>,
}

/// Environment variables that a script finds.
type Environment = Vec<(&'static str, OsString)>;

/// A test suite, ready to run.
#[derive(Debug)]
struct Suite {
    table: Table,
    /// The tested software, with its version.
    version: String,
    /// The folder of its scripts.
    scripts: PathBuf,
    /// The folder that they are run in.
    folder: PathBuf,
    /// Words of the command before the path of a script.
    before: Vec<OsString>,
    /// Whether a script is told to make its files in a folder of its own. Scripts that find programs from there are not.
    apart: bool,
    /// The environment with Fluxgate.
    ours: Environment,
    /// The environment with the replaced scheduler.
    theirs: Environment,
    /// Folders that last as long as the suite.
    _kept: Vec<tempfile::TempDir>,
}

/// Runs the scripts, prints and, if it is asked for, writes their rows.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let found = options.flux_sched.as_deref().map(graph_scheduler::Tree::find).transpose()?;
    let core = options.flux_core.as_deref().map(flux_core::find).transpose()?;
    let coral2 = options.coral2.as_deref().map(coral2::find).transpose()?;
    policies::build_beside(
        house,
        &[],
        house.cargo("build").args(["--package", "fluxgate", "--bin", "fluxgate"]),
    )?;
    if let Some(tree) = found.as_ref().filter(|_| options.exchange) {
        return exchange::run(house, tree, options.write, options.limit);
    }
    let mut suites = Vec::new();
    if let Some(tree) = &core {
        suites.push(flux_core::suite(house, tree)?);
    }
    if let Some(tree) = &found {
        let modules = graph_scheduler::modules(house)?;
        suites.push(graph_scheduler::suite(tree, modules.path())?);
        if let Some(site) = &coral2 {
            suites.push(coral2::suite(site, tree, modules.path())?);
        }
        if let Some(last) = suites.last_mut() {
            last._kept.push(modules);
        }
    }
    let named: BTreeSet<&str> = options.scripts.iter().map(|name| bare(name)).collect();
    if let Some(name) = named.iter().find(|name| suites.iter().all(|suite| suite.script(name).is_none())) {
        let folders: Vec<_> = suites.iter().map(|suite| suite.scripts.display().to_string()).collect();
        bail!("{name}: there is no such script in {}", folders.join(", "));
    }
    let run = house.day_and_commit()?;
    suites.iter().try_for_each(|suite| suite.run(house, options, &named, &run))
}

impl Suite {
    /// Runs those of its scripts that are named, or all of its table. Each row is written at the end of its script, since a run
    /// takes long and may be ended.
    fn run(&self, house: &House, options: &Options, named: &BTreeSet<&str>, run: &str) -> Result<()> {
        let page = house.root().join(PAGE);
        let read = || fs::read_to_string(&page).with_context(|| format!("{}", page.display()));
        let text = read()?;
        let rows = self.table.rows(&text)?;
        let scripts: Vec<&str> = match named.is_empty() {
            true => rows.keys().map(String::as_str).collect(),
            false => named.iter().copied().filter(|name| self.script(name).is_some()).collect(),
        };
        if scripts.is_empty() {
            return Ok(());
        }
        println!("\n{}, Fluxgate {run}\n\n{}", self.version, self.table.head());
        for name in scripts {
            let counts = self.counts(house, name, &self.ours, options.limit)?;
            let beside = (options.beside && self.table.beside)
                .then(|| self.counts(house, name, &self.theirs, options.limit))
                .transpose()?;
            let before = rows.get(name);
            let row = Row::new(&counts, run, beside.as_ref(), before);
            println!("{}", self.table.line(name, &row));
            counts.names.iter().for_each(|name| eprintln!("  failed: {name}"));
            for name in beside.iter().flat_map(|counts| &counts.names) {
                eprintln!("  failed with the graph scheduler: {name}");
            }
            if before.is_some_and(|before| !before.same_counts(&row)) {
                eprintln!("  the page has other counts: its reason may no longer be true");
            }
            if options.write {
                let text = self.table.with(&read()?, name, &row)?;
                fs::write(&page, text).with_context(|| format!("{}", page.display()))?;
            }
        }
        Ok(())
    }

    /// The file of a script.
    fn script(&self, name: &str) -> Option<PathBuf> {
        ["t", "sh"]
            .map(|extension| self.scripts.join(format!("{name}.{extension}")))
            .into_iter()
            .find(|f| f.is_file())
    }

    /// Runs one script in this environment.
    fn counts(&self, house: &House, name: &str, environment: &Environment, limit: u64) -> Result<Counts> {
        let file = self
            .script(name)
            .with_context(|| format!("{name}: there is no such script in {}", self.scripts.display()))?;
        let trash = tempfile::tempdir().context("cannot make a folder")?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &limit.to_string()]).args(&self.before).arg(&file);
        if self.apart {
            command.arg(format!("--root={}", trash.path().display()));
        }
        command.current_dir(&self.folder);
        command.env("FLUXGATE_POLICIES", house.policies());
        // A script has a home of its own: without this cache, each start of the scheduler would compile its policies anew.
        command.env("XDG_CACHE_HOME", house.target().join("flux-tests"));
        for name in ["FLUX_URI", "FLUX_SCHED_TEST_INSTALLED", "FLUX_TEST_INSTALLED_PATH"] {
            command.env_remove(name);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("{}", file.display()))?;
        Ok(Counts::read(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// A script's name without its extension.
fn bare(name: &str) -> &str {
    name.strip_suffix(".t").or_else(|| name.strip_suffix(".sh")).unwrap_or(name)
}

/// The folder of a tree that was given on the command line.
fn folder(option: &str, path: &Path) -> Result<PathBuf> {
    let path = path.canonicalize().with_context(|| format!("{option} {}", path.display()))?;
    if !path.is_dir() {
        bail!("{option} {}: not a folder", path.display());
    }
    Ok(path)
}

/// Folders as an environment variable lists them, before what it has.
fn before(name: &str, folders: &[&Path]) -> Result<OsString> {
    let has = std::env::var_os(name).unwrap_or_default();
    let has = std::env::split_paths(&has).filter(|path| path.as_os_str() != OsStr::new(""));
    let all = folders.iter().map(|path| path.to_path_buf()).chain(has);
    std::env::join_paths(all).with_context(|| format!("{name} has no room for {folders:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_named_with_and_without_their_extension() {
        assert_eq!(["t1-a", "t1-a.t", "t1-a.sh"].map(bare), ["t1-a"; 3]);
    }

    #[test]
    fn a_tree_that_is_not_there_is_named_with_its_option() {
        let error = format!("{:#}", folder("--flux-sched", Path::new("/nosuch/tree")).unwrap_err());
        assert!(error.starts_with("--flux-sched /nosuch/tree: "), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(format!("{:#}", folder("--coral2", file.path()).unwrap_err()).ends_with("not a folder"));
    }

    #[test]
    fn a_script_is_run_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write(
            "t1-a.t",
            "echo \"ok 1 - $WHO\"; test -d \"${1#--root=}\" && echo \"not ok 2 - $WHO\"; echo 1..2\n",
        );
        write("t2-b.sh", "sleep 60\n");
        let suite = Suite {
            table: graph_scheduler::TABLE,
            version: "a suite".to_owned(),
            scripts: dir.path().to_owned(),
            folder: dir.path().to_owned(),
            before: vec!["sh".into()],
            apart: true,
            ours: vec![("WHO", "ours".into())],
            theirs: Environment::new(),
            _kept: Vec::new(),
        };
        let house = House::at(dir.path().to_owned(), dir.path().to_owned());
        let counts = suite.counts(&house, "t1-a", &suite.ours, 60).unwrap();
        assert_eq!((counts.passed, counts.names), (1, vec!["2 - ours".to_owned()]));
        let counts = suite.counts(&house, "t2-b", &suite.ours, 1).unwrap();
        assert_eq!(counts.cut.as_deref(), Some("did not come to its end"));
        let error = format!("{:#}", suite.counts(&house, "t3-c", &suite.ours, 1).unwrap_err());
        assert!(error.starts_with("t3-c: there is no such script in "), "{error}");
    }
}
