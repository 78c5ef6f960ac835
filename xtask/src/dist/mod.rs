//! `cargo xtask dist`: what is handed to users. A small program with its policies inside, for every Linux of this processor since
//! glibc 2.28; a tarball and a Debian package of it, both with man pages and completions; a bill of materials; their digests. The
//! same commit gives the same bytes.
//!
//! Must never know what the program does.

mod bundle;
mod check;
mod sbom;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::house::{House, Program};
use crate::{policies, tools};

/// The profile of the workspace that it is built with.
const PROFILE: &str = "dist";
/// Oldest glibc that the program runs with: that of RHEL 8.
const GLIBC: (u32, u32) = (2, 28);
/// For these processors and this system.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// Links against any glibc; with the linker that it brings.
const LINKER: &str = "cargo-zigbuild==0.24.0";

/// `cargo xtask dist`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Put the packages here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Link against the glibc of this machine, without fetching another linker: for this machine and newer ones.
    #[arg(long)]
    here: bool,
    /// Pack this program and the components in the folder of built policies, and build nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "here")]
    program: Option<PathBuf>,
    /// Build once more in another folder and compare the bytes; then try each package in an empty folder without network.
    #[arg(long)]
    check: bool,
}

/// What is being made.
struct Dist<'a> {
    house: &'a House,
    /// The folder of packages.
    out: PathBuf,
    /// Folder of the programs of the linker; `None` for that of this machine.
    linker: Option<PathBuf>,
    /// Version of the workspace.
    version: String,
    /// Time of all files, seconds since the epoch: that of the commit.
    time: String,
}

/// Make the packages.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let out = options.out.clone().unwrap_or_else(|| house.target().join("dist"));
    let out = std::path::absolute(out)?;
    let linker = match options.here || options.program.is_some() {
        true => None,
        false => Some(tools::from_pypi(&house.target().join("toolchains/linker"), LINKER)?),
    };
    let git = house.program("git").args(["log", "-1", "--format=%ct"]).read();
    let time = git.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned());
    let dist = Dist { house, out, linker, version: version(house)?, time };
    let (components, program) = match &options.program {
        Some(program) => (dist.components(dist.present()?)?, std::path::absolute(program)?),
        None => {
            let components = dist.components(policies::build(house, &[])?)?;
            let program = dist.build(&components, "one")?;
            (components, program)
        }
    };
    let made = dist.make(&program, &components)?;
    for path in &made {
        println!("{:>10}  {}", fs::metadata(path)?.len(), path.display());
    }
    if options.check {
        dist.try_all(&made)?;
        let again = match &options.program {
            Some(_) => program.clone(),
            None => dist.build(&components, "two")?,
        };
        dist.compare(&program, &again, &components, &made)?;
    }
    Ok(())
}

/// The version of all crates of the workspace.
fn version(house: &House) -> Result<String> {
    let text = fs::read_to_string(house.root().join("Cargo.toml")).context("Cargo.toml")?;
    let table: toml::Table = text.parse().context("Cargo.toml")?;
    let version = table.get("workspace").and_then(|w| w.get("package")?.get("version")?.as_str());
    Ok(version.context("Cargo.toml: no version of the workspace")?.to_owned())
}

impl Dist<'_> {
    /// The components of our policies in Rust that were built before.
    fn present(&self) -> Result<Vec<PathBuf>> {
        let folder = self.house.root().join("policies");
        let names = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let names = names.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
        let ours = names.iter().filter(|name| folder.join(name).join("Cargo.toml").is_file());
        let mut files = ours.map(|name| self.house.policies().join(name).with_extension("wasm"));
        match files.clone().find(|path| !path.is_file()) {
            Some(missing) => bail!("{}: not built yet; `cargo xtask policies` does", missing.display()),
            None => Ok(files.by_ref().collect()),
        }
    }

    /// The policies that are packed, in a folder of their own: all but the one that misbehaves on demand.
    fn components(&self, built: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        let folder = self.out.join("components");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut all = Vec::new();
        for path in built.iter().filter(|path| path.file_stem().is_some_and(|name| name != "broken")) {
            let copy = folder.join(path.file_name().context("a component has a name")?);
            fs::copy(path, &copy).with_context(|| path.display().to_string())?;
            all.push(copy);
        }
        all.sort();
        Ok(all)
    }

    /// Build the program, in a target folder of this name.
    fn build(&self, components: &[PathBuf], name: &str) -> Result<PathBuf> {
        let target = self.out.join("build").join(name);
        let command = if self.linker.is_some() { "zigbuild" } else { "build" };
        let platform = match self.linker {
            Some(_) => format!("{PLATFORM}.{}.{}", GLIBC.0, GLIBC.1),
            None => PLATFORM.to_owned(),
        };
        let embed = components.first().and_then(|path| path.parent()).context("there are no policies")?;
        let build =
            self.house.cargo(command).args(["--package", "fluxgate", "--bin", "fluxgate", "--locked"]);
        let build = build.args(["--profile", PROFILE, "--target", &platform]);
        self.settled(build, &target)?.env("FLUXGATE_EMBED", embed).run()?;
        Ok(target.join(PLATFORM).join(PROFILE).join("fluxgate"))
    }

    /// The environment in which the same sources give the same bytes, wherever they and the caches of cargo are.
    fn settled(&self, cargo: Program, target: &Path) -> Result<Program> {
        let home =
            env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
        let home = home.context("neither CARGO_HOME nor HOME is set")?;
        // The last one that fits wins, so that the narrower ones come later.
        let places = [(home.as_path(), "/cargo"), (self.house.root(), "/fluxgate"), (target, "/target")];
        let rust: Vec<String> =
            places.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
        let c: Vec<String> =
            places.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
        let mut cargo = cargo
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f"))
            .env("CFLAGS", c.join(" "))
            .env("SOURCE_DATE_EPOCH", &self.time);
        if let Some(programs) = &self.linker {
            let path = env::var_os("PATH").unwrap_or_default();
            let path = env::join_paths(std::iter::once(programs.clone()).chain(env::split_paths(&path)))?;
            cargo = cargo.env("PATH", path);
        }
        Ok(cargo)
    }

    /// All packages of a program, and the list of their digests.
    fn make(&self, program: &Path, components: &[PathBuf]) -> Result<Vec<PathBuf>> {
        if let Some(newest) = check::newest_glibc(&fs::read(program)?).filter(|found| *found > GLIBC)
            && self.linker.is_some()
        {
            bail!(
                "{}: needs glibc {}.{}, accepted is {}.{}",
                program.display(),
                newest.0,
                newest.1,
                GLIBC.0,
                GLIBC.1
            );
        }
        let bill = self.out.join(format!("fluxgate-{}.cdx.json", self.version));
        let text = serde_json::to_string_pretty(&sbom::make(self.house, PLATFORM, components)?)? + "\n";
        fs::write(&bill, text).with_context(|| bill.display().to_string())?;
        let bundle = bundle::Bundle { dist: self, program, bill: &bill, components };
        let mut made = vec![bundle.tarball()?, bundle.debian()?, bill.clone()];
        let mut sums = String::new();
        for path in &made {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            sums += &format!("{}  {name}\n", digest(path)?);
        }
        let list = self.out.join("SHA256SUMS");
        fs::write(&list, sums).with_context(|| list.display().to_string())?;
        made.push(list);
        Ok(made)
    }
}

/// SHA-256 of a file.
fn digest(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(sbom::hex(&Sha256::digest(bytes)))
}
