//! Real processes: start, signals, wait; and recovery after a restart of the instance.
//!
//! Each task is a process group of its own. All tasks of a job share one file for output and one for errors in the
//! folder of the instance. A process has the job's id and the instance's address in its environment; by these it is
//! found again, and distinguished from another process with the same number.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use fluxgate_formats::JobId;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::effect::Launch;
use crate::limits::REATTACH_POLL;

/// Wait status of a program that was not found, as a shell reports it.
const STATUS_NOT_FOUND: i64 = 127 << 8;
/// Wait status of a job whose end is unknown.
const STATUS_UNKNOWN: i64 = 1 << 8;
/// Search path of programs when the jobspec has none.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// Folder of output files.
pub(crate) const OUTPUT: &str = "output";

/// The end of a process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Report {
    /// It ended with this wait status.
    Exited(JobId, i64),
    /// It could not be started, or its end is unknown; with a text and the job's status.
    Failed(JobId, String, i64),
}

/// Starts and signals processes; results come through a channel.
#[derive(Debug)]
pub(crate) struct Runner {
    dir: PathBuf,
    uri: String,
    reports: mpsc::UnboundedSender<Report>,
    groups: BTreeMap<JobId, Vec<Pid>>,
}

/// Paths of the output of a job in the folder `dir` of an instance: standard output and standard error. The files of a simulated job do
/// not exist.
pub fn output_paths(dir: &Path, id: JobId) -> (PathBuf, PathBuf) {
    let base = dir.join(OUTPUT);
    (base.join(format!("{}.out", id.to_f58_ascii())), base.join(format!("{}.err", id.to_f58_ascii())))
}

impl Runner {
    /// A runner for the instance in `dir` at `uri`.
    pub(crate) fn new(dir: &Path, uri: &str, reports: mpsc::UnboundedSender<Report>) -> Self {
        Runner { dir: dir.to_owned(), uri: uri.to_owned(), reports, groups: BTreeMap::new() }
    }

    fn report(&self, report: Report) {
        // The receiver is gone only when the instance ends.
        let _ = self.reports.send(report);
    }

    /// Starts all tasks of a job, or none: when one cannot be started, the others are killed.
    pub(crate) fn spawn(&mut self, launch: &Launch) {
        for rank in 0..launch.ntasks {
            match self.spawn_task(launch, rank) {
                Ok(pid) => self.groups.entry(launch.id).or_default().push(pid),
                Err(note) => {
                    self.signal(launch.id, Signal::SIGKILL as i32);
                    return self.report(Report::Failed(launch.id, note, STATUS_NOT_FOUND));
                }
            }
        }
    }

    fn open(&self, path: &Path) -> Result<File, String> {
        std::fs::create_dir_all(self.dir.join(OUTPUT))
            .and_then(|()| OpenOptions::new().create(true).append(true).open(path))
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    fn spawn_task(&self, launch: &Launch, rank: u64) -> Result<Pid, String> {
        let (out, err) = output_paths(&self.dir, launch.id);
        let (out, err) = (self.open(&out)?, self.open(&err)?);
        let (program, arguments) = launch.command.split_first().ok_or("the jobspec has no command")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        if !launch.environment.iter().any(|(key, _)| key == "PATH") {
            command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into()));
        }
        let valid = |(key, value): &&(String, String)| {
            !key.is_empty() && !key.contains(['=', '\0']) && !value.contains('\0')
        };
        command.envs(launch.environment.iter().filter(valid).map(|(key, value)| (key, value)));
        command
            .env("FLUX_URI", &self.uri)
            .env("FLUX_JOB_ID", launch.id.to_f58_ascii())
            .env("FLUX_JOB_SIZE", launch.ntasks.to_string())
            .env("FLUX_JOB_NNODES", launch.nnodes.to_string())
            .env("FLUX_TASK_RANK", rank.to_string())
            .env("FLUX_TASK_LOCAL_ID", rank.to_string());
        command.current_dir(launch.cwd.as_deref().map_or(self.dir.as_path(), Path::new));
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let mut child = command.spawn().map_err(|e| match &launch.cwd {
            Some(cwd) if !Path::new(cwd).is_dir() => format!("cannot start '{program}': no folder {cwd}"),
            _ => format!("cannot start '{program}': {e}"),
        })?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or("the process has no number")?;
        let (id, reports) = (launch.id, self.reports.clone());
        tokio::spawn(async move {
            let status = child.wait().await.map_or(STATUS_UNKNOWN, |status| status.into_raw().into());
            let _ = reports.send(Report::Exited(id, status));
        });
        Ok(Pid::from_raw(pid))
    }

    /// Signals all processes of a job. Processes that are gone are not an error.
    pub(crate) fn signal(&mut self, id: JobId, signal: i32) {
        let Ok(signal) = Signal::try_from(signal) else { return };
        for group in self.groups.get(&id).into_iter().flatten() {
            let _ = killpg(*group, signal);
        }
    }

    /// A job has ended: the remaining processes of its tasks' groups are ended, too.
    pub(crate) fn sweep(&mut self, id: JobId) {
        self.signal(id, Signal::SIGKILL as i32);
        self.groups.remove(&id);
    }

    /// Searches for the processes of a job that were started before a restart of the instance. Their exit status is
    /// lost; they are never started again, and can be signalled.
    pub(crate) fn reattach(&mut self, id: JobId) {
        let pids = find_processes(&self.uri, id);
        if pids.is_empty() {
            let note = "no process of the job was left when the instance was started again";
            return self.report(Report::Failed(id, note.to_owned(), STATUS_UNKNOWN));
        }
        let mut groups: Vec<Pid> = pids.iter().filter_map(|pid| getpgid(Some(*pid)).ok()).collect();
        groups.sort_unstable();
        groups.dedup();
        self.groups.insert(id, groups);
        let (uri, reports) = (self.uri.clone(), self.reports.clone());
        tokio::spawn(async move {
            while pids.iter().any(|pid| belongs(&uri, id, *pid)) {
                tokio::time::sleep(REATTACH_POLL).await;
            }
            let note = "the exit status was lost when the instance was started again";
            let _ = reports.send(Report::Failed(id, note.to_owned(), STATUS_UNKNOWN));
        });
    }
}

/// True if a living process belongs to a job of this instance.
fn belongs(uri: &str, id: JobId, pid: Pid) -> bool {
    // A zombie has no environment any more, so it counts as gone.
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let has = |wanted: String| environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes());
    has(format!("FLUX_JOB_ID={}", id.to_f58_ascii()))
        && has(format!("FLUX_URI={uri}"))
        && kill(pid, None).is_ok()
}

fn find_processes(uri: &str, id: JobId) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut pids: Vec<Pid> = entries.filter_map(number).map(Pid::from_raw).collect();
    pids.sort_unstable();
    pids.retain(|pid| belongs(uri, id, *pid));
    pids
}
