//! The wheel of the Python package with the program inside: `pip install` gives the module and the command `fluxgate`. The form is
//! that of the specification of binary distributions; the metadata of the package are in `python/pyproject.toml`.
//!
//! Must never build anything.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::archive::Archive;
use super::{Built, Dist, GLIBC};
use crate::house::files;

/// The interpreter and the interface of the module: CPython's stable one since this version.
const ABI: &str = "cp310-abi3";
/// The module as Python looks for it.
const MODULE: &str = "_fluxgate.abi3.so";
/// The keys of the package's table that the metadata have.
const KEYS: [&str; 9] = [
    "name",
    "description",
    "readme",
    "requires-python",
    "license",
    "dependencies",
    "dynamic",
    "classifiers",
    "optional-dependencies",
];
/// Licenses of the contents.
const LICENSES: [&str; 2] = ["LICENSE", "LICENSE.GPL-3"];

impl Dist<'_> {
    /// `fluxgate-VERSION-cp310-abi3-PLATFORM.whl`.
    pub(super) fn wheel(&self, built: &Built, components: &[PathBuf], bill: &Path) -> Result<PathBuf> {
        let Some(module) = &built.module else { bail!("no module of the Python package was built") };
        let (root, version) = (self.house.root(), &self.version);
        // With the linker of this machine the wheel is for this machine, and no index takes it.
        let platform = match self.linker {
            Some(_) => format!("manylinux_{}_{}_x86_64", GLIBC.0, GLIBC.1),
            None => "linux_x86_64".to_owned(),
        };
        let tag = format!("{ABI}-{platform}");
        let about = format!("fluxgate-{version}.dist-info");
        let mut wheel = Wheel::default();
        let sources = root.join("python/fluxgate");
        for source in files(&sources)? {
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let ours = [".py", ".pyi"].iter().any(|end| name.ends_with(end)) || name == "py.typed";
            if ours && source.parent() == Some(&sources) {
                wheel.file(&format!("fluxgate/{name}"), &source, 0o644)?;
            }
        }
        wheel.file(&format!("fluxgate/{MODULE}"), module, 0o755)?;
        for component in components {
            let name = component.file_name().unwrap_or_default().to_string_lossy();
            wheel.file(&format!("fluxgate/policies/{name}"), component, 0o644)?;
        }
        wheel.file(&format!("fluxgate-{version}.data/scripts/fluxgate"), &built.program, 0o755)?;
        for license in LICENSES {
            wheel.file(&format!("{about}/licenses/{license}"), &root.join(license), 0o644)?;
        }
        wheel.file(&format!("{about}/sboms/fluxgate.cdx.json"), bill, 0o644)?;
        let project =
            fs::read_to_string(root.join("python/pyproject.toml")).context("python/pyproject.toml")?;
        let readme = fs::read_to_string(root.join("python/README.md")).context("python/README.md")?;
        wheel.add(&format!("{about}/METADATA"), metadata(&project, &readme, version)?.as_bytes(), 0o644)?;
        let form = format!("Wheel-Version: 1.0\nGenerator: fluxgate\nRoot-Is-Purelib: false\nTag: {tag}\n");
        wheel.add(&format!("{about}/WHEEL"), form.as_bytes(), 0o644)?;
        let out = self.out.join(format!("fluxgate-{version}-{tag}.whl"));
        fs::write(&out, wheel.finish(&format!("{about}/RECORD"))?)
            .with_context(|| out.display().to_string())?;
        Ok(out)
    }
}

/// A wheel that is being made: its files, and their digests.
#[derive(Default)]
struct Wheel {
    archive: Archive,
    record: String,
}

impl Wheel {
    fn file(&mut self, name: &str, from: &Path, mode: u32) -> Result<()> {
        self.add(name, &fs::read(from).with_context(|| from.display().to_string())?, mode)
    }

    fn add(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        self.record += &format!("{name},sha256={digest},{}\n", content.len());
        self.archive.add(name, content, mode)
    }

    /// With the list of its files, which has no digest of its own.
    fn finish(mut self, name: &str) -> Result<Vec<u8>> {
        self.record += &format!("{name},,\n");
        self.archive.add(name, self.record.as_bytes(), 0o644)?;
        self.archive.finish()
    }
}

/// The metadata of the package, in the form of core metadata.
fn metadata(project: &str, readme: &str, version: &str) -> Result<String> {
    let table: Table = project.parse().context("python/pyproject.toml")?;
    let project = table.get("project").and_then(Value::as_table).context("pyproject.toml: no `project`")?;
    // A key that is not told here would be lost.
    if let Some(key) = project.keys().find(|key| !KEYS.contains(&key.as_str())) {
        bail!("pyproject.toml: `project.{key}` is not in the wheel; accepted are {}", KEYS.join(", "));
    }
    let word = |key: &str| {
        project
            .get(key)
            .and_then(Value::as_str)
            .with_context(|| format!("pyproject.toml: no `project.{key}`"))
    };
    let list = |value: Option<&Value>| -> Vec<String> {
        let all = value.and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|each| each.as_str().map(str::to_owned)).collect()
    };
    let mut lines = vec![
        "Metadata-Version: 2.4".to_owned(),
        format!("Name: {}", word("name")?),
        format!("Version: {version}"),
        format!("Summary: {}", word("description")?),
        format!("License-Expression: {}", word("license")?),
        format!("Requires-Python: {}", word("requires-python")?),
    ];
    lines.extend(LICENSES.map(|file| format!("License-File: {file}")));
    lines.extend(list(project.get("classifiers")).iter().map(|one| format!("Classifier: {one}")));
    lines.extend(list(project.get("dependencies")).iter().map(|one| format!("Requires-Dist: {one}")));
    for (extra, needs) in project.get("optional-dependencies").and_then(Value::as_table).into_iter().flatten()
    {
        lines.push(format!("Provides-Extra: {extra}"));
        let needs = list(Some(needs));
        lines.extend(needs.iter().map(|one| format!("Requires-Dist: {one}; extra == \"{extra}\"")));
    }
    lines.push("Description-Content-Type: text/markdown; charset=UTF-8".to_owned());
    Ok(format!("{}\n\n{readme}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::House;

    #[test]
    fn the_wheel_says_what_the_package_says() {
        let root = House::find().unwrap().root().join("python");
        let project = fs::read_to_string(root.join("pyproject.toml")).unwrap();
        let said = metadata(&project, "# Read me\n", "1.2.3").unwrap();
        for line in [
            "Metadata-Version: 2.4",
            "Name: fluxgate",
            "Version: 1.2.3",
            "Requires-Python: >=3.10",
            "Requires-Dist: numpy>=1.23",
            "Provides-Extra: plot",
            "Requires-Dist: matplotlib>=3.7; extra == \"plot\"",
        ] {
            assert!(said.lines().any(|other| other == line), "{line}: {said}");
        }
        assert!(said.ends_with("\n\n# Read me\n"));
        let refused = metadata("[project]\nname = \"a\"\nauthors = []\n", "", "1").unwrap_err().to_string();
        assert!(refused.contains("project.authors"), "{refused}");
    }

    #[test]
    fn each_file_of_a_wheel_is_in_its_list() {
        let mut wheel = Wheel::default();
        wheel.add("a/b", b"hello", 0o644).unwrap();
        assert_eq!(wheel.record, "a/b,sha256=LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ,5\n");
        assert!(wheel.finish("c/RECORD").unwrap().starts_with(b"PK"));
    }
}
