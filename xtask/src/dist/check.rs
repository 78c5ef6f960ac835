//! `cargo xtask dist --check`: two builds give the same bytes, and each package works from an empty folder without network: the
//! program with nothing of this machine but its C library, the wheel in an empty virtual environment of its Python.
//!
//! Must never know how packages are made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Built, Dist, digest};
use crate::house::Program;
use crate::tools;

/// The trial of an unpacked package, as `sh -c`: an instance, a job to its end, a policy in place of another, the end.
const TRIAL: &str = "set -e\n\
    fluxgate up --nodes 2 --cores 4 --detach > /dev/null\n\
    id=$(fluxgate submit -n2 -t 1m --simulate 0.01s)\n\
    fluxgate job $id --wait > /dev/null\n\
    echo scheduled\n\
    fluxgate policy swap sjf\n\
    fluxgate down\n";
/// The line after the first job.
const SCHEDULED: &str = "scheduled";
/// The environment of the trial in a root that has only the package.
const SETTINGS: &str =
    "PATH=/usr/bin:/bin FLUXGATE_DIR=/tmp/instance HOME=/tmp\nexport PATH FLUXGATE_DIR HOME\n";
/// Packages that the wheel depends on, fetched once for the trial without network.
const NEEDED: &str = "numpy>=1.23";
/// The trial of the module of the wheel.
const REPLAY: &str = "import fluxgate as fg; log = fg.Log.lublin99(300, cores=64, seed=1); \
    assert 'sjf' in fg.policies(); print(fg.replay(log, ['easy', 'sjf'])['sjf'].jobs['wait'].mean())";

impl Dist<'_> {
    /// Try the packages that were made.
    pub(super) fn try_all(&self, made: &[PathBuf]) -> Result<()> {
        for path in made {
            let name = path.to_string_lossy();
            if name.ends_with(".tar.gz") || name.ends_with(".deb") {
                try_out(path)?;
            } else if name.ends_with(".whl") {
                self.try_wheel(path)?;
            }
        }
        Ok(())
    }

    /// Install the wheel in an empty virtual environment without network, and use the command and the module there.
    fn try_wheel(&self, wheel: &Path) -> Result<()> {
        let room = self.house.target().join("toolchains/wheel-trial");
        let needed = tools::downloaded(&room, NEEDED)?;
        let dir = tempfile::tempdir()?;
        let place = dir.path().join("venv");
        Program::new("python3").args(["-m", "venv"]).arg(&place).run()?;
        let begin = Instant::now();
        let inside = format!(
            "set -e\nHOME={0} FLUXGATE_DIR={0}/instance PATH={1}/bin:$PATH\nexport HOME FLUXGATE_DIR PATH\n\
             pip install --quiet --disable-pip-version-check --no-index --find-links '{2}' '{3}'\n{TRIAL}\
             python -c \"{REPLAY}\" > /dev/null",
            dir.path().display(),
            place.display(),
            needed.display(),
            wheel.display()
        );
        let mut first = None;
        let unshare = Program::new("unshare").args(["--map-root-user", "--net"]).args(["sh", "-c", &inside]);
        let unshare = unshare.without_env("FLUXGATE_POLICIES").without_env("PYTHONPATH");
        unshare.watch(|line| first = first.or((line == SCHEDULED).then(|| begin.elapsed())))?;
        report(wheel, first, begin)
    }

    /// Make the packages once more, of another build, and compare all bytes.
    pub(super) fn compare(
        &self,
        built: &Built,
        again: &Built,
        components: &[PathBuf],
        made: &[PathBuf],
    ) -> Result<()> {
        let before = made.iter().map(|path| digest(path)).collect::<Result<Vec<_>>>()?;
        for (one, other) in
            [(Some(&built.program), Some(&again.program)), (built.module.as_ref(), again.module.as_ref())]
        {
            let (Some(one), Some(other)) = (one, other) else { continue };
            ensure!(digest(one)? == digest(other)?, "{} and {} differ", one.display(), other.display());
        }
        let after =
            self.make(again, components)?.iter().map(|path| digest(path)).collect::<Result<Vec<_>>>()?;
        let mut pairs = made.iter().zip(before.iter().zip(&after));
        if let Some((path, _)) = pairs.find(|(_, (one, other))| one != other) {
            bail!("{}: another digest when it is made once more", path.display());
        }
        println!("two builds have the same {} digests", before.len());
        Ok(())
    }
}

/// Tell how long the first schedule, and all, took.
fn report(package: &Path, first: Option<Duration>, begin: Instant) -> Result<()> {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let first = first.with_context(|| format!("{name}: no job was scheduled"))?.as_secs_f64();
    let all = begin.elapsed().as_secs_f64();
    println!("{name}: from empty to the first job in {first:.2} s; with a swap and the end in {all:.2} s");
    Ok(())
}

/// Unpack a package below an empty root, add the C library and a shell, and use the program there without network.
fn try_out(package: &Path) -> Result<()> {
    let begin = Instant::now();
    let dir = tempfile::tempdir()?;
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("tmp"))?;
    if package.extension().is_some_and(|ending| ending == "deb") {
        Program::new("dpkg-deb").arg("--extract").args([package, &root]).run()?;
        let unit = fs::read_to_string(root.join("usr/lib/systemd/system/fluxgate-sched.service"))
            .context("the package has no unit")?;
        ensure!(
            unit.contains("ExecStart=/usr/bin/fluxgate "),
            "{}: the unit starts another program",
            package.display()
        );
        ensure!(
            root.join("usr/share/man/man1/fluxgate.1.gz").is_file(),
            "{}: no man page",
            package.display()
        );
    } else {
        fs::create_dir_all(root.join("usr"))?;
        let tar = Program::new("tar").args(["--extract", "--strip-components=1", "--file"]).arg(package);
        tar.arg("--directory").arg(root.join("usr")).run()?;
    }
    let unpacked = begin.elapsed();
    // The C library and the shell of the root are no part of the package.
    for program in [root.join("usr/bin/fluxgate"), PathBuf::from("/bin/sh")] {
        libraries(&program, &root)?;
    }
    fs::create_dir_all(root.join("bin"))?;
    fs::copy("/bin/sh", root.join("bin/sh"))?;
    fs::create_dir_all(root.join("proc"))?;
    fs::create_dir_all(root.join("dev"))?;
    let begin = Instant::now().checked_sub(unpacked).unwrap_or(begin);
    // A user and a network of its own: only root may change the root of the file system otherwise.
    let inside = format!(
        "mount -t proc proc {0}/proc && touch {0}/dev/null && mount --bind /dev/null {0}/dev/null && exec chroot {0} /bin/sh -c '{1}'",
        root.display(),
        format!("{SETTINGS}{TRIAL}").replace('\'', "'\\''")
    );
    let mut first = None;
    let unshare = Program::new("unshare").args(["--map-root-user", "--mount", "--net", "--pid", "--fork"]);
    let unshare = unshare.args(["sh", "-c", &inside]).without_env("FLUXGATE_POLICIES");
    unshare.watch(|line| first = first.or((line == SCHEDULED).then(|| begin.elapsed())))?;
    report(package, first, begin)
}

/// Copy the shared libraries of a program to the same paths below a root.
fn libraries(program: &Path, root: &Path) -> Result<()> {
    let listed = Program::new("ldd").arg(program).read()?;
    for path in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(path.trim_start_matches('/').trim_end_matches(':'));
        if !to.exists() {
            fs::create_dir_all(to.parent().context("it is below the root")?)?;
            fs::copy(path, &to).with_context(|| path.to_owned())?;
        }
    }
    Ok(())
}

/// The newest version of glibc that a program names, if it names one.
pub(super) fn newest_glibc(bytes: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let version = |at: usize| {
        let rest = bytes.get(at + MARK.len()..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let mut parts = std::str::from_utf8(rest.get(..end)?).ok()?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    let marks = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    marks.filter_map(|(at, _)| version(at)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_that_a_program_names() {
        let names = b"\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_";
        assert_eq!(newest_glibc(names), Some((2, 28)));
        assert_eq!(newest_glibc(b"static"), None);
        // This test is linked against the glibc of this machine.
        assert!(
            newest_glibc(&fs::read(std::env::current_exe().unwrap()).unwrap()).is_some_and(|v| v > (2, 0))
        );
    }
}
