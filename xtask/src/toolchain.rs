//! The tools that compile Rust to components: found, or fetched, or refused with one message.
//!
//! In this order: the installed target; `rustup target add`; Debian's own Rust for the web, unpacked into a
//! cache folder. All link with `wasm-component-ld`, so that a plain `cargo build` makes a component.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::debian::{self, Debian};
use crate::house::{House, Program};

/// The target triple of every policy.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// The linker that makes components; rustup ships it with every toolchain.
const LINKER: &str = "wasm-component-ld";

/// Environment variable that chooses the tools: `rustup` or `debian`.
const CHOICE: &str = "FLUXGATE_WASM_TOOLCHAIN";

/// Tools that can build for [`TARGET`].
#[derive(Debug)]
pub(crate) struct Toolchain {
    /// The version of the compiler, on which a cached output depends.
    version: String,
    sysroot: PathBuf,
    debian: Option<Debian>,
}

impl Toolchain {
    /// Finds or fetches the tools.
    pub(crate) fn find(house: &House) -> Result<Self> {
        let choice = env::var(CHOICE).unwrap_or_default();
        match choice.as_str() {
            "" | "rustup" | "debian" => {}
            other => bail!("{CHOICE} is `{other}`, but must be `rustup` or `debian`"),
        }
        let mut reasons = Vec::new();
        if choice != "debian" {
            match installed(house) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => reasons.push(format!("rustup: {reason:#}")),
            }
        }
        if choice != "rustup" {
            match from_debian(house) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => reasons.push(format!("Debian: {reason:#}")),
            }
        }
        bail!(
            "policies need Rust's target {TARGET}, and there is no way to it here.\n  {}\n\
             Any of these helps: `rustup target add {TARGET}` on a machine that reaches \
             static.rust-lang.org; a Debian or Ubuntu whose archive has `{}`.",
            reasons.join("\n  "),
            debian::COMPILER
        )
    }

    /// One line that identifies these tools.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// `cargo build` for the target in a workspace, with the same result for any folder.
    pub(crate) fn cargo_build(&self, house: &House, workspace: &Path) -> Result<Program> {
        let target = house.target().join("wasm");
        let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
        let cargo_home = cargo_home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        // Later entries win, so the least specific is first.
        let mut flags = Vec::new();
        let places = [
            (Some(workspace), "/policy"),
            (Some(target.as_path()), "/target"),
            (cargo_home.as_deref(), "/cargo"),
            (Some(self.sysroot.as_path()), "/rust"),
        ];
        for (place, name) in places {
            if let Some(place) = place {
                let place = place.to_str().with_context(|| format!("{} is not UTF-8", place.display()))?;
                flags.push(format!("--remap-path-prefix={place}={name}"));
            }
        }
        let mut cargo = house
            .cargo("build")
            .args(["--profile", "policy", "--target", TARGET, "--target-dir"])
            .arg(&target)
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER)
            // This variable has precedence over all other flags, so a user's settings cannot change the bytes.
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
            .without_env("RUSTFLAGS")
            .without_env("CARGO_BUILD_TARGET");
        if let Some(debian) = &self.debian {
            cargo = debian.adjust(cargo)?;
        }
        Ok(cargo)
    }
}

/// Adds the standard library of a target to the user's own toolchain if it is missing.
pub(crate) fn add_target(house: &House, target: &str) -> Result<()> {
    let libraries = rustc(house)?.args(["--print", "target-libdir", "--target", target]).read()?;
    if !Path::new(libraries.trim()).is_dir() {
        eprintln!(
            "The target {target} is not installed; asking rustup for it (`rustup target add {target}`)."
        );
        Program::new("rustup").args(["target", "add", target]).folder(house.root()).run()?;
        if !Path::new(libraries.trim()).is_dir() {
            bail!("rustup added {target}, but not to the toolchain in use: {} is missing", libraries.trim());
        }
    }
    Ok(())
}

/// The user's own toolchain, with the target added if it is missing.
fn installed(house: &House) -> Result<Toolchain> {
    add_target(house, TARGET)?;
    let sysroot = PathBuf::from(rustc(house)?.args(["--print", "sysroot"]).read()?.trim());
    let version = rustc(house)?.arg("-vV").read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    if !tools_folder(&sysroot, host).join(LINKER).is_file() && !on_path(LINKER) {
        bail!("the toolchain in {} has no {LINKER}; rustup's has, from 1.81 on", sysroot.display());
    }
    Ok(Toolchain { version: version.lines().collect::<Vec<_>>().join(", "), sysroot, debian: None })
}

/// Debian's compiler with the cargo and linker of rustup or of another installation.
fn from_debian(house: &House) -> Result<Toolchain> {
    let sysroot = PathBuf::from(rustc(house)?.args(["--print", "sysroot"]).read()?.trim());
    let tools = tools_folder(&sysroot, &host(house)?);
    if !tools.join(LINKER).is_file() {
        bail!("the linker {LINKER} is not in {}; it comes with rustup's toolchains", tools.display());
    }
    let debian = Debian::find(tools)?;
    let version = debian.version()?;
    Ok(Toolchain { version, sysroot: debian.sysroot(), debian: Some(debian) })
}

/// The target triple of this machine.
pub(crate) fn host(house: &House) -> Result<String> {
    let version = rustc(house)?.arg("-vV").read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// The program of the compiler's own LLVM that merges counts of runs; rustup is asked for it if it is missing.
pub(crate) fn llvm_profdata(house: &House) -> Result<PathBuf> {
    let sysroot = PathBuf::from(rustc(house)?.args(["--print", "sysroot"]).read()?.trim());
    let program = tools_folder(&sysroot, &host(house)?).join("llvm-profdata");
    if !program.is_file() {
        eprintln!(
            "{} is missing; asking rustup for it (`rustup component add llvm-tools`).",
            program.display()
        );
        Program::new("rustup").args(["component", "add", "llvm-tools"]).folder(house.root()).run()?;
        if !program.is_file() {
            bail!(
                "rustup added llvm-tools, but not to the toolchain in use: {} is missing",
                program.display()
            );
        }
    }
    Ok(program)
}

/// The compiler that cargo uses here, asked in the workspace so that rustup picks the right toolchain.
fn rustc(house: &House) -> Result<Program> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Ok(Program::new(rustc).folder(house.root()))
}

fn tools_folder(sysroot: &Path, host: &str) -> PathBuf {
    sysroot.join("lib/rustlib").join(host).join("bin")
}

/// True if there is a program of this name.
pub(crate) fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
