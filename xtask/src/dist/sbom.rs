//! The bill of materials of the program, as CycloneDX 1.5: every crate that is linked into it, with version, license and digest,
//! and every component inside it. The same sources give the same bytes.
//!
//! Must never build anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::hex;
use crate::house::House;

/// The crate of the program.
const PROGRAM: &str = "fluxgate";

/// The bill for a platform, with these components of policies.
pub(super) fn make(house: &House, platform: &str, components: &[PathBuf]) -> Result<Value> {
    let metadata = house.cargo("metadata").args(["--format-version", "1", "--locked"]);
    let text = metadata.args(["--filter-platform", platform]).read()?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    let lock = fs::read_to_string(house.root().join("Cargo.lock")).context("Cargo.lock")?;
    bill(&metadata, &checksums(&lock)?, components)
}

/// SHA-256 of the crates of a registry, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock: no packages")?;
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let row =
        |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(row).collect())
}

/// Packages that a node of the resolved graph needs in the program itself, without those for tests and builds.
fn linked(node: &Value) -> impl Iterator<Item = &str> {
    let deps = node["deps"].as_array().into_iter().flatten();
    let normal =
        |dep: &&Value| dep["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null());
    deps.filter(normal).filter_map(|dep| dep["pkg"].as_str())
}

fn bill(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    policies: &[PathBuf],
) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (packages, nodes) = (list(&metadata["packages"]), list(&metadata["resolve"]["nodes"]));
    let by_id = |all: &[Value]| -> BTreeMap<String, Value> {
        all.iter().filter_map(|one| Some((one["id"].as_str()?.to_owned(), one.clone()))).collect()
    };
    let (packages, nodes) = (by_id(&packages), by_id(&nodes));
    let Some(root) = packages.iter().find(|(_, package)| package["name"] == PROGRAM).map(|(id, _)| id) else {
        bail!("cargo metadata: no crate {PROGRAM}");
    };
    let (mut reached, mut next) = (BTreeSet::new(), vec![root.as_str()]);
    while let Some(id) = next.pop() {
        if reached.insert(id) {
            next.extend(nodes.get(id).into_iter().flat_map(linked));
        }
    }
    let name = |id: &str| -> String {
        let package = packages.get(id).unwrap_or(&Value::Null);
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        format!("pkg:cargo/{}@{}", text("name"), text("version"))
    };
    let part = |id: &str| {
        let package = packages.get(id).unwrap_or(&Value::Null);
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let mut part = json!({
            "type": "library", "bom-ref": name(id), "name": text("name"), "version": text("version"), "purl": name(id),
        });
        if !text("license").is_empty() {
            // Cargo once allowed a slash for "or".
            part["licenses"] = json!([{"expression": text("license").replace('/', " OR ")}]);
        }
        if let Some(checksum) = checksums.get(&(text("name"), text("version"))) {
            part["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        part
    };
    let mut parts: Vec<(String, Value)> =
        reached.iter().filter(|id| **id != root).map(|id| (name(id), part(id))).collect();
    for path in policies {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hash = hex(&Sha256::digest(&bytes));
        let policy = json!({
            "type": "file", "bom-ref": format!("file:{file}"), "name": file,
            "hashes": [{"alg": "SHA-256", "content": hash}],
        });
        parts.push((format!("file:{file}"), policy));
    }
    parts.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut depends: Vec<(String, Value)> = reached
        .iter()
        .map(|id| {
            let on: BTreeSet<String> = nodes.get(*id).into_iter().flat_map(linked).map(name).collect();
            (name(id), json!({"ref": name(id), "dependsOn": on}))
        })
        .collect();
    depends.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut program = part(root);
    program["type"] = "application".into();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": program},
        "components": parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>(),
        "dependencies": depends.into_iter().map(|(_, on)| on).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_what_is_linked_and_neither_tests_nor_builds() {
        let house = House::find().unwrap();
        let bill = make(&house, "x86_64-unknown-linux-gnu", &[]).unwrap();
        let parts = bill["components"].as_array().unwrap();
        let named = |name: &str| parts.iter().find(|part| part["name"] == name);
        let wasmtime = named("wasmtime").expect("it is linked");
        assert_eq!(wasmtime["hashes"][0]["content"].as_str().map(str::len), Some(64));
        assert!(
            wasmtime["licenses"][0]["expression"].as_str().is_some_and(|text| text.contains("Apache-2.0"))
        );
        assert!(named("fluxgate-engine").is_some());
        for other in ["proptest", "insta", "fluxgate-testing", "xtask", "fluxgate"] {
            assert!(named(other).is_none(), "{other}");
        }
        let refs: BTreeSet<&str> = parts.iter().filter_map(|part| part["bom-ref"].as_str()).collect();
        assert_eq!(refs.len(), parts.len(), "each one once");
        for on in bill["dependencies"].as_array().unwrap() {
            for one in on["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(one.as_str().unwrap()), "{one}");
            }
        }
        assert_eq!(bill, make(&house, "x86_64-unknown-linux-gnu", &[]).unwrap());
    }
}
