//! Debian's own Rust for the web, where rustup cannot download.
use crate::house::Program;
use anyhow::{Result, bail};
use std::path::PathBuf;
pub(crate) const COMPILER: &str = "rustc-web";
#[derive(Debug)]
pub(crate) struct Debian {
    tools: PathBuf,
}
impl Debian {
    pub(crate) fn find(tools: PathBuf) -> Result<Self> {
        bail!("{}", tools.display())
    }
    pub(crate) fn version(&self) -> Result<String> {
        Ok(String::new())
    }
    pub(crate) fn sysroot(&self) -> PathBuf {
        self.tools.clone()
    }
    pub(crate) fn adjust(&self, cargo: Program) -> Result<Program> {
        Ok(cargo)
    }
}
