//! The components inside this program, see `build.rs`: under the paths `fluxgate:NAME.wasm`, which no file has.
//!
//! Must never know where other components are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The prefix of their paths.
const SCHEME: &str = "fluxgate:";

/// Names and contents.
static COMPONENTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/components.rs"));

/// All of them by name.
pub(crate) fn files() -> BTreeMap<String, PathBuf> {
    COMPONENTS.iter().map(|(name, _)| ((*name).to_owned(), format!("{SCHEME}{name}.wasm").into())).collect()
}

/// The component of this path, if it is that of one inside this program.
pub(crate) fn read(path: &Path) -> Option<&'static [u8]> {
    let name = path.to_str()?.strip_prefix(SCHEME)?.strip_suffix(".wasm")?;
    COMPONENTS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_to_its_component() {
        for (name, path) in files() {
            let bytes = read(&path).unwrap();
            assert!(bytes.starts_with(b"\0asm"), "{name}");
        }
        assert_eq!(read(Path::new("fluxgate:nosuch.wasm")), None);
        assert_eq!(read(Path::new("easy.wasm")), None);
    }
}
