//! `cargo xtask crates`: the crates for others as they would be published: packed in their order, without network, and checked.
//!
//! Must never publish anything.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::house::House;
use crate::tools;

/// The crates that are published, each after those that it needs.
const ORDER: [&str; 6] = [
    "fluxgate-formats",
    "fluxgate-graph",
    "fluxgate-engine",
    "fluxgate-sim",
    "fluxgate-guest",
    "fluxgate-networks",
];
/// Files that each package has besides its sources.
const FILES: [&str; 2] = ["README.md", "LICENSE"];
/// Largest package that crates.io takes.
const BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The crate of the tool that compares two versions of a crate, and its version.
const COMPARER: (&str, &str) = ("cargo-semver-checks", "0.51.0");

/// `cargo xtask crates`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also build each crate from its package alone; takes minutes.
    #[arg(long)]
    build: bool,
    /// Also compare each crate with that of this commit or tag: what breaks programs that use it needs another version.
    #[arg(long, value_name = "REV")]
    against: Option<String>,
}

/// Pack and check them.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let metadata =
        house.cargo("metadata").args(["--no-deps", "--format-version", "1", "--offline"]).read()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata: no packages")?;
    // Null is any registry, an empty list is none.
    let published = packages.iter().filter(|package| package["publish"].is_null());
    let names: Vec<&str> = published.clone().filter_map(|package| package["name"].as_str()).collect();
    for name in &names {
        ensure!(ORDER.contains(name), "{name}: is published, and `cargo xtask crates` has no place for it");
    }
    for (place, name) in ORDER.into_iter().enumerate() {
        let package = published.clone().find(|package| package["name"] == name);
        check(package.with_context(|| format!("{name}: is not published"))?, &ORDER[..place])?;
        let list =
            house.cargo("package").args(["--list", "--offline", "--allow-dirty", "-p", name]).read()?;
        for file in FILES {
            ensure!(list.lines().any(|line| line == file), "{name}: {file} is not in its package");
        }
    }
    let mut pack = house.cargo("package").args(["--quiet", "--offline", "--locked", "--allow-dirty"]);
    if !options.build {
        pack = pack.arg("--no-verify");
    }
    pack.args(ORDER.iter().flat_map(|name| ["-p", *name])).run()?;
    for name in ORDER {
        let path = made(house, packages, name)?;
        let bytes = fs::metadata(&path).with_context(|| path.display().to_string())?.len();
        ensure!(bytes <= BYTES_MAX, "{}: {bytes} bytes, accepted are {BYTES_MAX}", path.display());
        println!("{bytes:>10}  {}", path.display());
    }
    options.against.as_deref().map_or(Ok(()), |earlier| compare(house, earlier))
}

/// Compares the public items of each crate with those of an earlier commit, by the rules of semantic versioning.
fn compare(house: &House, earlier: &str) -> Result<()> {
    let known = house.program("git").args(["rev-parse", "--quiet", "--verify"]);
    let known = known.arg(format!("{earlier}^{{commit}}")).read();
    let commit =
        known.map_err(|_| anyhow!("--against {earlier}: expected a commit or a tag of this repository"))?;
    let (name, version) = COMPARER;
    let programs = tools::from_crates(house, name, version, "")?;
    let compare = house.program(programs.join(name)).args(["semver-checks", "--baseline-rev", commit.trim()]);
    let compare = compare.args(ORDER.iter().flat_map(|name| ["-p", *name]));
    compare
        .run()
        .with_context(|| format!("crates offer other things than at {earlier}, or could not be compared"))
}

/// Checks a crate for all that a registry and its readers expect; `before` are the crates that it may need.
fn check(package: &Value, before: &[&str]) -> Result<()> {
    let name = package["name"].as_str().unwrap_or_default();
    for field in ["description", "license", "readme"] {
        ensure!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name}: no {field}");
    }
    ensure!(package["keywords"].as_array().is_some_and(|list| !list.is_empty()), "{name}: no keywords");
    let needs = package["dependencies"].as_array().context("cargo metadata: no dependencies")?;
    // Crates for tests alone are left out of a package where they have no version.
    for needed in needs.iter().filter(|needed| needed["kind"] != "dev" && !needed["path"].is_null()) {
        let other = needed["name"].as_str().unwrap_or_default();
        if needed["req"] == "*" {
            bail!("{name}: {other} is needed without a version, in [workspace.dependencies]");
        }
        ensure!(before.contains(&other), "{name}: {other} is needed and not published before it");
    }
    Ok(())
}

/// The package that was made of a crate.
fn made(house: &House, packages: &[Value], name: &str) -> Result<PathBuf> {
    let version = packages.iter().find(|package| package["name"] == name);
    let version = version.and_then(|package| package["version"].as_str()).context("no version")?;
    Ok(house.target().join("package").join(format!("{name}-{version}.crate")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_that_cannot_be_published_is_told_by_what_it_lacks() {
        let well = json!({
            "name": "a", "description": "d", "license": "l", "readme": "README.md", "keywords": ["k"],
            "dependencies": [
                {"name": "serde", "kind": null, "path": null, "req": "^1"},
                {"name": "b", "kind": null, "path": "/b", "req": "^0.1.0"},
                {"name": "tests", "kind": "dev", "path": "/t", "req": "*"},
            ],
        });
        assert!(check(&well, &["b"]).is_ok());
        assert!(check(&well, &[]).unwrap_err().to_string().contains("not published before it"));
        for (at, value, says) in [
            ("/description", json!(null), "no description"),
            ("/readme", json!(null), "no readme"),
            ("/keywords", json!([]), "no keywords"),
            ("/dependencies/1/req", json!("*"), "without a version"),
        ] {
            let mut package = well.clone();
            *package.pointer_mut(at).unwrap() = value;
            let why = check(&package, &["b"]).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
    }
}
