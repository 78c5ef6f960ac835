//! `cargo xtask dist --check`: two builds give the same bytes, and each package works from an empty folder without network, with
//! nothing of this machine but its C library.
//!
//! Must never know how packages are made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::{Dist, digest};
use crate::house::Program;

/// What is run in an unpacked package, as `sh -c`: an instance, a job to its end, a policy in place of another, the end.
const TRIAL: &str = "set -e\n\
    PATH=/usr/bin:/bin FLUXGATE_DIR=/tmp/instance HOME=/tmp\n\
    export PATH FLUXGATE_DIR HOME\n\
    fluxgate up --nodes 2 --cores 4 --detach > /dev/null\n\
    id=$(fluxgate submit -n2 -t 1m --simulate 0.01s)\n\
    fluxgate job $id --wait > /dev/null\n\
    fluxgate policy swap sjf\n\
    fluxgate down\n";

impl Dist<'_> {
    /// Try the packages that were made.
    pub(super) fn try_all(&self, made: &[PathBuf]) -> Result<()> {
        for path in made {
            let name = path.to_string_lossy();
            if name.ends_with(".tar.gz") || name.ends_with(".deb") {
                try_out(path)?;
            }
        }
        Ok(())
    }

    /// Make the packages once more, of another build of the program, and compare all bytes.
    pub(super) fn compare(
        &self,
        program: &Path,
        again: &Path,
        components: &[PathBuf],
        made: &[PathBuf],
    ) -> Result<()> {
        let before = made.iter().map(|path| digest(path)).collect::<Result<Vec<_>>>()?;
        ensure!(digest(program)? == digest(again)?, "{} and {} differ", program.display(), again.display());
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
    for program in [root.join("usr/bin/fluxgate"), PathBuf::from("/bin/sh")] {
        libraries(&program, &root)?;
    }
    fs::create_dir_all(root.join("bin"))?;
    fs::copy("/bin/sh", root.join("bin/sh"))?;
    fs::create_dir_all(root.join("proc"))?;
    fs::create_dir_all(root.join("dev"))?;
    let begin = Instant::now();
    // A user and a network of its own: nobody but root may change the root of the file system otherwise.
    let inside = format!(
        "mount -t proc proc {0}/proc && touch {0}/dev/null && mount --bind /dev/null {0}/dev/null && exec chroot {0} /bin/sh -c '{1}'",
        root.display(),
        TRIAL.replace('\'', "'\\''")
    );
    let unshare = Program::new("unshare").args(["--map-root-user", "--mount", "--net", "--pid", "--fork"]);
    unshare.args(["sh", "-c", &inside]).without_env("FLUXGATE_POLICIES").read()?;
    println!(
        "{}: unpacked in {:.2} s; instance, job, swap and end in {:.2} s",
        package.file_name().unwrap_or_default().to_string_lossy(),
        unpacked.as_secs_f64(),
        begin.elapsed().as_secs_f64()
    );
    Ok(())
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
        // This test is linked against the one of this machine.
        assert!(
            newest_glibc(&fs::read(std::env::current_exe().unwrap()).unwrap()).is_some_and(|v| v > (2, 0))
        );
    }
}
