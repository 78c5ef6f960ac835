//! Checks of a component by its bytes and its type, before any of its code runs.

use fluxgate_engine::Abilities;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::LoadError;
use crate::sections::{self, Broken};

/// The package of the contract.
const PACKAGE: &str = "fluxgate:policy";
/// Its released versions that this host runs.
pub(crate) const VERSIONS: [&str; 1] = ["0.1.0"];
/// The interface that every policy exports.
const REQUIRED: &str = "policy";
/// The interfaces that it may export.
const ABILITIES: [&str; 5] = ["ordering", "scheduling", "observing", "state", "ranking"];
/// The interfaces that it may import. `types` has no functions: it comes along with the others.
const OFFERED: [&str; 9] =
    ["attributes", "flow", "groups", "log", "machine", "many", "pass", "resources", "types"];

/// The first bytes of a binary component: magic, version 13, layer 1.
const COMPONENT: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
/// The first bytes of a core module.
const MODULE: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

/// Checks by its frame that this is a complete binary component. Constant cost, with errors that name the usual
/// mistakes.
///
/// # Errors
/// [`LoadError`] `TooLarge`, `NotWasm`, `CoreModule` or `Truncated`.
pub(crate) fn frame(bytes: &[u8], bytes_max: u64) -> Result<(), LoadError> {
    let size = bytes.len() as u64;
    if size > bytes_max {
        return Err(LoadError::TooLarge { found: size, limit: bytes_max });
    }
    let text = bytes.trim_ascii_start();
    if bytes.is_empty() {
        return Err(LoadError::NotWasm { found: "the file is empty" });
    } else if bytes.starts_with(b"\x7fELF") {
        return Err(LoadError::NotWasm { found: "it is native code, which is never accepted" });
    } else if text.starts_with(b"(component") || text.starts_with(b"(module") {
        return Err(LoadError::NotWasm { found: "it is WebAssembly text" });
    } else if bytes.len() < 8 && COMPONENT.starts_with(bytes) {
        return Err(LoadError::Truncated { at: 0, needed: 8, left: size });
    } else if bytes.starts_with(&MODULE) {
        return Err(LoadError::CoreModule);
    } else if !bytes.starts_with(&COMPONENT[..4]) {
        return Err(LoadError::NotWasm { found: "the first bytes are others" });
    } else if !bytes.starts_with(&COMPONENT) {
        return Err(LoadError::NotWasm { found: "it is WebAssembly of an unknown version" });
    }
    match sections::of(bytes).find_map(Result::err) {
        Some(Broken::Truncated { at, needed, left }) => Err(LoadError::Truncated { at, needed, left }),
        // The compiler has the better message.
        Some(Broken::Length) | None => Ok(()),
    }
}

/// `ns:pkg/interface@version` in three parts; the version may be missing.
fn parse(name: &str) -> Option<(&str, &str, Option<&str>)> {
    let (path, version) = match name.split_once('@') {
        Some((path, version)) => (path, Some(version)),
        None => (name, None),
    };
    let (package, interface) = path.split_once('/')?;
    Some((package, interface, version))
}

/// The abilities that it exports, after a check of all exports and imports.
///
/// # Errors
/// [`LoadError`] `MissingExport`, `UnknownExport`, `UnknownImport` or `Version`, with the name found.
pub(crate) fn abilities(engine: &Engine, component: &Component) -> Result<Abilities, LoadError> {
    let ty = component.component_type();
    for (name, _) in ty.imports(engine) {
        import(name)?;
    }
    let mut found = Vec::new();
    let mut has = [false; ABILITIES.len()];
    let mut required = false;
    for (name, _) in ty.exports(engine) {
        found.push(name.to_owned());
        // Interfaces of other packages are ignored: they are never called.
        let Some((PACKAGE, interface, version)) = parse(name) else { continue };
        // The version first: an unknown interface may belong to another version.
        check_version("exports", interface, version)?;
        let known = ABILITIES.iter().position(|ability| *ability == interface);
        if known.is_none() && interface != REQUIRED && interface != "types" {
            let known = ABILITIES.map(|ability| format!("{PACKAGE}/{ability}@{}", VERSIONS[0])).join(", ");
            return Err(LoadError::UnknownExport { interface: name.to_owned(), known });
        }
        match known {
            Some(i) => has[i] = true,
            None => required |= interface == REQUIRED,
        }
    }
    if !required {
        found.truncate(8);
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        return Err(LoadError::MissingExport {
            interface: format!("{PACKAGE}/{REQUIRED}@{}", VERSIONS[0]),
            found,
        });
    }
    let [ordering, scheduling, observing, state, ranking] = has;
    Ok(Abilities { ordering, scheduling, observing, state, ranking })
}

/// The interfaces that it imports, in alphabetical order.
pub(crate) fn imports(engine: &Engine, component: &Component) -> Vec<String> {
    let mut names: Vec<String> =
        component.component_type().imports(engine).map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names
}

/// True if it can ask for the totals of the machine, among which is the number of free nodes.
pub(crate) fn reads_totals(engine: &Engine, component: &Component) -> bool {
    let ty = component.component_type();
    ty.imports(engine).any(|(name, item)| match item.ty {
        ComponentItem::ComponentInstance(instance) => {
            parse(name).is_some_and(|(_, interface, _)| interface == "machine")
                && instance.exports(engine).any(|(function, _)| function == "totals")
        }
        _ => false,
    })
}

/// True if it can ask for attributes of jobs.
pub(crate) fn reads_attributes(engine: &Engine, component: &Component) -> bool {
    let ty = component.component_type();
    ty.imports(engine).any(|(name, _)| parse(name).is_some_and(|(_, interface, _)| interface == "attributes"))
}

/// Checks that a policy may import this.
///
/// # Errors
/// [`LoadError`] `Version` or `UnknownImport`.
pub(crate) fn import(name: &str) -> Result<(), LoadError> {
    let parsed = parse(name);
    if let Some((PACKAGE, interface, version)) = parsed {
        check_version("imports", interface, version)?;
    }
    match parsed {
        Some((PACKAGE, interface, _)) if OFFERED.contains(&interface) => Ok(()),
        parsed => Err(LoadError::UnknownImport {
            import: name.to_owned(),
            offered: OFFERED.map(|interface| format!("{PACKAGE}/{interface}@{}", VERSIONS[0])).join(", "),
            hint: match parsed {
                Some((package, ..)) if package.starts_with("wasi:") => {
                    "; policies get no WASI (no clock, randomness, files or network): build without it, in Rust for wasm32-unknown-unknown"
                }
                _ => "",
            },
        }),
    }
}

fn check_version(direction: &'static str, interface: &str, version: Option<&str>) -> Result<(), LoadError> {
    if version.is_some_and(|version| VERSIONS.contains(&version)) {
        return Ok(());
    }
    Err(LoadError::Version {
        direction,
        interface: format!("{PACKAGE}/{interface}"),
        found: version.unwrap_or("(none)").to_owned(),
        accepted: VERSIONS.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(bytes: &[u8]) -> String {
        frame(bytes, 100).unwrap_err().to_string()
    }

    #[test]
    fn frames_that_are_no_component() {
        assert!(refuse(b"").contains("the file is empty"));
        assert!(refuse(b"\x7fELF\x02").contains("native code, which is never accepted"));
        assert!(refuse(b"\n (component)").contains("WebAssembly text"));
        assert!(refuse(&MODULE).starts_with("a core WebAssembly module, not a component"));
        assert!(refuse(b"hello, world").contains("the first bytes are others"));
        assert!(refuse(b"\0asm\x0a\0\x01\0").contains("unknown version"));
        assert_eq!(
            refuse(&[0; 101]),
            "the component has 101 bytes; at most 100 are accepted (limit component-bytes)"
        );
    }

    #[test]
    fn a_component_cut_anywhere_is_truncated_or_ends_at_a_section() {
        let whole = wat::parse_str(r#"(component (core module (func (export "f"))) (type (func)))"#).unwrap();
        frame(&whole, 1000).unwrap();
        let mut truncated = 0;
        for end in 1..whole.len() {
            match frame(&whole[..end], 1000) {
                Ok(()) => {}
                Err(LoadError::Truncated { needed, left, .. }) => {
                    assert!(left < needed);
                    truncated += 1;
                }
                Err(other) => panic!("{end}: {other}"),
            }
        }
        assert!(truncated > whole.len() / 2);
    }

    #[test]
    fn names_in_three_parts() {
        assert_eq!(parse("a:b/c@1.0.0"), Some(("a:b", "c", Some("1.0.0"))));
        assert_eq!(parse("a:b/c"), Some(("a:b", "c", None)));
        assert_eq!(parse("run"), None);
    }
}
