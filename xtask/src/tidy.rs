//! The rules of the house that no compiler checks.

use std::path::Path;

use anyhow::Result;

pub(crate) fn check(_root: &Path) -> Result<()> {
    Ok(())
}
