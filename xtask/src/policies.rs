//! Policies: from folders of source to `target/policies/NAME.wasm`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::component;
use crate::house::{House, Program};
use crate::stamp;
use crate::toolchain::{TARGET, Toolchain};

/// Changes whenever a change of this file changes the output for the same input.
const RECIPE: &str = "1";

/// The profile `policy` for a foreign workspace, which may not define it.
const PROFILE: [&str; 5] = [
    "profile.policy.inherits=\"release\"",
    "profile.policy.opt-level=3",
    "profile.policy.codegen-units=1",
    "profile.policy.panic=\"abort\"",
    "profile.policy.strip=\"debuginfo\"",
];

/// A policy's package.
#[derive(Debug)]
struct Package {
    /// Its name for cargo.
    name: String,
    /// File name of the library, without `.wasm`.
    library: String,
    workspace: PathBuf,
    manifest: PathBuf,
}

impl Package {
    /// Name of the finished component: the package's without `policy-`.
    fn policy(&self) -> &str {
        self.name.strip_prefix("policy-").unwrap_or(&self.name)
    }

    /// The recipe, with the folder of the source: two copies of the workspace may share a target folder.
    fn recipe(&self, recipe: &str) -> String {
        format!("{recipe}; {}", self.manifest.display())
    }

    fn output(&self, out: &Path) -> PathBuf {
        out.join(format!("{}.wasm", self.policy()))
    }

    fn stamp(&self, house: &House, out: &Path) -> PathBuf {
        let output = stamp::sha256(self.output(out).as_os_str().as_encoded_bytes());
        house.target().join("wasm/stamps").join(format!("{}-{}", self.policy(), &output[..16]))
    }

    /// The path of the library, with this extension.
    fn built(&self, house: &House, extension: &str) -> PathBuf {
        let folder = house.target().join("wasm").join(TARGET).join("policy");
        folder.join(&self.library).with_extension(extension)
    }
}

/// Builds the policies in these folders, or all of the workspace, into `target/policies`, and returns the finished
/// files.
pub(crate) fn build(house: &House, folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    build_into(house, folders, &house.policies())
}

/// Builds the policies in these folders, or all of the workspace, while this program runs. Each of the two builds keeps only one core
/// busy at times, and they share no folder but the registry's.
pub(crate) fn build_beside(house: &House, folders: &[PathBuf], beside: Program) -> Result<()> {
    thread::scope(|scope| {
        let policies = scope.spawn(|| build(house, folders));
        let ran = beside.run();
        let built = policies.join().map_err(|_| anyhow!("the build of the policies panicked"))?;
        built.and(ran)
    })
}

/// As [`build`], into any folder.
pub(crate) fn build_into(house: &House, folders: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>> {
    let began = Instant::now();
    let packages = find(house, folders)?;
    let toolchain = Toolchain::find(house)?;
    let recipe = format!("{RECIPE}; {}", toolchain.version());
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    fs::create_dir_all(house.target().join("wasm/stamps"))?;

    let mut stale: BTreeMap<&Path, Vec<&Package>> = BTreeMap::new();
    for package in &packages {
        if !stamp::is_fresh(&package.stamp(house, out), &package.output(out), &package.recipe(&recipe)) {
            stale.entry(&package.workspace).or_default().push(package);
        }
    }
    let built = stale.values().map(Vec::len).sum::<usize>();
    for (workspace, packages) in stale {
        compile(house, &toolchain, workspace, &packages)?;
        for package in packages {
            finish(house, package, out, &package.recipe(&recipe))?;
        }
    }
    let unchanged = packages.len() - built;
    let seconds = began.elapsed().as_secs_f64();
    println!("policies: {built} built, {unchanged} unchanged, in {} ({seconds:.1} s)", out.display());
    Ok(packages.iter().map(|package| package.output(out)).collect())
}

/// One cargo call for all packages of a workspace.
fn compile(house: &House, toolchain: &Toolchain, workspace: &Path, packages: &[&Package]) -> Result<()> {
    let mut cargo = toolchain
        .cargo_build(house, workspace)?
        .folder(workspace)
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"));
    for package in packages {
        cargo = cargo.args(["--package", &package.name]);
    }
    if workspace != house.root() {
        for setting in PROFILE {
            cargo = cargo.args(["--config", setting]);
        }
    }
    cargo.run()
}

/// Checks a component that was just built and writes it to its output file.
fn finish(house: &House, package: &Package, out: &Path, recipe: &str) -> Result<()> {
    let built = package.built(house, "wasm");
    let bytes = fs::read(&built).with_context(|| format!("{}", built.display()))?;
    let abilities = component::abilities(&bytes).with_context(|| format!("policy {}", package.policy()))?;
    let output = package.output(out);
    component::place(&bytes, &output)?;
    stamp::write(&package.stamp(house, out), &output, recipe, &package.built(house, "d"))?;
    println!("policies: {} ({} kB; {})", package.policy(), bytes.len().div_ceil(1000), abilities.join(", "));
    Ok(())
}

/// The packages in these folders, or in all of `policies/`.
fn find(house: &House, folders: &[PathBuf]) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    if folders.is_empty() {
        let room = house.root().join("policies");
        // Our policies are named after their folders, so cargo need not be asked.
        for entry in fs::read_dir(&room).with_context(|| format!("{}", room.display()))? {
            let manifest = entry?.path().join("Cargo.toml");
            if manifest.is_file() {
                packages.push(ours(house, manifest)?);
            }
        }
    }
    for folder in folders {
        packages.push(foreign(house, folder)?);
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in packages.windows(2) {
        if pair[0].policy() == pair[1].policy() {
            bail!("two policies are named `{}`", pair[0].policy());
        }
    }
    Ok(packages)
}

fn ours(house: &House, manifest: PathBuf) -> Result<Package> {
    let folder = manifest.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let folder = folder.with_context(|| format!("{}: its folder has no name", manifest.display()))?;
    Ok(Package {
        name: format!("policy-{folder}"),
        library: format!("policy_{}", folder.replace('-', "_")),
        workspace: house.root().to_path_buf(),
        manifest,
    })
}

/// The package in a foreign folder, as cargo describes it.
fn foreign(house: &House, folder: &Path) -> Result<Package> {
    let manifest = folder.join("Cargo.toml");
    let manifest =
        manifest.canonicalize().with_context(|| format!("{} is not a policy's folder", folder.display()))?;
    let metadata = house
        .cargo("metadata")
        .args(["--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(&manifest)
        .read()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let workspace = metadata["workspace_root"].as_str().context("cargo metadata names no workspace_root")?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages
        .find(|package| package["manifest_path"].as_str().map(Path::new) == Some(&manifest))
        .with_context(|| format!("{} describes no package", manifest.display()))?;
    let targets = package["targets"].as_array().into_iter().flatten();
    let is_component =
        |target: &&Value| target["crate_types"].as_array().into_iter().flatten().any(|kind| kind == "cdylib");
    let library =
        targets.filter(is_component).find_map(|target| target["name"].as_str()).with_context(|| {
            format!("{}: no library of `crate-type = [\"cdylib\", \"rlib\"]`", manifest.display())
        })?;
    Ok(Package {
        name: package["name"].as_str().context("cargo metadata names no package")?.to_owned(),
        library: library.replace('-', "_"),
        workspace: workspace.into(),
        manifest,
    })
}

/// Builds once more from a copy in another folder and compares: the bytes must depend on the source alone.
///
/// The other folder has a target folder of its own, which is kept, so that only our crates are built again.
pub(crate) fn check_reproducible(house: &House, folders: &[PathBuf]) -> Result<()> {
    let first = build(house, folders)?;
    let away = house.target().join("reproducible");
    let copies = away.join("some/where/else");
    if copies.exists() {
        fs::remove_dir_all(&copies).with_context(|| format!("{}", copies.display()))?;
    }
    let mut different = Vec::new();
    for (package, output) in find(house, folders)?.iter().zip(&first) {
        let ours = package.workspace == house.root();
        let copy = copies.join(if ours { "house" } else { package.policy() });
        if !copy.exists() {
            copy_sources(&package.workspace, &copy)?;
        }
        let folder =
            package.manifest.parent().and_then(|folder| folder.strip_prefix(&package.workspace).ok());
        let folder = copy.join(folder.context("a manifest outside its workspace")?);
        let root = if ours { copy } else { house.root().to_path_buf() };
        let second = build(&House::at(root, away.join("target")), &[folder])?;
        let [a, b] = [fs::read(output)?, fs::read(&second[0])?].map(|bytes| stamp::sha256(&bytes));
        println!("reproducible: {} {a} {}", package.policy(), if a == b { "same" } else { "DIFFERENT" });
        if a != b {
            different.push(package.policy().to_owned());
        }
    }
    if !different.is_empty() {
        bail!("not reproducible: {}", different.join(", "));
    }
    Ok(())
}

/// Copies a workspace without built and hidden files; links become the files that they point to.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if ["target", ".git", "out"].iter().any(|skipped| name == *skipped) {
            continue;
        }
        if entry.path().is_dir() {
            copy_sources(&entry.path(), &to.join(&name))?;
        } else {
            fs::copy(entry.path(), to.join(&name)).with_context(|| format!("{}", entry.path().display()))?;
        }
    }
    Ok(())
}
