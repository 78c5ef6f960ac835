//! `cargo xtask dist`: packages for users. A small program with its policies inside, for every Linux of this processor since
//! glibc 2.28; a tarball and a Debian package of it, both with man pages and completions; a wheel of the Python package with the
//! program inside; a bill of materials; their digests. The same commit gives the same bytes, with the same counts of runs where
//! those are asked for.
//!
//! Must never know what the program does.

mod archive;
mod bundle;
mod check;
mod sbom;
mod wheel;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::house::{House, Program};
use crate::{guided, policies, toolchain, tools};

/// The profile of the workspace that it is built with.
const PROFILE: &str = "dist";
/// Oldest glibc that the program runs with: that of RHEL 8.
const GLIBC: (u32, u32) = (2, 28);
/// For these processors and this system.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// The module of the Python package, as cargo names it.
const MODULE: &str = "lib_fluxgate.so";
/// Links against any glibc; with the linker, whose version is part of the bytes.
const LINKER: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.1"];

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
    /// With --program: the module of the Python package that was built with it, `lib_fluxgate.so`; no wheel is made without.
    #[arg(long, value_name = "FILE", requires = "program")]
    module: Option<PathBuf>,
    /// Optimise with counts of runs: build with counters, make replays and a demo, then build with the counts, which are put beside
    /// the packages. Takes twice the time.
    #[arg(long, conflicts_with = "program")]
    guided: bool,
    /// Optimise with these counts of an earlier run, for the same bytes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "guided"])]
    counts: Option<PathBuf>,
    /// Build once more in another folder and compare the bytes; then try each package in an empty folder without network.
    #[arg(long)]
    check: bool,
}

/// Results of a build.
#[derive(Clone)]
struct Built {
    program: PathBuf,
    /// The module of the Python package; `None` if no wheel is to be made.
    module: Option<PathBuf>,
    /// The counts of runs that both are optimised with, beside the packages.
    counts: Option<PathBuf>,
}

/// The use of counts of runs in a build.
#[derive(Clone, Copy)]
enum Counts<'a> {
    /// No counts.
    None,
    /// Programs that write counts into this folder.
    Write(&'a Path),
    /// Programs that are optimised with the counts in this file.
    Use(&'a Path),
}

/// Packages that are being made.
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
        false => Some(tools::environment(&house.target().join("toolchains/linker"), &LINKER)?),
    };
    let git = house.program("git").args(["log", "-1", "--format=%ct"]).read();
    let time = git.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned());
    let dist = Dist { house, out, linker, version: version(house)?, time };
    // They may lie where the new ones are put.
    let earlier = options.counts.as_deref().map(guided::read).transpose()?;
    let (components, built) = match &options.program {
        Some(program) => {
            let module = options.module.as_ref().map(std::path::absolute).transpose()?;
            (
                dist.components(dist.present()?)?,
                Built { program: std::path::absolute(program)?, module, counts: None },
            )
        }
        None => {
            let components = dist.components(policies::build(house, &[])?)?;
            let counts = dist.counts(options.guided, earlier, &components)?;
            let built = dist.build(&components, "one", counts.as_deref())?;
            (components, built)
        }
    };
    let made = dist.make(&built, &components)?;
    for path in &made {
        println!("{:>10}  {}", fs::metadata(path)?.len(), path.display());
    }
    if options.check {
        dist.try_all(&made)?;
        let again = match &options.program {
            Some(_) => built.clone(),
            None => dist.build(&components, "two", built.counts.as_deref())?,
        };
        dist.compare(&built, &again, &components, &made)?;
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

    /// The counts of runs that the program is to be optimised with, beside the packages: earlier ones, or new ones.
    fn counts(
        &self,
        guided: bool,
        earlier: Option<Vec<u8>>,
        components: &[PathBuf],
    ) -> Result<Option<PathBuf>> {
        let counts = self.out.join(format!("fluxgate-{}.profdata", self.version));
        match earlier {
            Some(bytes) => fs::write(&counts, bytes).with_context(|| counts.display().to_string())?,
            None if guided => {
                // Fetched before the long build.
                let merge = toolchain::llvm_profdata(self.house)?;
                let runs = self.out.join("build/counts");
                let built = self.build_with(components, "counting", Counts::Write(&runs))?;
                guided::count(self.house, &merge, &built.program, &runs, &counts)?;
            }
            None => return Ok(None),
        }
        Ok(Some(counts))
    }

    /// Build the program and the module of the Python package, in a target folder of this name.
    fn build(&self, components: &[PathBuf], name: &str, counts: Option<&Path>) -> Result<Built> {
        let Some(counts) = counts else { return self.build_with(components, name, Counts::None) };
        let kept = guided::kept(counts, &self.out.join("build").join(format!("{name}-counts")))?;
        let built = self.build_with(components, name, Counts::Use(&kept))?;
        Ok(Built { counts: Some(counts.to_path_buf()), ..built })
    }

    /// In one build, the crates that both are made of are compiled once.
    fn build_with(&self, components: &[PathBuf], name: &str, counts: Counts<'_>) -> Result<Built> {
        let target = self.out.join("build").join(name);
        // A program that counts runs here and now; names in both builds are the same.
        let linker = self.linker.as_ref().filter(|_| !matches!(counts, Counts::Write(_)));
        let (command, platform) = match linker {
            Some(_) => ("zigbuild", format!("{PLATFORM}.{}.{}", GLIBC.0, GLIBC.1)),
            None => ("build", PLATFORM.to_owned()),
        };
        let embed = components.first().and_then(|path| path.parent()).context("there are no policies")?;
        let build = self.house.cargo(command).args(["--package", "fluxgate", "--bin", "fluxgate"]);
        let build = build.args(["--package", "fluxgate-python", "--lib", "--locked"]);
        let build = build.args(["--profile", PROFILE, "--target", &platform]);
        // The module is for every Python since the oldest one, whichever this machine has.
        let build = self.settled(build, &target, counts)?.env("PYO3_NO_PYTHON", "1");
        build.env("FLUXGATE_EMBED", embed).run()?;
        let folder = target.join(PLATFORM).join(PROFILE);
        Ok(Built { program: folder.join("fluxgate"), module: Some(folder.join(MODULE)), counts: None })
    }

    /// The environment in which the same sources give the same bytes, wherever they and the caches of cargo are.
    fn settled(&self, cargo: Program, target: &Path, counts: Counts<'_>) -> Result<Program> {
        let home =
            env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
        let home = home.context("neither CARGO_HOME nor HOME is set")?;
        // The last prefix that fits wins, so that the narrower ones come later.
        let places = [(home.as_path(), "/cargo"), (self.house.root(), "/fluxgate"), (target, "/target")];
        let mut rust: Vec<String> =
            places.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
        rust.extend(match counts {
            Counts::None => None,
            Counts::Write(folder) => Some(guided::counting(folder)),
            Counts::Use(file) => Some(guided::using(file)),
        });
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

    /// All packages of a build, and the list of their digests.
    fn make(&self, built: &Built, components: &[PathBuf]) -> Result<Vec<PathBuf>> {
        for file in std::iter::once(&built.program).chain(&built.module) {
            let newest = check::newest_glibc(&fs::read(file).with_context(|| file.display().to_string())?);
            if let Some((major, minor)) = newest.filter(|found| self.linker.is_some() && *found > GLIBC) {
                let (file, accepted) = (file.display(), format!("{}.{}", GLIBC.0, GLIBC.1));
                bail!("{file}: needs glibc {major}.{minor}, accepted is {accepted} and older");
            }
        }
        let bill = self.out.join(format!("fluxgate-{}.cdx.json", self.version));
        let text = serde_json::to_string_pretty(&sbom::make(self.house, PLATFORM, components)?)? + "\n";
        fs::write(&bill, text).with_context(|| bill.display().to_string())?;
        let bundle = bundle::Bundle { dist: self, program: &built.program, bill: &bill, components };
        let mut made = vec![bundle.tarball()?, bundle.debian()?, bill.clone()];
        if built.module.is_some() {
            made.insert(2, self.wheel(built, components, &bill)?);
        }
        made.extend(built.counts.clone());
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
    Ok(hex(&Sha256::digest(bytes)))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
