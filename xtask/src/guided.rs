//! Builds with counts of runs (profile-guided optimisation): a program with counters makes replays and a demo, and the compiler
//! then knows which code runs often. The counts of two runs differ a little, so that the file with them is a part of a build.
//!
//! Must never know what is built with the counts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::dist::hex;
use crate::house::{House, Program, files};

/// Workloads of the replays: cores, nodes and seed.
const WORKLOADS: [(u32, u32, u64); 2] = [(240, 240, 1), (1024, 64, 2)];
/// Jobs of each.
const JOBS: u32 = 15_000;
/// Users of each, who submit in turn.
const USERS: u64 = 20;
/// Policies of the replays.
const POLICIES: [&str; 7] =
    ["fcfs", "easy", "sjf", "conservative", "hybrid:depth=8", "hybrid:depth=64", "multifactor"];
/// Policies of the replays on nodes: a replay that writes a schedule places each job, where one without has a pool.
const ON_NODES: [&str; 3] = ["easy", "conservative", "multifactor"];
/// Jobs of the demo, which counts what a live scheduler does.
const DEMO_JOBS: u32 = 400;

/// The field of the user in a line of Standard Workload Format, from 0.
const USER: usize = 11;

/// The first bytes of a file with counts that `llvm-profdata` wrote on a processor with the byte order of ours.
const BEGIN: [u8; 8] = *b"\xfflprofi\x81";

/// The flag of the compiler for a program that writes its counts into a folder when it ends.
pub(crate) fn counting(folder: &Path) -> String {
    format!("-Cprofile-generate={}", folder.display())
}

/// The flag of the compiler for a program that is optimised with counts.
pub(crate) fn using(counts: &Path) -> String {
    format!("-Cprofile-use={}", counts.display())
}

/// The bytes of a file with counts.
pub(crate) fn read(counts: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(counts).with_context(|| counts.display().to_string())?;
    if !bytes.starts_with(&BEGIN) {
        bail!(
            "{}: no counts of runs; accepted is a file `.profdata` that `cargo xtask dist` or `bench` makes with `--guided`",
            counts.display()
        );
    }
    Ok(bytes)
}

/// Copies a file with counts into a folder under a name that follows from its content. A file that is there is left alone: cargo
/// builds all anew where it was written since.
pub(crate) fn kept(counts: &Path, folder: &Path) -> Result<PathBuf> {
    let bytes = read(counts)?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(&hex(&Sha256::digest(&bytes))[..16]).with_extension("profdata");
    if fs::read(&path).ok().as_ref() != Some(&bytes) {
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(path)
}

/// A log in which users submit in turn, who are unknown in a made one: a policy with fair shares compares them.
fn of_users(log: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(' ').collect();
        let user = fields[0].parse().map(|job: u64| (job % USERS).to_string());
        if let (Ok(user), Some(field)) = (&user, fields.get_mut(USER)) {
            *field = user;
        }
        fields.join(" ") + "\n"
    };
    log.lines().map(line).collect()
}

/// Runs a program that was built with [`counting`] for this folder, and writes its counts into a file by `merge`, which is
/// `llvm-profdata` of the compiler.
pub(crate) fn count(house: &House, merge: &Path, program: &Path, folder: &Path, counts: &Path) -> Result<()> {
    // Earlier runs do not count.
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let dir = tempfile::tempdir()?;
    for (cores, nodes, seed) in WORKLOADS {
        let log = dir.path().join(format!("{seed}.swf"));
        let [jobs, cores, nodes, seed] =
            [JOBS.to_string(), cores.to_string(), nodes.to_string(), seed.to_string()];
        let make = house
            .program(program)
            .args(["workload", "make", "--jobs", &jobs, "--cores", &cores, "--nodes", &nodes]);
        let text = make.args(["--seed", &seed, "--estimates", "perturbed:5"]).read()?;
        fs::write(&log, of_users(&text)).with_context(|| log.display().to_string())?;
        let replay = |policy: &str| {
            let replay = house.program(program).args(["replay", "--quiet", "--threads", "1", "--policy"]);
            replay.arg(policy).arg(&log)
        };
        for policy in POLICIES {
            println!("counting: {jobs} jobs on {cores} cores under {policy}");
            replay(policy).read()?;
        }
        for policy in ON_NODES {
            println!("counting: {jobs} jobs on {nodes} nodes under {policy}");
            let schedule = dir.path().join(format!("{seed}-{policy}.csv"));
            replay(policy).arg("--schedule").arg(schedule).read()?;
        }
    }
    println!("counting: a demo");
    house.program(program).args(["demo", "--jobs", &DEMO_JOBS.to_string()]).read()?;
    let raw: Vec<PathBuf> = files(folder)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "profraw"))
        .collect();
    if raw.is_empty() {
        bail!("{}: the program wrote no counts", folder.display());
    }
    Program::new(merge).args(["merge", "--sparse", "--output"]).arg(counts).args(&raw).run()?;
    fs::remove_dir_all(folder).with_context(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_log_have_users_in_turn() {
        let log = "; UnixStartTime: 0\n1 259 -1 9977 16 -1 -1 16 9977 -1 1 0 -1 -1 -1 -1 -1 -1\n\
                   22 346 -1 10 2 -1 -1 2 10 -1 1 0 -1 -1 -1 -1 -1 -1\n";
        let expected = "; UnixStartTime: 0\n1 259 -1 9977 16 -1 -1 16 9977 -1 1 1 -1 -1 -1 -1 -1 -1\n\
                        22 346 -1 10 2 -1 -1 2 10 -1 1 2 -1 -1 -1 -1 -1 -1\n";
        assert_eq!(of_users(log), expected);
    }

    #[test]
    fn a_file_without_counts_is_refused_and_names_follow_the_content() {
        let dir = tempfile::tempdir().unwrap();
        let (file, folder) = (dir.path().join("x"), dir.path().join("kept"));
        fs::write(&file, "\u{ff}lprofi").unwrap();
        let refused = kept(&file, &folder).unwrap_err().to_string();
        assert!(refused.contains("x: no counts of runs; accepted is"), "{refused}");
        assert!(!folder.exists());

        let mut names = Vec::new();
        for content in [&b"\xfflprofi\x81one"[..], b"\xfflprofi\x81two", b"\xfflprofi\x81one"] {
            fs::write(&file, content).unwrap();
            let path = kept(&file, &folder).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
            names.push(path);
        }
        assert!(names[0] == names[2] && names[0] != names[1]);

        let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let before = written(&names[0]);
        assert_eq!(kept(&names[0], &folder).unwrap(), names[0]);
        assert_eq!(written(&names[0]), before);
    }
}
