//! Debian's own Rust for the web (the one its browsers are built with), where rustup cannot download.
//!
//! It is newer than Debian's ordinary Rust, and its sources are packaged, so the standard library for the target is
//! built from them. Nothing is installed and no root access is needed: the packages are fetched with a package index
//! of our own, checked by apt as always, and unpacked into a cache folder outside the workspace.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::house::Program;

/// The package that must be in the archive.
pub(crate) const COMPILER: &str = "rustc-web";

/// The sources of the standard library, which no package depends on.
const SOURCES: &str = "rust-web-src";

/// Oldest compiler that builds the policies' dependencies; an archive without updates may offer less.
const MINOR_MIN: u32 = 90;

/// The unpacked packages.
#[derive(Debug)]
pub(crate) struct Debian {
    root: PathBuf,
    /// Folder of the linkers that rustup ships.
    tools: PathBuf,
}

impl Debian {
    /// Uses the packages that an earlier call unpacked, or fetches them.
    pub(crate) fn find(tools: PathBuf) -> Result<Self> {
        let folder = cache_folder()?;
        let debian = Debian { root: folder.join("root"), tools };
        let complete = folder.join("complete");
        if !complete.is_file() {
            eprintln!(
                "Fetching Debian's {COMPILER} (about 140 MB) into {}; this is done once.",
                folder.display()
            );
            fetch(&folder, &debian.root, &[COMPILER, SOURCES])?;
            debian.version()?;
            fs::write(&complete, "")?;
        }
        Ok(debian)
    }

    /// The version of the compiler.
    ///
    /// It must also be new enough; the first of a release is not.
    pub(crate) fn version(&self) -> Result<String> {
        let rustc = Program::new(self.rustc()).env("LD_LIBRARY_PATH", self.libraries()?);
        let version = rustc.arg("-vV").read()?;
        let minor = version.strip_prefix("rustc 1.").and_then(|rest| rest.split('.').next()?.parse().ok());
        if minor.is_none_or(|minor: u32| minor < MINOR_MIN) {
            let first = version.lines().next().unwrap_or_default();
            bail!("the archive's {COMPILER} is {first}, but 1.{MINOR_MIN} is needed");
        }
        Ok(format!("Debian: {}", version.lines().collect::<Vec<_>>().join(", ")))
    }

    pub(crate) fn sysroot(&self) -> PathBuf {
        self.root.join("usr")
    }

    /// Makes a cargo build use this compiler and build the standard library too.
    pub(crate) fn adjust(&self, cargo: Program) -> Result<Program> {
        let path = env::var_os("PATH").unwrap_or_default();
        // `gcc-ld` has the `wasm-ld` that wasm-component-ld calls.
        let folders = [self.tools.clone(), self.tools.join("gcc-ld")];
        let path = env::join_paths(folders.into_iter().chain(env::split_paths(&path)))?;
        Ok(cargo
            .args(["-Zbuild-std=std,panic_abort", "--ignore-rust-version"])
            .env("RUSTC", self.rustc())
            .env("RUSTC_BOOTSTRAP", "1")
            .env("LD_LIBRARY_PATH", self.libraries()?)
            .env("PATH", path))
    }

    fn rustc(&self) -> PathBuf {
        self.root.join("usr/bin/rustc")
    }

    /// The folder of shared libraries, for any architecture of this machine.
    fn libraries(&self) -> Result<PathBuf> {
        let holds_compiler = |folder: &PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .into_iter()
                .any(|entry| entry.file_name().to_string_lossy().starts_with("librustc_driver"))
        };
        let folders = fs::read_dir(self.root.join("usr/lib")).context("nothing was unpacked")?;
        let mut folders = folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.find(holds_compiler).context("the packages hold no librustc_driver")
    }
}

/// `$XDG_CACHE_HOME/fluxgate/rustc-web`.
fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("fluxgate/rustc-web"))
}

/// Downloads packages with all required libraries that are not installed, and unpacks them into `root`. `folder` is
/// for apt's own files.
pub(crate) fn fetch(folder: &Path, root: &Path, packages: &[&str]) -> Result<()> {
    for program in ["apt-get", "dpkg-deb", "dpkg-query"] {
        Program::new(program).arg("--version").read().with_context(|| format!("`{program}` is needed"))?;
    }
    let downloads = folder.join("downloads");
    for each in ["lists/partial", "cache/archives/partial", "downloads"] {
        let each = folder.join(each);
        fs::create_dir_all(&each).with_context(|| format!("{}", each.display()))?;
    }
    apt(folder)?.arg("update").run()?;
    let mut wanted: VecDeque<String> = packages.iter().map(|&package| package.to_owned()).collect();
    let mut seen = BTreeSet::new();
    while let Some(package) = wanted.pop_front() {
        if !seen.insert(package.clone()) {
            continue;
        }
        apt(folder)?.args(["download", &package]).folder(&downloads).run()?;
        let file = downloaded(&downloads, &package)?;
        Program::new("dpkg-deb").arg("-x").args([file.as_path(), root]).run()?;
        let depends = Program::new("dpkg-deb").arg("-f").arg(&file).arg("Depends").read()?;
        wanted.extend(libraries_in(&depends).filter(|name| !is_installed(name)));
        fs::remove_file(&file)?;
    }
    Ok(())
}

/// apt-get with lists of its own, so that they can be updated without root access.
fn apt(folder: &Path) -> Result<Program> {
    let folder = folder.to_str().with_context(|| format!("{} is not UTF-8", folder.display()))?;
    Ok(Program::new("apt-get").args([
        "--quiet=2".to_owned(),
        format!("--option=Dir::State={folder}"),
        "--option=Dir::State::status=/var/lib/dpkg/status".to_owned(),
        format!("--option=Dir::Cache={folder}/cache"),
        // Only root could become another user, and need not.
        "--option=APT::Sandbox::User=".to_owned(),
    ]))
}

fn downloaded(folder: &Path, package: &str) -> Result<PathBuf> {
    let prefix = format!("{package}_");
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut files = entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".deb")
    });
    files.next().with_context(|| format!("apt-get downloaded no {package}"))
}

/// The libraries in a `Depends` field. Compilers and tools are expected on the machine: without them no Rust program
/// can be built.
fn libraries_in(depends: &str) -> impl Iterator<Item = String> + '_ {
    let names = depends.split(',').filter_map(|each| each.split(['|', '(', ':']).next());
    // Packages for compiling programs of this machine.
    let native = ["libc-dev", "libc6-dev", "libgcc-", "libstdc++-", "libobjc-"];
    let native =
        move |name: &str| native.iter().any(|prefix| name.starts_with(prefix) && name.ends_with("-dev"));
    names.map(|name| name.trim().to_owned()).filter(move |name| name.starts_with("lib") && !native(name))
}

fn is_installed(package: &str) -> bool {
    let status = Program::new("dpkg-query").args(["-W", "-f", "${db:Status-Status} ", package]).read();
    status.is_ok_and(|text| text.contains("installed ") && !text.contains("not-installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_depends_field() {
        let field = "libc6 (>= 2.34), libstd-web (= 1), gcc, libc-dev, libgcc-12-dev, binutils (>= 2.26), libx:any | liby\n";
        let found: Vec<String> = libraries_in(field).collect();
        assert_eq!(found, ["libc6", "libstd-web", "libx"]);
        assert_eq!(libraries_in("").count(), 0);
    }
}
