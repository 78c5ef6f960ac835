//! A tarball and a Debian package of a built program, both filled by the program's own `install`. Owners, modes, times and order
//! are the same wherever they are made.
//!
//! Must never build anything.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Dist;
use crate::house::{Program, files};

/// Contents of a package.
pub(super) struct Bundle<'a> {
    pub(super) dist: &'a Dist<'a>,
    pub(super) program: &'a Path,
    /// The policies.
    pub(super) components: &'a [PathBuf],
    /// The bill of materials.
    pub(super) bill: &'a Path,
}

/// Parts of an installation that a tarball has. The rest holds paths of the place of installation, which `fluxgate install` of
/// the unpacked program fills in.
const PORTABLE: [&str; 3] = ["bin", "lib/fluxgate/policies", "share"];

impl Bundle<'_> {
    /// An installation in /usr below an empty folder of this name.
    fn staged(&self, name: &str) -> Result<PathBuf> {
        let root = self.dist.out.join("stage").join(name);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
        }
        fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
        let install = Program::new(self.program).args(["install", "--prefix", "/usr", "--json", "--root"]);
        let policies =
            self.components.first().and_then(|path| path.parent()).context("there are no policies")?;
        install.arg(&root).arg("--policies").arg(policies).read()?;
        let doc = root.join("usr/share/doc/fluxgate");
        fs::create_dir_all(&doc).with_context(|| doc.display().to_string())?;
        for file in ["README.md", "CHANGELOG.md", "LICENSE", "LICENSE.GPL-3"] {
            let from = self.dist.house.root().join(file);
            fs::copy(&from, doc.join(file)).with_context(|| from.display().to_string())?;
        }
        fs::copy(self.bill, doc.join("fluxgate.cdx.json"))
            .with_context(|| self.bill.display().to_string())?;
        Ok(root)
    }

    /// `fluxgate-VERSION-x86_64-linux.tar.gz`: unpack it anywhere, and run `bin/fluxgate`.
    pub(super) fn tarball(&self) -> Result<PathBuf> {
        let staged = self.staged("tar")?;
        let name = format!("fluxgate-{}-x86_64-linux", self.dist.version);
        let folder = staged.join(&name);
        for part in PORTABLE {
            let (from, to) = (staged.join("usr").join(part), folder.join(part));
            fs::create_dir_all(to.parent().context("it is below the folder")?)?;
            fs::rename(&from, &to).with_context(|| from.display().to_string())?;
        }
        plain_modes(&folder)?;
        let out = self.dist.out.join(format!("{name}.tar.gz"));
        let time = format!("--mtime=@{}", self.dist.time);
        let tar = Program::new("tar").args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        let tar = tar.args(["--format=gnu", "--use-compress-program=gzip -9n", &time, "--create", "--file"]);
        tar.arg(&out).arg("--directory").arg(&staged).arg(&name).run()?;
        Ok(out)
    }

    /// `fluxgate_VERSION_amd64.deb`.
    pub(super) fn debian(&self) -> Result<PathBuf> {
        let staged = self.staged("deb")?;
        compress_pages(&staged.join("usr/share/man/man1"))?;
        let about = staged.join("DEBIAN");
        fs::create_dir(&about).with_context(|| about.display().to_string())?;
        let kilobytes = size(&staged)?.div_ceil(1024);
        let version = &self.dist.version;
        let (glibc, minor) = super::GLIBC;
        let control = format!(
            "Package: fluxgate\nVersion: {version}\nArchitecture: amd64\nSection: admin\nPriority: optional\n\
             Maintainer: The Fluxgate developers <fluxgate@localhost>\nInstalled-Size: {kilobytes}\n\
             Depends: libc6 (>= {glibc}.{minor})\nSuggests: flux-core, python3\n\
             Description: scheduler for the Flux resource manager\n \
             Fluxgate schedules the jobs of a Flux instance. It owns the graph of resources and the\n \
             queue; policies are WebAssembly components in a sandbox, which are exchanged while jobs\n \
             wait and run. It can also replay workload logs, and run an embedded instance without Flux.\n"
        );
        fs::write(about.join("control"), control)?;
        // An upgrade keeps the files that an administrator may change.
        let etc: String = files(&staged.join("etc"))?
            .iter()
            .map(|path| Ok(format!("/{}\n", path.strip_prefix(&staged)?.display())))
            .collect::<Result<_>>()?;
        fs::write(about.join("conffiles"), etc)?;
        plain_modes(&staged)?;
        let out = self.dist.out.join(format!("fluxgate_{version}_amd64.deb"));
        let build = Program::new("dpkg-deb").args(["--root-owner-group", "-Zxz", "--build"]);
        build.arg(&staged).arg(&out).env("SOURCE_DATE_EPOCH", &self.dist.time).read()?;
        Ok(out)
    }
}

fn size(folder: &Path) -> Result<u64> {
    files(folder)?.iter().map(|path| Ok(path.symlink_metadata()?.len())).sum()
}

/// Folders and programs 755, other files 644, whatever the umask was.
fn plain_modes(folder: &Path) -> Result<()> {
    let mut next = vec![folder.to_path_buf()];
    while let Some(path) = next.pop() {
        let meta = path.symlink_metadata()?;
        if meta.is_symlink() {
            continue;
        }
        let mode = if meta.is_dir() || meta.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        if meta.is_dir() {
            next.extend(fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(())
}

/// Man pages as Debian has them. A page that names another one by file keeps the plain name.
fn compress_pages(folder: &Path) -> Result<()> {
    for page in files(folder)? {
        Program::new("gzip").args(["-9n"]).arg(&page).read()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_do_not_depend_on_how_files_were_made() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for (name, mode) in [("a/x", 0o700), ("a/b/y", 0o600), ("z", 0o664)] {
            fs::write(dir.path().join(name), "").unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", dir.path().join("l")).unwrap();
        plain_modes(dir.path()).unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(
            [mode("a"), mode("a/b"), mode("a/x"), mode("a/b/y"), mode("z")],
            [0o755, 0o755, 0o755, 0o644, 0o644]
        );
        let found = files(dir.path()).unwrap();
        assert_eq!(found.len(), 4);
        assert!(files(&dir.path().join("none")).unwrap().is_empty());
    }
}
