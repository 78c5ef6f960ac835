//! Every bound of the instance, in one place.

use std::time::Duration;

/// Largest frame a client may send, in bytes.
pub const FRAME_SIZE_MAX: usize = 64 << 20;
/// Largest jobspec, in bytes of JSON.
pub const JOBSPEC_SIZE_MAX: usize = 1 << 20;
/// Most jobs that one `job-ingest.submit` may make.
pub const COPIES_MAX: u64 = 100_000;
/// Most jobs that are not inactive.
pub const ACTIVE_JOBS_MAX: usize = 2_000_000;
/// Inactive jobs kept in memory for `job-list` and `job-info`; older ones stay in the database only.
pub const INACTIVE_JOBS_MAX: usize = 1_000_000;
/// Most clients at a time.
pub const CLIENTS_MAX: usize = 4096;
/// Most services one client may register.
pub const SERVICES_PER_CLIENT_MAX: usize = 64;
/// Longest name of a service or queue, in bytes.
pub const NAME_LEN_MAX: usize = 128;
/// Longest text that people attach to things: notes, reasons, log lines.
pub const NOTE_LEN_MAX: usize = 64 << 10;
/// Most submissions that wait for the word of the feasibility service.
pub const VALIDATING_MAX: usize = 100_000;
/// Most requests to services of clients whose answers are outstanding.
pub const FORWARDED_MAX: usize = 1_000_000;
/// Most eventlog watchers.
pub const WATCHERS_MAX: usize = 100_000;
/// Most operations in one `kvs.commit`.
pub const COMMIT_OPS_MAX: usize = 100_000;
/// Longest key of the KVS, in bytes.
pub const KEY_LEN_MAX: usize = 1024;
/// Largest value of the KVS, in bytes.
pub const VALUE_SIZE_MAX: usize = 16 << 20;
/// Bytes of KVS values that do not belong to a job.
pub const FREE_KEYS_SIZE_MAX: usize = 256 << 20;
/// Most dependencies of one job.
pub const DEPENDENCIES_MAX: usize = 1000;
/// Most real processes of one job.
pub const TASKS_MAX: u64 = 1024;
/// Most jobs in one answer of `job-list.list`.
pub const LIST_ENTRIES_MAX: usize = 1_000_000;
/// Deepest query of `job-list.list`, and deepest annotation.
pub const DEPTH_MAX: usize = 32;
/// Largest annotations of one job, in bytes of JSON; a merge that would exceed it is not done.
pub const ANNOTATIONS_SIZE_MAX: usize = 64 << 10;
/// Inputs handled in one turn, that is: before what they did is committed and sent.
pub const TURN_INPUTS_MAX: usize = 1024;
/// `sched.alloc` requests sent in one turn.
pub const TURN_ALLOCS_MAX: usize = 4096;
/// Jobs made in one turn.
pub const TURN_SUBMITS_MAX: usize = 2000;
/// Timers fired in one turn.
pub const TURN_TIMERS_MAX: usize = 4096;
/// No more `sched.alloc` requests are sent while this many bytes wait for the scheduler.
pub const SCHED_BACKLOG_MAX: usize = 32 << 20;
/// Seconds between the polite and the other signal for a real process that is to end.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a process is looked at that was started before a restart of the instance.
pub const REATTACH_POLL: Duration = Duration::from_millis(200);
