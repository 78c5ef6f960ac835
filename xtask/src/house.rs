//! Paths of the workspace, and the start of programs.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// The workspace and its target folder.
#[derive(Debug, Clone)]
pub(crate) struct House {
    root: PathBuf,
    target: PathBuf,
}

impl House {
    /// The workspace whose cargo runs this program; without cargo, the one in which it was built.
    pub(crate) fn find() -> Result<Self> {
        // A target folder that two copies of the workspace share may hold the program of the other.
        let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let here = Path::new(&here);
        let root = here.parent().context("xtask lies in the workspace's root")?.to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => env::current_dir()?.join(dir),
            None => root.join("target"),
        };
        Ok(House { root, target })
    }

    /// A workspace with this target folder.
    pub(crate) fn at(root: PathBuf, target: PathBuf) -> Self {
        House { root, target }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The day, and the commit of this tree.
    pub(crate) fn day_and_commit(&self) -> Result<String> {
        let day = Program::new("date").args(["-u", "+%F"]).read()?;
        let describe = ["describe", "--always", "--dirty=+changes", "--exclude=*"];
        let commit = Program::new("git").folder(&self.root).args(describe).read()?;
        Ok(format!("{}, {}", day.trim(), commit.trim()))
    }

    /// The folder of finished components.
    pub(crate) fn policies(&self) -> PathBuf {
        self.target.join("policies")
    }

    /// `cargo SUBCOMMAND` in the workspace.
    pub(crate) fn cargo(&self, subcommand: &str) -> Program {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        self.program(cargo).arg(subcommand)
    }

    /// Any program, started in the workspace with the environment variables that our own programs read.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Program {
        let mut program = Program::new(name);
        program.0.current_dir(&self.root);
        program.env("CARGO_TARGET_DIR", &self.target).env("FLUXGATE_POLICIES", self.policies())
    }
}

/// All files below a folder, none if there is no such folder, in order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut all, mut next) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry?.path();
            match path.symlink_metadata()?.is_dir() {
                true => next.push(path),
                false => all.push(path),
            }
        }
    }
    all.sort();
    Ok(all)
}

/// A program to start: [`Command`] with errors that name the whole command line.
pub(crate) struct Program(Command);

impl Program {
    pub(crate) fn new(name: impl AsRef<OsStr>) -> Self {
        Program(Command::new(name))
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.0.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.0.env_remove(name);
        self
    }

    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Runs it with its output on ours; an error unless it succeeds.
    pub(crate) fn run(mut self) -> Result<()> {
        let status = self.0.status().with_context(|| format!("cannot start {self}"))?;
        if !status.success() {
            bail!("{self}: {status}");
        }
        Ok(())
    }

    /// Runs it with its output and its errors on our output, all lines up to one that ends a block at a time.
    pub(crate) fn run_in_blocks(mut self, ends: impl Fn(&str) -> bool) -> Result<()> {
        let (lines, output) = io::pipe().context("cannot make a pipe")?;
        self.0.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let name = self.to_string();
        let mut child = self.0.spawn().with_context(|| format!("cannot start {name}"))?;
        // The command holds ends of the pipe, which would keep it open.
        drop(self);
        let mut block = String::new();
        for line in BufReader::new(lines).split(b'\n') {
            // A test may write any bytes.
            let line = line.with_context(|| format!("cannot read the output of {name}"))?;
            let line = String::from_utf8_lossy(&line);
            block += &line;
            block.push('\n');
            if ends(&line) {
                print!("{}", std::mem::take(&mut block));
            }
        }
        print!("{block}");
        let status = child.wait()?;
        if !status.success() {
            bail!("{name}: {status}");
        }
        Ok(())
    }

    /// Runs it and is told each line of its standard output when it comes; its standard error is in the error.
    pub(crate) fn watch(mut self, mut line: impl FnMut(&str)) -> Result<()> {
        self.0.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.0.spawn().with_context(|| format!("cannot start {self}"))?;
        let (out, said) = (child.stdout.take(), child.stderr.take());
        // Both at once: neither pipe fills while the other one is read.
        let said = thread::spawn(move || said.map(io::read_to_string).transpose());
        for each in BufReader::new(out.context("a pipe was asked for")?).lines() {
            line(&each.with_context(|| format!("{self}: its output is not UTF-8"))?);
        }
        let status = child.wait()?;
        let said = said.join().ok().and_then(Result::ok).flatten().unwrap_or_default();
        if !status.success() {
            bail!("{self}: {status}: {}", said.trim());
        }
        Ok(())
    }

    /// Runs it and returns its standard output; its standard error is in the error.
    pub(crate) fn read(mut self) -> Result<String> {
        let output = self.0.stdin(Stdio::null()).output().with_context(|| format!("cannot start {self}"))?;
        if !output.status.success() {
            bail!("{self}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("{self}: its output is not UTF-8"))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}", self.0.get_program().to_string_lossy())?;
        for argument in self.0.get_args() {
            write!(f, " {}", argument.to_string_lossy())?;
        }
        write!(f, "`")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The crates of others that a package is built from, each with its features.
    fn built(package: &str) -> BTreeSet<String> {
        let tree =
            House::find().unwrap().cargo("tree").args(["--package", package, "--edges", "normal,build"]);
        let said = tree.args(["--prefix", "none", "--format", "{p} [{f}]", "--frozen"]).read().unwrap();
        let lines = said.lines().map(|line| line.trim_end_matches(" (*)"));
        lines.filter(|line| !line.is_empty() && !line.contains("(/")).map(str::to_owned).collect()
    }

    /// A crate with two sets of features is compiled twice; a build from an empty folder waits for it.
    #[test]
    fn crates_are_built_once() {
        let program = built("fluxgate");
        let mut builds: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &program {
            *builds.entry(line.split(' ').next().unwrap()).or_default() += 1;
        }
        // A crate of which two versions are there has its reason in deny.toml.
        let sets = |name: &&str| {
            let lines = program.iter().filter(|line| line.split(' ').next() == Some(name));
            let versions: BTreeSet<&str> = lines.map(|line| line.split(' ').nth(1).unwrap()).collect();
            builds[name] > versions.len()
        };
        let twice: Vec<&str> = builds.keys().copied().filter(sets).collect();
        // These crates are small, and macros must not have the features that the program has of them.
        assert_eq!(twice, ["cranelift-bitset", "pulley-interpreter", "wasmtime-internal-core"]);

        let xtask = built("xtask");
        let apart: Vec<&String> = xtask.difference(&program).collect();
        assert!(xtask.len() > 50 && apart.is_empty(), "built for xtask alone: {apart:#?}");
    }
}
