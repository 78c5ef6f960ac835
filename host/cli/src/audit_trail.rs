//! The file of the audit trail where no setting names one.

use std::path::PathBuf;

/// The path beside the state of this user's programs; `None` where the environment has no such place.
pub(crate) fn default_path() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(base.join("fluxgate/policies.audit"))
}
