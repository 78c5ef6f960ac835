//! Carry out a plan as one, and undo it.
//!
//! Every file is first written beside its place. Then all files are renamed into place, and the files before them are kept under
//! other names until the last rename. After a failure up to then the files are as before.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::plan::{Content, File, Layout};

/// The action on a file, done or only planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Write,
    /// It is there already, byte for byte.
    Unchanged,
    /// An administrator changed it.
    Keep,
    Remove,
}

impl Action {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Write => "wrote",
            Action::Unchanged => "unchanged",
            Action::Keep => "kept",
            Action::Remove => "removed",
        }
    }
}

/// One line of the report.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) path: PathBuf,
    pub(crate) action: Action,
    pub(crate) what: &'static str,
}

/// The files that an earlier run wrote.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: String,
    /// Digest of each file.
    files: BTreeMap<PathBuf, Stamp>,
    /// Folders that were made for them.
    folders: Vec<PathBuf>,
}

/// The state of a file when it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    digest: String,
    /// Administrators change it.
    #[serde(default)]
    theirs: bool,
}

impl Manifest {
    pub(crate) fn path(prefix: &Path) -> PathBuf {
        prefix.join("lib/fluxgate/manifest.json")
    }

    fn read(layout: &Layout) -> Result<Option<Manifest>> {
        let path = &layout.manifest;
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let manifest: Manifest =
            serde_json::from_slice(&text).with_context(|| format!("{}: no manifest", path.display()))?;
        // The manifest decides which files are removed.
        for file in manifest.files.keys().chain(&manifest.folders) {
            let inside = file.starts_with(&layout.prefix) || file.starts_with(&layout.etc);
            if !inside || file.components().any(|part| part == Component::ParentDir) {
                bail!("{}: names {}, which is not below the prefix", path.display(), file.display());
            }
        }
        Ok(Some(manifest))
    }
}

fn digest_of(content: &Content) -> String {
    match content {
        Content::Bytes(bytes, mode) => digest(bytes, *mode),
        Content::Link(target) => format!("-> {}", target.display()),
    }
}

fn digest(bytes: &[u8], mode: u32) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}{}", if mode & 0o100 != 0 { " x" } else { "" })
}

/// Digest or link target of a file; `None` if there is none.
fn present(path: &Path) -> Result<Option<String>> {
    let context = || format!("cannot look at {}", path.display());
    let meta = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        meta => meta.with_context(context)?,
    };
    if meta.is_symlink() {
        let target = std::fs::read_link(path).with_context(context)?;
        return Ok(Some(format!("-> {}", target.display())));
    }
    if !meta.is_file() {
        bail!("{} is no file", path.display());
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&meta.permissions());
    Ok(Some(digest(&std::fs::read(path).with_context(context)?, mode)))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.fluxgate-{ending}"))
}

/// Install the files; with `dry_run` only say what that would do.
///
/// # Errors
/// A file that is in the way, or one that cannot be written: nothing has changed then.
pub(crate) fn install(layout: &Layout, files: &[File], dry_run: bool) -> Result<Vec<Done>> {
    let before = Manifest::read(layout)?;
    let known = before.as_ref().map(|m| m.files.clone()).unwrap_or_default();
    let mut manifest =
        Manifest { version: env!("CARGO_PKG_VERSION").to_owned(), ..before.unwrap_or_default() };
    manifest.files.clear();
    let mut done = Vec::new();
    for file in files {
        let (wanted, there) = (digest_of(&file.content), present(&file.path)?);
        let written = known.get(&file.path).map(|stamp| &stamp.digest);
        let action = match &there {
            None => Action::Write,
            Some(there) if *there == wanted => Action::Unchanged,
            Some(there) if file.theirs && written.is_some_and(|written| written != there) => Action::Keep,
            Some(_) if written.is_some() => Action::Write,
            Some(_) => bail!(
                "{} is there already and is not ours; move it away, or name another --prefix",
                file.path.display()
            ),
        };
        // The manifest keeps the old digest of a file that is kept, so that it is kept the next time too.
        let digest = match action {
            Action::Keep => written.cloned().unwrap_or(wanted),
            _ => wanted,
        };
        manifest.files.insert(file.path.clone(), Stamp { digest, theirs: file.theirs });
        done.push(Done { path: file.path.clone(), action, what: file.what });
    }
    // Files that an earlier version had and this one has not.
    let mut obsolete = Vec::new();
    for (path, stamp) in known.iter().filter(|(path, _)| !manifest.files.contains_key(*path)) {
        let Some(there) = present(path)? else { continue };
        let keep = stamp.theirs && there != stamp.digest;
        let action = if keep { Action::Keep } else { Action::Remove };
        if action == Action::Remove {
            obsolete.push(path.clone());
        }
        done.push(Done { path: path.clone(), action, what: "of an earlier version" });
    }
    if dry_run {
        return Ok(done);
    }
    let mut work = Work::default();
    let result = (|| {
        for (file, _) in files.iter().zip(&done).filter(|(_, done)| done.action == Action::Write) {
            work.stage(&file.path, &file.content)?;
        }
        manifest.folders.extend(work.folders.iter().cloned());
        manifest.folders.extend(missing_parents(&layout.manifest));
        manifest.folders.sort();
        manifest.folders.dedup();
        let text = serde_json::to_vec_pretty(&manifest).context("cannot write the manifest")?;
        work.stage(&layout.manifest, &Content::Bytes(text, 0o644))?;
        work.commit(&obsolete)
    })();
    if result.is_err() {
        work.undo();
    }
    result.map(|()| done)
}

/// Write the files of a package below the root of the layout, where nothing is yet; with `dry_run` only say what that would do.
///
/// # Errors
/// A file that is in the way, or one that cannot be written: nothing has changed then.
pub(crate) fn stage(layout: &Layout, files: Vec<File>, dry_run: bool) -> Result<Vec<Done>> {
    let (mut done, mut work) = (Vec::new(), Work::default());
    let write = || {
        for file in files {
            let path = layout.place(&file.path);
            if present(&path)?.is_some() {
                bail!("{} is there already; a package begins with an empty folder", path.display());
            }
            if !dry_run {
                work.stage(&path, &file.content)?;
            }
            done.push(Done { path, action: Action::Write, what: file.what });
        }
        work.commit(&[])
    };
    let result = write();
    if result.is_err() {
        work.undo();
    }
    result.map(|()| done)
}

/// Folders above this file that do not exist, the lowest first.
fn missing_parents(path: &Path) -> Vec<PathBuf> {
    path.ancestors().skip(1).take_while(|dir| !dir.exists()).map(Path::to_owned).collect()
}

/// Everything done so far, so that it can be undone.
#[derive(Default)]
struct Work {
    folders: Vec<PathBuf>,
    staged: Vec<PathBuf>,
    /// Places with a new file; the earlier file of a place is `beside` it.
    placed: Vec<PathBuf>,
}

impl Work {
    fn stage(&mut self, path: &Path, content: &Content) -> Result<()> {
        let Some(dir) = path.parent() else { bail!("{}: no place for a file", path.display()) };
        let missing = missing_parents(path);
        let hint = "; who may write there? Another place is named with --prefix";
        for dir in missing.into_iter().rev() {
            std::fs::create_dir(&dir).with_context(|| format!("cannot make {}{hint}", dir.display()))?;
            self.folders.push(dir);
        }
        let new = beside(path, "new");
        // Left by a run that was killed.
        let _ = std::fs::remove_file(&new);
        self.staged.push(path.to_owned());
        let written = match content {
            Content::Link(target) => symlink(target, &new),
            Content::Bytes(bytes, mode) => {
                std::fs::OpenOptions::new().create_new(true).write(true).mode(*mode).open(&new).and_then(
                    |mut file| {
                        // The mode does not depend on the umask.
                        let mode = std::os::unix::fs::PermissionsExt::from_mode(*mode);
                        file.set_permissions(mode)?;
                        file.write_all(bytes)?;
                        file.sync_all()
                    },
                )
            }
        };
        written.with_context(|| format!("cannot write in {}{hint}", dir.display()))
    }

    fn commit(&mut self, obsolete: &[PathBuf]) -> Result<()> {
        for path in std::mem::take(&mut self.staged) {
            self.placed.push(path.clone());
            let old = beside(&path, "old");
            let _ = std::fs::remove_file(&old);
            let moved = match std::fs::symlink_metadata(&path) {
                Ok(_) => std::fs::rename(&path, &old),
                Err(_) => Ok(()),
            };
            moved
                .and_then(|()| std::fs::rename(beside(&path, "new"), &path))
                .with_context(|| format!("cannot put {} in its place", path.display()))?;
        }
        // From here on all files are in place.
        for path in std::mem::take(&mut self.placed) {
            let _ = std::fs::remove_file(beside(&path, "old"));
        }
        for path in obsolete {
            std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }

    fn undo(&mut self) {
        for path in self.placed.drain(..).rev() {
            let old = beside(&path, "old");
            if std::fs::symlink_metadata(&old).is_ok() {
                let _ = std::fs::rename(&old, &path);
            } else if std::fs::symlink_metadata(beside(&path, "new")).is_err() {
                // The new file was in its place already, and there was no file before.
                let _ = std::fs::remove_file(&path);
            }
            let _ = std::fs::remove_file(beside(&path, "new"));
        }
        for path in self.staged.drain(..) {
            let _ = std::fs::remove_file(beside(&path, "new"));
        }
        for dir in self.folders.drain(..).rev() {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Remove what was installed; with `dry_run` only say what that would do.
///
/// # Errors
/// If nothing is installed, or something of it cannot be removed.
pub(crate) fn uninstall(layout: &Layout, dry_run: bool) -> Result<Vec<Done>> {
    let Some(manifest) = Manifest::read(layout)? else {
        bail!(
            "nothing is installed in {}: there is no {}",
            layout.prefix.display(),
            layout.manifest.display()
        );
    };
    let mut done = Vec::new();
    for (path, stamp) in &manifest.files {
        let Some(there) = present(path)? else { continue };
        let changed = there != stamp.digest;
        let action = if changed { Action::Keep } else { Action::Remove };
        done.push(Done { path: path.clone(), action, what: if changed { "changed since" } else { "" } });
    }
    done.push(Done { path: layout.manifest.clone(), action: Action::Remove, what: "" });
    if dry_run {
        return Ok(done);
    }
    for gone in done.iter().filter(|done| done.action == Action::Remove) {
        std::fs::remove_file(&gone.path).with_context(|| format!("cannot remove {}", gone.path.display()))?;
    }
    // Deepest first; a folder with something else in it stays.
    for dir in manifest.folders.iter().rev() {
        let _ = std::fs::remove_dir(dir);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: PathBuf, text: &str, theirs: bool) -> File {
        File { path, content: Content::Bytes(text.into(), 0o644), what: "a file", theirs }
    }

    fn layout(dir: &Path) -> Layout {
        let prefix = dir.join("p");
        Layout { etc: prefix.join("etc"), manifest: Manifest::path(&prefix), prefix, root: None }
    }

    fn actions(done: &[Done]) -> Vec<Action> {
        done.iter().map(|d| d.action).collect()
    }

    #[test]
    fn what_an_administrator_changed_stays_and_ours_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let (ours, theirs) = (layout.prefix.join("bin/x"), layout.etc.join("y"));
        let plan = |a: &str, b: &str| [file(ours.clone(), a, false), file(theirs.clone(), b, true)];
        assert_eq!(actions(&install(&layout, &plan("1", "1"), false).unwrap()), [Action::Write; 2]);
        assert_eq!(actions(&install(&layout, &plan("1", "1"), false).unwrap()), [Action::Unchanged; 2]);
        std::fs::write(&ours, "hand").unwrap();
        std::fs::write(&theirs, "hand").unwrap();
        for _ in 0..2 {
            let done = install(&layout, &plan("2", "2"), false).unwrap();
            assert_eq!(done[1].action, Action::Keep);
            assert_eq!(std::fs::read_to_string(&ours).unwrap(), "2");
            assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "hand");
        }
        // A file that left the plan is removed.
        let done = install(&layout, &plan("2", "2")[1..], false).unwrap();
        assert_eq!(actions(&done), [Action::Keep, Action::Remove]);
        assert!(!ours.exists());
        let done = uninstall(&layout, false).unwrap();
        assert_eq!(actions(&done), [Action::Keep, Action::Remove]);
        assert!(theirs.exists() && !layout.manifest.exists() && !layout.prefix.join("bin").exists());
    }

    #[test]
    fn a_failure_in_the_middle_leaves_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let first = file(layout.prefix.join("a/b/first"), "1", false);
        install(&layout, std::slice::from_ref(&first), false).unwrap();
        let tree = || {
            let mut all = Vec::new();
            let mut dirs = vec![layout.prefix.clone()];
            while let Some(dir) = dirs.pop() {
                for entry in std::fs::read_dir(dir).unwrap() {
                    let path = entry.unwrap().path();
                    match path.is_dir() {
                        true => dirs.push(path.clone()),
                        false => all.push((path.clone(), std::fs::read(&path).unwrap())),
                    }
                    if path.is_dir() {
                        all.push((path, Vec::new()));
                    }
                }
            }
            all.sort();
            all
        };
        let before = tree();
        // The third one is below a file.
        let plan = [
            file(layout.prefix.join("a/b/first"), "2", false),
            file(layout.prefix.join("c/d/second"), "2", false),
            file(layout.prefix.join("a/b/first/third"), "2", false),
        ];
        let said = format!("{:#}", install(&layout, &plan, false).unwrap_err());
        assert!(said.contains("first"), "{said}");
        assert_eq!(tree(), before);
        // And when a place cannot be taken, at the very end.
        let mut work = Work::default();
        work.stage(&plan[0].path, &plan[0].content).unwrap();
        work.stage(&plan[1].path, &plan[1].content).unwrap();
        std::fs::remove_file(beside(&plan[1].path, "new")).unwrap();
        work.commit(&[]).unwrap_err();
        work.undo();
        assert_eq!(tree(), before);
    }

    #[test]
    fn nobody_elses_file_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let path = layout.prefix.join("bin/x");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "somebody's").unwrap();
        let said = install(&layout, &[file(path.clone(), "1", false)], false).unwrap_err().to_string();
        assert!(said.contains("bin/x") && said.contains("not ours"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
        assert!(uninstall(&layout, false).unwrap_err().to_string().contains("nothing is installed"));

        std::fs::create_dir_all(layout.manifest.parent().unwrap()).unwrap();
        for (text, word) in [
            ("{", "manifest"),
            (r#"{"version":"1","files":{"/etc/passwd":{"digest":""}},"folders":[]}"#, "/etc/passwd"),
        ] {
            std::fs::write(&layout.manifest, text).unwrap();
            let said = format!("{:#}", uninstall(&layout, false).unwrap_err());
            assert!(said.contains(word), "{said}");
        }
    }
}
