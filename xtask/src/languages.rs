//! Policies in other languages: from a folder with `fluxgate-policy.toml` to a component.
//!
//! The folder names its build command. This module gives that command its tools, makes its output a component and
//! inspects it. Must never know a language's compiler: that is `tools.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::component;
use crate::house::{House, Program};
use crate::stamp;
use crate::tools::{Language, Tools};

/// The file that describes a folder.
pub(crate) const FILE: &str = "fluxgate-policy.toml";

/// Changes whenever a change of this file changes the output for the same input.
const RECIPE: &str = "1";

/// A policy's folder.
#[derive(Debug)]
pub(crate) struct Folder {
    place: PathBuf,
    name: String,
    language: Language,
    build: String,
    test: Option<String>,
}

impl Folder {
    /// Reads the folder's file; `None` if it has none, or is written in Rust.
    pub(crate) fn read(place: &Path) -> Result<Option<Self>> {
        let file = place.join(FILE);
        if !file.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let table: toml::Table = text.parse().with_context(|| format!("{}", file.display()))?;
        let value = |key: &str| {
            let value = table.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            value.with_context(|| format!("{}: `{key}` must be there and be text", file.display()))
        };
        let language = value("language")?;
        if language == "rust" {
            return Ok(None);
        }
        let Some(language) = Language::named(&language) else {
            bail!(
                "{}: `language` is `{language}`, but must be rust, c, cpp, go, js, ts or python",
                file.display()
            )
        };
        let name = value("name")?;
        let place = place.canonicalize().with_context(|| format!("{}", place.display()))?;
        let test = table.get("test").is_some().then(|| value("test")).transpose()?;
        Ok(Some(Folder { place, name, language, build: value("build")?, test }))
    }

    /// Every file on which the output could depend.
    fn inputs(&self, house: &House) -> Result<BTreeSet<PathBuf>> {
        let mut inputs = BTreeSet::new();
        files(&self.place, &mut inputs)?;
        let shared =
            ["src", self.language.name()].into_iter().chain(self.language.builds_on().map(Language::name));
        for shared in shared {
            files(&house.root().join("languages").join(shared), &mut inputs)?;
        }
        files(&house.root().join("wit"), &mut inputs)?;
        Ok(inputs)
    }
}

/// The folders in `policies/`, and in `languages/` the one for tests, that are written in one of these languages.
pub(crate) fn find(house: &House, languages: &BTreeSet<Language>) -> Result<Vec<Folder>> {
    let mut found = Vec::new();
    let room = house.root().join("policies");
    let mut rooms = vec![house.root().join("languages/abilities")];
    for entry in fs::read_dir(&room).with_context(|| format!("{}", room.display()))? {
        rooms.extend(entry.as_ref().map(fs::DirEntry::path));
    }
    for (room, language) in
        rooms.iter().flat_map(|room| languages.iter().map(move |language| (room, language)))
    {
        found.extend(Folder::read(&room.join(language.name()))?);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Builds them into a folder, and runs their own tests with `with_tests`. A failure does not keep the others from
/// being built; the error names all of them.
pub(crate) fn build(house: &House, folders: &[Folder], with_tests: bool, out: &Path) -> Result<()> {
    let mut failed = Vec::new();
    let languages: BTreeSet<Language> = folders.iter().map(|folder| folder.language).collect();
    for language in languages {
        let tools = match Tools::find(house, language) {
            Ok(tools) => tools,
            Err(reason) => {
                println!(
                    "policies: skipped: no toolchain for {}; {} would bring it\n  {reason:#}",
                    language.name(),
                    language.packages()
                );
                failed.push(format!("no toolchain for {}", language.name()));
                continue;
            }
        };
        for folder in folders.iter().filter(|folder| folder.language == language) {
            let tested = if with_tests { test_one(house, folder, &tools) } else { Ok(()) };
            if let Err(reason) = tested.and_then(|()| build_one(house, folder, &tools, out)) {
                println!("policies: {}: {reason:#}", folder.name);
                failed.push(folder.name.clone());
            }
        }
    }
    if !failed.is_empty() {
        bail!("not built: {}; the reasons are above", failed.join(", "));
    }
    Ok(())
}

fn build_one(house: &House, folder: &Folder, tools: &Tools, out: &Path) -> Result<()> {
    let output = out.join(format!("{}.wasm", folder.name));
    let recipe = format!("{RECIPE}; {}", tools.version());
    let mark = stamp::sha256(output.as_os_str().as_encoded_bytes());
    let stamp = house.target().join("wasm/stamps").join(format!("{}-{}", folder.name, &mark[..16]));
    if stamp::is_fresh(&stamp, &output, &recipe) {
        println!("policies: {} unchanged", folder.name);
        return Ok(());
    }
    let room = room(house, folder)?;
    fs::create_dir_all(house.target().join("wasm/stamps"))?;
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    let built = room.join(format!("{}.wasm", folder.name));
    let _ = fs::remove_file(&built);
    let command = Program::new("sh").args(["-ec", &folder.build]).folder(&folder.place).env("OUT", &room);
    tools.around(command)?.run()?;
    let mut bytes = fs::read(&built).with_context(|| {
        format!("`build` of {} left no {}", folder.place.join(FILE).display(), built.display())
    })?;
    if bytes.starts_with(b"\0asm\x01\0\0\0") {
        let wrapped = room.join("component.wasm");
        let wrap = ["--quiet", "--package", "fluxgate-languages", "--example", "wrap", "--"];
        house.cargo("run").args(wrap).args([&built, &wrapped]).run()?;
        bytes = fs::read(&wrapped).with_context(|| format!("{}", wrapped.display()))?;
    }
    let abilities = component::abilities(&bytes).with_context(|| format!("policy {}", folder.name))?;
    component::place(&bytes, &output)?;
    stamp::write_inputs(&stamp, &output, &recipe, folder.inputs(house)?)?;
    println!("policies: {} ({} kB; {})", folder.name, bytes.len().div_ceil(1000), abilities.join(", "));
    Ok(())
}

/// The author's own tests.
fn test_one(house: &House, folder: &Folder, tools: &Tools) -> Result<()> {
    let Some(test) = &folder.test else { return Ok(()) };
    let command = Program::new("sh").args(["-ec", test]).folder(&folder.place);
    tools.around(command.env("OUT", room(house, folder)?))?.run()?;
    println!("policies: {}: its tests pass", folder.name);
    Ok(())
}

/// The folder of its build files.
fn room(house: &House, folder: &Folder) -> Result<PathBuf> {
    let room = house.target().join("wasm/languages").join(&folder.name);
    fs::create_dir_all(&room).with_context(|| format!("{}", room.display()))?;
    Ok(room)
}

/// All files below a folder, except built or fetched ones.
fn files(folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let entry = entry?;
        let skipped = ["target", "build", "node_modules", "__pycache__", ".git", ".venv"];
        if skipped.iter().any(|skipped| entry.file_name() == *skipped) {
            continue;
        }
        if entry.path().is_dir() {
            files(&entry.path(), found)?;
        } else {
            found.insert(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_says_how_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Folder::read(folder.path()).unwrap().is_none());
        let said = |text: &str| {
            fs::write(folder.path().join(FILE), text).unwrap();
            Folder::read(folder.path())
        };
        let whole = said("name = \"x\"\nlanguage = \"c\"\nbuild = \"true\"\n").unwrap().unwrap();
        assert_eq!((whole.name.as_str(), whole.language, whole.build.as_str()), ("x", Language::C, "true"));
        assert!(said("language = \"rust\"\n").unwrap().is_none());
        for (text, complaint) in [
            ("name = \"x\"\nlanguage = \"c\"\n", "`build` must be there"),
            ("name = \"x\"\nlanguage = \"cobol\"\n", "but must be rust, c, cpp, go, js, ts or python"),
            ("name = 1\n", "`language` must be there"),
            ("name", "fluxgate-policy.toml"),
        ] {
            let error = format!("{:#}", said(text).unwrap_err());
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn policies_are_there_in_other_languages() {
        let house = House::find().unwrap();
        let found = find(&house, &Language::ALL.into_iter().collect()).unwrap();
        let names: Vec<&str> = found.iter().map(|folder| folder.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "abilities-c",
                "abilities-cpp",
                "abilities-go",
                "abilities-js",
                "abilities-python",
                "abilities-ts",
                "easy-c",
                "easy-cpp",
                "easy-go",
                "easy-js",
                "easy-python",
                "easy-ts"
            ]
        );
        for folder in &found {
            let inputs = folder.inputs(&house).unwrap();
            assert!(inputs.iter().any(|path| path.ends_with("wit/0.1.0/policy.wit")), "{inputs:?}");
            assert!(inputs.iter().any(|path| path.starts_with(&folder.place)), "{inputs:?}");
        }
    }
}
