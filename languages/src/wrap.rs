//! From a core module to a component of the contract, whatever the language of the module.
//!
//! Must never know how a component is run.

use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use crate::contract;

/// The version of [`contract::POLICY`].
const VERSION: &str = "0.1.0";

/// Every function of WASI's first preview, each of which denies the call.
const DENY: &str = include_str!("deny.wat");

/// The module name under which compilers import these functions.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// Interfaces that a policy may export beside `policy`; the contract has a world `with-NAME` for each.
const ABILITIES: [&str; 5] = ["ordering", "scheduling", "observing", "state", "ranking"];

/// Interfaces that a policy may import beside those of every policy; likewise.
const IMPORTS: [&str; 5] = ["attributes", "many", "groups", "flow", "resources"];

/// A module cannot become a policy.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// Not WebAssembly, or damaged.
    #[error("not a WebAssembly module: {0}")]
    NotWasm(String),
    /// It is a component already.
    #[error("this is a component already, not a core module; it can be used as it is")]
    Component,
    /// `fluxgate:policy/policy` is not among the exports.
    #[error(
        "it does not export `fluxgate:policy/policy@{VERSION}#describe`, which every policy does; its exports are: {0}"
    )]
    NoPolicy(String),
    /// An export that the contract does not have.
    #[error("it exports `{0}`, which is not in `fluxgate:policy@{VERSION}`")]
    UnknownExport(String),
    /// An import that the contract does not have.
    #[error(
        "it imports `{name}` from `{module}`, but a policy is given nothing except `fluxgate:policy`; was a library \
         left out, or a function misspelt?"
    )]
    ForeignImport {
        /// Its module; linkers use `env` for functions that no library defined.
        module: String,
        /// The function.
        name: String,
    },
    /// Its functions do not have the types of the contract.
    #[error("it does not fit the contract: {0}")]
    Mismatch(String),
}

/// True if the bytes begin as those of a core module; false for a component and for anything else.
pub fn is_core_module(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0asm\x01\0\0\0")
}

/// Makes a component of a core module whose exports and imports are named by the canonical ABI, such as
/// `fluxgate:policy/scheduling@0.1.0#run`.
///
/// # Errors
/// [`WrapError`]: it is no core module, lacks `policy`, has exports or imports that the contract does not have, or
/// gives them other types.
pub fn wrap(module: &[u8]) -> Result<Vec<u8>, WrapError> {
    let abilities = abilities(module)?;
    let mismatch = |error: &dyn std::fmt::Display| WrapError::Mismatch(error.to_string());
    let (resolve, world) = world(&abilities).map_err(|error| mismatch(&format_args!("{error:#}")))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| mismatch(&format_args!("{error:#}")))?;
    let deny = wat::parse_str(DENY).map_err(|error| mismatch(&error))?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|encoder| encoder.adapter(PREVIEW1, &deny))
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| mismatch(&format_args!("{error:#}")))
}

/// The worlds of its exports and further imports; checks both.
fn abilities(module: &[u8]) -> Result<Vec<&'static str>, WrapError> {
    let (mut found, mut exports, mut is_policy) = (Vec::new(), Vec::new(), false);
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(|error| WrapError::NotWasm(error.to_string()))? {
            Payload::Version { encoding: Encoding::Component, .. } => return Err(WrapError::Component),
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(|error| WrapError::NotWasm(error.to_string()))?;
                    if import.module != PREVIEW1 && !import.module.starts_with("fluxgate:policy/") {
                        let (module, name) = (import.module.to_owned(), import.name.to_owned());
                        return Err(WrapError::ForeignImport { module, name });
                    }
                    let interface = import.module.strip_prefix("fluxgate:policy/");
                    let interface = interface.and_then(|rest| rest.strip_suffix(&format!("@{VERSION}")));
                    let gained = IMPORTS.into_iter().find(|known| Some(*known) == interface);
                    found.extend(gained.filter(|gained| !found.contains(gained)));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let name = export.map_err(|error| WrapError::NotWasm(error.to_string()))?.name;
                    exports.push(format!("`{name}`"));
                    let Some(rest) = name.strip_prefix("fluxgate:policy/") else { continue };
                    let interface = rest.split_once('#').map_or(rest, |(interface, _)| interface);
                    match interface.split_once('@') {
                        Some(("policy", VERSION)) => is_policy = true,
                        Some((interface, VERSION)) => {
                            let known = ABILITIES.into_iter().find(|ability| *ability == interface);
                            let known = known.ok_or_else(|| WrapError::UnknownExport(name.to_owned()))?;
                            if !found.contains(&known) {
                                found.push(known);
                            }
                        }
                        _ => return Err(WrapError::UnknownExport(name.to_owned())),
                    }
                }
            }
            _ => {}
        }
    }
    if !is_policy {
        let exports = if exports.is_empty() { "none".to_owned() } else { exports.join(", ") };
        return Err(WrapError::NoPolicy(exports));
    }
    Ok(found)
}

/// The world of a policy with these abilities and further imports.
fn world(abilities: &[&str]) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let gained =
        contract::GAINED.map(|(_, text)| text.split_once(';').map_or("", |(_, after_package)| after_package));
    resolve.push_str("policy.wit", &[contract::POLICY, &gained.concat()].concat())?;
    let mut text =
        format!("package local:wrapped;\nworld wrapped {{\n  include fluxgate:policy/base@{VERSION};\n");
    for ability in abilities {
        text.push_str(&format!("  include fluxgate:policy/with-{ability}@{VERSION};\n"));
    }
    text.push_str("}\n");
    let package = resolve.push_str("wrapped.wit", &text)?;
    let world = resolve.select_world(&[package], Some("wrapped"))?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module of the smallest policy, with these further fields.
    fn module(more: &str) -> Vec<u8> {
        let text = format!(
            r#"(module
                {more}
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
                (func (export "fluxgate:policy/policy@0.1.0#describe") (result i32) (i32.const 64))
                (func (export "fluxgate:policy/policy@0.1.0#configure") (param i32 i32) (result i32) (i32.const 64)))"#
        );
        wat::parse_str(text).unwrap()
    }

    /// Names of what a component imports and exports.
    fn faces(component: &[u8]) -> (Vec<String>, Vec<String>) {
        let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0);
        for payload in Parser::new(0).parse_all(component) {
            match payload.unwrap() {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    imports.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    exports.extend(section.into_iter().map(|export| export.unwrap().name.name.to_owned()));
                }
                _ => {}
            }
        }
        (imports, exports)
    }

    #[test]
    fn abilities_are_read_from_the_exports() {
        let run = r#"(import "fluxgate:policy/pass@0.1.0" "rewind" (func $rewind))
                     (func (export "fluxgate:policy/scheduling@0.1.0#run") (call $rewind))"#;
        let (imports, exports) = faces(&wrap(&module(run)).unwrap());
        assert!(imports.iter().any(|name| name == "fluxgate:policy/pass@0.1.0"), "{imports:?}");
        assert_eq!(exports, ["fluxgate:policy/policy@0.1.0", "fluxgate:policy/scheduling@0.1.0"]);
    }

    #[test]
    fn imports_that_were_added_since_are_those_that_it_uses() {
        let uses = r#"(import "fluxgate:policy/many@0.1.0" "next" (func (param i32 i32)))
                      (import "fluxgate:policy/flow@0.1.0" "earliest-after" (func (param i32 f64) (result f64)))
                      (func (export "fluxgate:policy/scheduling@0.1.0#run"))"#;
        let (imports, _) = faces(&wrap(&module(uses)).unwrap());
        let has = |name: &str| imports.contains(&format!("fluxgate:policy/{name}@0.1.0"));
        assert_eq!(
            ["many", "flow", "groups", "resources"].map(has),
            [true, true, false, false],
            "{imports:?}"
        );
        let wrong = r#"(import "fluxgate:policy/many@0.1.0" "all" (func))"#;
        let message = wrap(&module(wrong)).unwrap_err().to_string();
        assert!(message.contains("does not fit the contract") && message.contains("all"), "{message}");
    }

    #[test]
    fn every_function_of_wasi_is_denied_and_none_imported() {
        let mut uses = String::new();
        let deny = wat::parse_str(DENY).unwrap();
        let mut types = Vec::new();
        let (mut functions, mut count) = (Vec::new(), 0);
        for payload in Parser::new(0).parse_all(&deny) {
            match payload.unwrap() {
                Payload::TypeSection(section) => {
                    types.extend(section.into_iter_err_on_gc_types().map(|each| each.unwrap()));
                }
                Payload::FunctionSection(section) => {
                    functions.extend(section.into_iter().map(|each| each.unwrap()))
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export.unwrap();
                        let of = &types[functions[export.index as usize] as usize];
                        let list = |word: &str, types: &[wasmparser::ValType]| {
                            types.iter().map(|each| format!("({word} {each})")).collect::<String>()
                        };
                        let (params, results) = (list("param", of.params()), list("result", of.results()));
                        let name = export.name;
                        uses += &format!(r#"(import "{PREVIEW1}" "{name}" (func {params}{results}))"#);
                        count += 1;
                    }
                }
                _ => {}
            }
        }
        assert_eq!(count, 46, "the first preview has as many functions");
        let (imports, _) = faces(&wrap(&module(&uses)).unwrap());
        assert!(imports.iter().all(|name| name.starts_with("fluxgate:policy/")), "{imports:?}");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let refused = |bytes: &[u8]| wrap(bytes).unwrap_err().to_string();
        assert!(refused(b"hello").contains("not a WebAssembly module"));
        assert!(refused(b"\0asm\x0d\0\x01\0").contains("already"));
        assert!(is_core_module(&module("")) && !is_core_module(&wrap(&module("")).unwrap()));
        let nothing = wat::parse_str(r#"(module (func (export "run")))"#).unwrap();
        let message = refused(&nothing);
        assert!(message.contains("policy@0.1.0#describe") && message.contains("`run`"), "{message}");
        let message = refused(&module(r#"(import "env" "sin" (func (param f64) (result f64)))"#));
        assert!(message.contains("`sin` from `env`"), "{message}");
        let message = refused(&module(r#"(func (export "fluxgate:policy/ordering@0.2.0#keys"))"#));
        assert!(
            message.contains("ordering@0.2.0#keys") && message.contains("fluxgate:policy@0.1.0"),
            "{message}"
        );
        let message = refused(&module(r#"(func (export "fluxgate:policy/dancing@0.1.0#go"))"#));
        assert!(message.contains("dancing"), "{message}");
        let message =
            refused(&module(r#"(func (export "fluxgate:policy/scheduling@0.1.0#run") (param i32))"#));
        assert!(message.contains("does not fit the contract") && message.contains("run"), "{message}");
    }
}
