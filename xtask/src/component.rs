//! Inspection of a finished component (whether it is one, its imports and exports), and its installation.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wasmparser::{Encoding, Parser, Payload};

/// Interfaces of the contract that a component exports, by their short names, in the order of the contract.
pub(crate) fn abilities(bytes: &[u8]) -> Result<Vec<String>> {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.context("not WebAssembly")? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                bail!("a core module, not a component: the linker was not wasm-component-ld")
            }
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    if let Some(foreign) = imports.iter().find(|name| short_name(name).is_none()) {
        bail!(
            "it imports {foreign}, but a policy is given nothing except fluxgate:policy; no clock, no files"
        );
    }
    let mut short: Vec<String> = exports.iter().filter_map(|name| short_name(name)).collect();
    let order = ["policy", "ordering", "scheduling", "observing", "state", "ranking"];
    short.sort_by_key(|name| order.iter().position(|known| known == name));
    if !short.iter().any(|name| name == "policy") {
        bail!("it does not export fluxgate:policy/policy; is there an `export_policy!`?");
    }
    Ok(short)
}

/// Writes a component to its output file.
pub(crate) fn place(bytes: &[u8], output: &Path) -> Result<()> {
    // A watcher of the folder never sees half a component.
    let named = || format!("{}", output.display());
    let folder = output.parent().with_context(named)?;
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut draft =
        tempfile::Builder::new().permissions(permissions).tempfile_in(folder).with_context(named)?;
    draft.write_all(bytes).with_context(named)?;
    draft.persist(output).with_context(named)?;
    Ok(())
}

/// `fluxgate:policy/ordering@0.1.0` is `ordering`; other packages are ignored.
fn short_name(export: &str) -> Option<String> {
    let rest = export.strip_prefix("fluxgate:policy/")?;
    Some(rest.split('@').next().unwrap_or(rest).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_component_is_refused() {
        assert!(abilities(b"hello").unwrap_err().to_string().contains("not WebAssembly"));
        let module = b"\0asm\x01\0\0\0";
        assert!(abilities(module).unwrap_err().to_string().contains("core module"));
        let empty = b"\0asm\x0d\0\x01\0";
        assert!(abilities(empty).unwrap_err().to_string().contains("export_policy"));
    }

    #[test]
    fn names() {
        assert_eq!(short_name("fluxgate:policy/ordering@0.1.0").as_deref(), Some("ordering"));
        assert_eq!(short_name("wasi:cli/run"), None);
    }
}
