//! Every bound of the instance, in one place.

use std::time::Duration;

/// Largest frame a client may send, in bytes.
pub const FRAME_SIZE_MAX: usize = 64 << 20;
/// Largest jobspec, in bytes of JSON.
pub const JOBSPEC_SIZE_MAX: usize = 1 << 20;
/// Maximum number of jobs from one `job-ingest.submit`.
pub const COPIES_MAX: u64 = 100_000;
/// Maximum number of jobs that are not inactive.
pub const ACTIVE_JOBS_MAX: usize = 2_000_000;
/// Inactive jobs kept in memory for `job-list` and `job-info`; older ones stay in the database only.
pub const INACTIVE_JOBS_MAX: usize = 1_000_000;
/// Maximum number of clients at a time.
pub const CLIENTS_MAX: usize = 4096;
/// Maximum number of services of one client.
pub const SERVICES_PER_CLIENT_MAX: usize = 64;
/// Longest name of a service or queue, in bytes.
pub const NAME_LEN_MAX: usize = 128;
/// Longest text of users: notes, reasons, log lines; in bytes.
pub const NOTE_LEN_MAX: usize = 64 << 10;
/// Maximum number of submissions that wait for the answer of the feasibility service.
pub const VALIDATING_MAX: usize = 100_000;
/// Maximum number of unanswered requests to services of clients.
pub const FORWARDED_MAX: usize = 1_000_000;
/// Maximum number of eventlog watchers.
pub const WATCHERS_MAX: usize = 100_000;
/// Maximum number of operations in one `kvs.commit`.
pub const COMMIT_OPS_MAX: usize = 100_000;
/// Longest key of the KVS, in bytes.
pub const KEY_LEN_MAX: usize = 1024;
/// Largest value of the KVS, in bytes.
pub const VALUE_SIZE_MAX: usize = 16 << 20;
/// Maximum size of all KVS values that do not belong to a job, in bytes.
pub const FREE_KEYS_SIZE_MAX: usize = 256 << 20;
/// Maximum number of dependencies of one job.
pub const DEPENDENCIES_MAX: usize = 1000;
/// Maximum number of real processes of one job.
pub const TASKS_MAX: u64 = 1024;
/// Maximum number of jobs in one answer of `job-list.list`.
pub const LIST_ENTRIES_MAX: usize = 1_000_000;
/// Deepest query of `job-list.list`, and deepest annotation.
pub const DEPTH_MAX: usize = 32;
/// Largest annotations of one job, in bytes of JSON; a merge that would exceed it is skipped.
pub const ANNOTATIONS_SIZE_MAX: usize = 64 << 10;
/// Number of inputs in one turn, that is, before its records are committed and its effects sent.
pub const TURN_INPUTS_MAX: usize = 1024;
/// Maximum number of messages of the scheduler that wait while the database cannot be written; a scheduler that exceeds it is
/// disconnected.
pub const HELD_INPUTS_MAX: usize = 1_000_000;
/// Period of the tries to write the database after it could not be written.
pub const COMMIT_RETRY: Duration = Duration::from_secs(1);
/// Number of `sched.alloc` requests sent in one turn.
pub const TURN_ALLOCS_MAX: usize = 4096;
/// Number of jobs created in one turn.
pub const TURN_SUBMITS_MAX: usize = 2000;
/// Number of timers fired in one turn.
pub const TURN_TIMERS_MAX: usize = 4096;
/// No more `sched.alloc` requests are sent while this many bytes wait for the scheduler.
pub const SCHED_BACKLOG_MAX: usize = 32 << 20;
/// Time between the first and the second signal for a real process that has to end.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Period of the check of a process that was started before a restart of the instance.
pub const REATTACH_POLL: Duration = Duration::from_millis(200);
