//! Paths of the workspace, and the start of programs.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
