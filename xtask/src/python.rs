//! The Python package: its wheel, and the package as a folder for the tests.
//!
//! Python and its packages are those of the machine and of PyPI, in environments below `target/`; nothing is installed
//! elsewhere. Must never know what the package does.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::house::{House, Program};
use crate::policies;
use crate::toolchain::add_target;
use crate::tools::{environment, fetched_environment};

/// Packages that the tests need; the package itself needs only numpy.
const TEST_TOOLS: [&str; 7] = [
    "numpy>=1.23",
    "gymnasium>=1.0",
    "pytest>=8",
    "mypy>=1.13",
    "matplotlib>=3.7",
    "pandas>=2",
    "pyarrow>=15",
];
/// Packages that build the wheel.
const WHEEL_TOOLS: [&str; 1] = ["maturin>=1.9,<2"];
/// Packages that build it for another platform; the compiler of Zig links for all platforms.
const CROSS_TOOLS: [&str; 2] = ["maturin>=1.9,<2", "ziglang==0.17.1"];
/// The oldest glibc of a wheel for another Linux: that of RHEL 8.
const COMPATIBILITY: &str = "manylinux_2_28";
/// Oldest Python of the package: 3 and this number.
const MINOR_MIN: u32 = 10;
/// The module as cargo names it, and as Python looks for it.
const BUILT: &str = "lib_fluxgate.so";
const MODULE: &str = "_fluxgate.abi3.so";

/// `cargo xtask python`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Install the wheel in a folder of its own and run the package's tests with it.
    #[arg(long)]
    check: bool,
    /// Build for this platform, into a folder beside. The compiler of Zig is fetched below `target/`, and the standard library of
    /// Rust for the platform by rustup.
    #[arg(long = "for", value_name = "PLATFORM", conflicts_with = "check")]
    platform: Option<Platform>,
}

/// Processor and system of a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Platform {
    #[value(name = "x86_64-linux")]
    X86Linux,
    #[value(name = "aarch64-linux")]
    ArmLinux,
    #[value(name = "x86_64-macos")]
    X86Macos,
    #[value(name = "aarch64-macos")]
    ArmMacos,
}

impl Platform {
    /// As rustc names it.
    fn target(self) -> &'static str {
        match self {
            Platform::X86Linux => "x86_64-unknown-linux-gnu",
            Platform::ArmLinux => "aarch64-unknown-linux-gnu",
            Platform::X86Macos => "x86_64-apple-darwin",
            Platform::ArmMacos => "aarch64-apple-darwin",
        }
    }

    /// Arguments of maturin.
    fn arguments(self) -> Vec<&'static str> {
        let linux = matches!(self, Platform::X86Linux | Platform::ArmLinux);
        let glibc: &[&str] = if linux { &["--compatibility", COMPATIBILITY] } else { &[] };
        [&["--zig", "--target", self.target()], glibc].concat()
    }
}

/// An interpreter that can import everything that the tests need, with `fetch` fetched where it was not.
///
/// # Errors
/// It was not fetched, this machine has no Python that is new enough, or the packages cannot be had.
pub(crate) fn interpreter(house: &House, fetch: bool) -> Result<PathBuf> {
    let room = house.target().join("toolchains/python-package");
    if let Some(programs) = fetched_environment(&room, &TEST_TOOLS) {
        return Ok(programs.join("python"));
    }
    if !fetch {
        bail!("its tools are fetched by `cargo xtask ci` and `cargo xtask python --check`");
    }
    let asked = Program::new("python3").args(["-c", "import sys, venv; print(sys.version_info.minor)"]);
    let minor = asked.read().context("Python 3 with venv (Debian's python3-venv)")?;
    let minor: u32 = minor.trim().parse().with_context(|| format!("python3 says {}", minor.trim()))?;
    if minor < MINOR_MIN {
        bail!("python3 is 3.{minor}; the package is for 3.{MINOR_MIN} and newer");
    }
    Ok(environment(&room, &TEST_TOOLS)?.join("python"))
}

/// Makes the package in a folder of `target/`, of the module that cargo has built; returns what Python's path has to name.
pub(crate) fn assemble(house: &House) -> Result<PathBuf> {
    let place = house.target().join("python");
    let package = place.join("fluxgate");
    if package.exists() {
        fs::remove_dir_all(&package).with_context(|| format!("{}", package.display()))?;
    }
    copy(&house.root().join("python/fluxgate"), &package, |name| {
        name.ends_with(".py") || name.ends_with(".pyi") || name == "py.typed"
    })?;
    let built = house.target().join("debug").join(BUILT);
    let module = package.join(MODULE);
    fs::copy(&built, &module).with_context(|| format!("{}", built.display()))?;
    copy(&house.policies(), &package.join("policies"), |name| name.ends_with(".wasm"))?;
    Ok(place)
}

/// Copies the files of a folder whose names are wanted.
fn copy(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && wanted(&name) {
            fs::copy(&path, to.join(&name)).with_context(|| format!("{}", path.display()))?;
        }
    }
    Ok(())
}

/// Builds the wheel, with the policies in it; with `check` also installs it in a folder of its own and runs the tests
/// of the package with it.
pub(crate) fn wheel(house: &House, options: &Options) -> Result<()> {
    let shipped = policies::build(house, &[])?;
    let folder = house.root().join("python");
    let inside = folder.join("fluxgate/policies");
    if inside.exists() {
        fs::remove_dir_all(&inside).with_context(|| format!("{}", inside.display()))?;
    }
    fs::create_dir_all(&inside).with_context(|| format!("{}", inside.display()))?;
    for policy in &shipped {
        let name = policy.file_name().context("a component has a name")?;
        fs::copy(policy, inside.join(name)).with_context(|| format!("{}", policy.display()))?;
    }
    let toolchains = house.target().join("toolchains");
    let programs = match options.platform {
        Some(platform) => {
            add_target(house, platform.target())?;
            environment(&toolchains.join("maturin-zig"), &CROSS_TOOLS)?
        }
        None => environment(&toolchains.join("maturin"), &WHEEL_TOOLS)?,
    };
    let out = house.target().join(match options.platform {
        Some(platform) => format!("wheels-{}", platform.target()),
        None => "wheels".to_owned(),
    });
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("{}", out.display()))?;
    }
    let maturin = house.program(programs.join("maturin")).args(["build", "--release", "--out"]).arg(&out);
    let maturin = maturin.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    let maturin = match options.platform {
        // The module is for every Python since the oldest one, whichever this machine has.
        Some(platform) => maturin
            .args(platform.arguments())
            .env("PYO3_NO_PYTHON", "1")
            .env("CARGO_ZIGBUILD_PYTHON_PATH", programs.join("python")),
        None => maturin,
    };
    maturin.run()?;
    let wheel = fs::read_dir(&out)?.flatten().map(|entry| entry.path()).next();
    let wheel = wheel.with_context(|| format!("no wheel in {}", out.display()))?;
    let size = fs::metadata(&wheel)?.len();
    println!("{} ({:.1} MB)", wheel.display(), size as f64 / 1e6);
    if !options.check {
        return Ok(());
    }
    let python = interpreter(house, true)?;
    let place = house.target().join("wheels/installed");
    let pip = house.program(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
    ]);
    pip.arg(&place).arg(&wheel).run()?;
    let tests = house.program(&python).args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    let tests = tests.arg(folder.join("tests")).without_env("FLUXGATE_POLICIES").env("PYTHONPATH", &place);
    tests.run()
}
