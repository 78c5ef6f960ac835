//! The folder of a new policy, as data: template, SDK and contract.
//!
//! The SDK is part of the folder because a policy must build in a plain folder, outside of this workspace.

/// Longest name of a policy, by the contract.
const NAME_BYTES_MAX: usize = 64;

/// The template, with placeholders.
const TEMPLATE: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    (".cargo/config.toml", include_str!("../template/cargo-config.toml")),
    (".gitignore", include_str!("../template/gitignore")),
    ("README.md", include_str!("../template/README.md")),
    ("fluxgate-policy.toml", include_str!("../template/fluxgate-policy.toml")),
    ("src/lib.rs", include_str!("../template/lib.rs")),
];

macro_rules! sdk {
    ($($path:literal),+ $(,)?) => { [$(($path, include_str!(concat!("../", $path)))),+] };
}

/// This package, complete.
const SDK: [(&str, &str); 41] = sdk![
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "rustfmt.toml",
    "src/abi.rs",
    "src/attributes.rs",
    "src/backfill.rs",
    "src/backfill/ranking.rs",
    "src/bench/capacity.rs",
    "src/bench/job.rs",
    "src/bench/mod.rs",
    "src/bench/pass.rs",
    "src/bench/tests.rs",
    "src/bindings.rs",
    "src/config.rs",
    "src/export.rs",
    "src/flow.rs",
    "src/job.rs",
    "src/lib.rs",
    "src/groups.rs",
    "src/imports.rs",
    "src/log.rs",
    "src/machine.rs",
    "src/pass.rs",
    "src/policy.rs",
    "src/ranking.rs",
    "src/resources.rs",
    "src/scaffold.rs",
    "template/Cargo.toml.in",
    "template/README.md",
    "template/cargo-config.toml",
    "template/fluxgate-policy.toml",
    "template/gitignore",
    "template/lib.rs",
    "wit/attributes.wit",
    "wit/flow.wit",
    "wit/groups.wit",
    "wit/many.wit",
    "wit/ranking.wit",
    "wit/resources.wit",
    "wit/policy.wit",
];

/// Every file of a new policy's folder, as (path relative to it, contents).
///
/// # Errors
/// A sentence when the name is not one: 1 to 64 lower-case letters, digits and single `-` between them.
pub fn files(name: &str) -> Result<Vec<(String, String)>, String> {
    check_name(name)?;
    let mut files = Vec::with_capacity(TEMPLATE.len() + SDK.len());
    for (path, text) in TEMPLATE {
        let text = text.replace("policy_my_policy", &format!("policy_{}", name.replace('-', "_")));
        files.push((path.to_owned(), text.replace("MyPolicy", &type_name(name)).replace("my-policy", name)));
    }
    files.extend(SDK.iter().map(|(path, text)| (format!("sdk/{path}"), (*text).to_owned())));
    Ok(files)
}

/// Checks the name of a policy.
///
/// # Errors
/// A sentence when it is not: 1 to 64 lower-case letters, digits and single `-` between them.
pub fn check_name(name: &str) -> Result<(), String> {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() > NAME_BYTES_MAX || !name.split('-').all(part) {
        return Err(format!(
            "`{name}` is no name for a policy: 1 to {NAME_BYTES_MAX} lower-case letters and digits, with single \
             `-` between them"
        ));
    }
    Ok(())
}

/// `my-policy` is the struct `MyPolicy`; a name that begins with a digit gets a letter before it.
pub fn type_name(name: &str) -> String {
    let mut camel = String::new();
    for part in name.split('-') {
        let (first, rest) = part.split_at(1.min(part.len()));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    // A name like `policy` would be that of a trait of the prelude.
    let taken =
        ["Candidate", "Config", "Happened", "Info", "Job", "Kind", "Observing", "Option", "Ordering", "Pass"];
    let more = [
        "Placement",
        "Policy",
        "Refusal",
        "Result",
        "Saved",
        "Scheduling",
        "Self",
        "State",
        "String",
        "Totals",
    ];
    if camel.starts_with(|letter: char| letter.is_ascii_digit()) {
        camel.insert(0, 'P');
    } else if taken.contains(&camel.as_str()) || more.contains(&camel.as_str()) {
        camel.push_str("Policy");
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn the_copied_sdk_is_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut there = Vec::new();
        walk(root, root, &mut there);
        // Files that cargo makes where this package is used alone.
        there.retain(|path| !path.starts_with("target/") && path != "Cargo.lock");
        there.sort();
        let mut copied: Vec<&str> = SDK.iter().map(|(path, _)| *path).collect();
        copied.sort();
        assert_eq!(copied, there);
    }

    #[test]
    fn names_are_filled_in() {
        let files = files("night-owl2").unwrap();
        let text = |path: &str| &files.iter().find(|(each, _)| each == path).unwrap().1;
        assert!(text("Cargo.toml").contains("name = \"policy-night-owl2\""));
        assert!(text("src/lib.rs").contains("export_policy!(NightOwl2: ordering)"));
        assert!(text("src/lib.rs").contains("Info::new(\"night-owl2\","));
        assert!(text("README.md").contains("build/night-owl2.wasm"));
        assert!(text("fluxgate-policy.toml").contains("policy_night_owl2.wasm"));
        for (path, text) in files.iter().filter(|(path, _)| !path.starts_with("sdk/")) {
            assert!(!text.contains("my-policy") && !text.contains("MyPolicy"), "{path}");
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "A", "-a", "a-", "a--b", "a_b", "a b", "../a", &"a".repeat(65)] {
            assert!(files(name).is_err(), "{name}");
        }
        assert_eq!(type_name("policy"), "PolicyPolicy");
        assert_eq!(type_name("7up"), "P7up");
    }
}
