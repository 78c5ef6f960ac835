//! The keys that an administrator can set: one description of each.
//!
//! This module must never know what they do.

use fluxgate_graph::Placement;

/// One key: its name, the values that it takes, and its purpose.
pub struct Key {
    /// Its name in a table.
    pub name: &'static str,
    /// The values that it takes.
    pub accepts: &'static str,
    /// Its purpose.
    pub meaning: &'static str,
}

pub(super) const fn key(name: &'static str, accepts: &'static str, meaning: &'static str) -> Key {
    Key { name, accepts, meaning }
}

/// Keys that a running scheduler reads for its next start only, beside the queue depth.
pub(crate) const FIXED: [&str; 3] = ["journal", "journal-size", "resources"];

/// All keys, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    key(
        "policy",
        "a policy's name or the path of a .wasm file, with @sha256:DIGEST only if it has that one",
        "who decides",
    ),
    key(
        "policy-config",
        "a table of KEY = VALUE; as an argument policy.KEY=VALUE",
        "settings of that policy",
    ),
    key("policies", "a folder", "where policies are looked for by name"),
    key("require-manifest", "true or false", "load only components that carry a manifest"),
    key("require-signature", "true or false", "load only components signed with a trusted key"),
    key("trusted-keys", "a folder", "where the public keys (*.pub) of trusted signers are"),
    key("audit-trail", "a file", "where it is recorded who loaded and swapped policies"),
    key(
        "queue-depth",
        "\"unlimited\" or a whole number from 1 to 2147483647",
        "requests that the job manager sends at once",
    ),
    key("placement", Placement::NAMES, "where jobs go when neither they nor the policy have a preference"),
    key(
        "record-format",
        "rv1_nosched, rv1 or rv1_shorthand",
        "what R says of storage and other vertices above nodes that a job holds, where the site has a graph",
    ),
    key(
        "resources",
        "a table of by-unit = [TYPE, ...], nodes-below = { ATTRIBUTE = PROPERTY }; as arguments resources.by-unit=TYPE,..., \
         resources.nodes-below.ATTRIBUTE=PROPERTY",
        "types of storage and other vertices of which a request gets the units that it names, and attributes of jobs that run only below vertices with a property",
    ),
    key(
        "queues",
        "a table of QUEUE = { placement = NAME, policy = NAME, policy-config = { KEY = VALUE }, ceiling = AMOUNT, floor = AMOUNT }; as arguments \
         queues.QUEUE.placement=NAME, queues.QUEUE.policy=NAME, queues.QUEUE.policy.KEY=VALUE, queues.QUEUE.ceiling=AMOUNT, queues.QUEUE.floor=AMOUNT",
        "placement of the jobs of some queues, who decides them, and how much they may hold",
    ),
    key(
        "reservations",
        "a table of create = \"owner\" or \"admin\", margin = DURATION, lost = \"go-on\" or \"hold\", banks = true or false, start-queues = true or false, wait-for-nodes = DURATION; as arguments reservations.KEY=VALUE",
        "who may make reservations, how long before a start of one of members others must have ended, what happens when they cannot be read, whether banks of jobs are validated, whether queues are started and stopped with their reservations, and how long after a start nodes of reservations are waited for",
    ),
    key("annotate", "true or false", "tell jobs why they wait and when they may start"),
    key(
        "annotate-reason",
        "true or false",
        "tell jobs why they wait in a form for programs too (annotation sched.reason)",
    ),
    key(
        "estimates",
        PERIOD,
        "how often jobs without a reserved start are told when they are expected to start; 0 is never",
    ),
    key(
        "log-level",
        "emerg, alert, crit, err, warning, notice, info or debug",
        "least serious line that goes to the broker's log",
    ),
    key(
        "candidates-per-pass-max",
        "a whole number from 1 to 1000000000",
        "jobs offered to the policy in one pass of a queue",
    ),
    key(
        "decisions-per-pass-max",
        "a whole number from 1 to 10000000",
        "starts and reservations in one pass of a queue",
    ),
    key("reservations-max", "a whole number from 0 to 1000000", "reservations that stand at once"),
    key("queues-max", "a whole number from 1 to 65536", "named queues"),
    key(
        "annotation-bytes-per-job-max",
        "a whole number from 0 to 1048576",
        "bytes that a policy attaches to one job in a pass",
    ),
    key(
        "annotation-bytes-per-pass-max",
        "a whole number from 0 to 67108864",
        "bytes that a policy attaches to all jobs in a pass",
    ),
    key(
        "annotation-keys-per-job-max",
        "a whole number from 0 to 65536",
        "different annotation keys that a policy attaches to one job",
    ),
    key(
        "annotations-per-pass-max",
        "a whole number from 0 to 10000000",
        "annotations that a policy makes in one pass",
    ),
    key(
        "limits",
        "a table of LIMIT = NUMBER; as an argument limits.LIMIT=NUMBER",
        "bounds of every component: fuel, memory, tables, stack, output, log",
    ),
    key(
        "on-breach",
        "fallback or hold",
        "what decides when a policy has failed: the built-in one, or nobody",
    ),
    key(
        "quarantine",
        PERIOD,
        "how long a policy that failed stays out the first time, twice as long each time after",
    ),
    key("quarantine-max", PERIOD, "how long it stays out at most"),
    key(
        "quarantine-tries",
        "a whole number from 0 to 100",
        "how often it comes back by itself before a person has to ask for it",
    ),
    key(
        "probation-pass-time-max",
        PERIOD_NONE,
        "a policy on probation is rolled back when three passes in a row take longer",
    ),
    key(
        "probation-fuel-max",
        "a whole number from 0 to 1000000000000; 0 is no bound",
        "the same when a pass takes more fuel",
    ),
    key(
        "probation-wait-max",
        PERIOD_NONE,
        "the same when the jobs that it started had waited longer in the mean",
    ),
    key(
        "probation-starts-per-hour-min",
        "a whole number from 0 to 1000000000; 0 is no bound",
        "the same when fewer jobs start while some wait",
    ),
    key(
        "promote-passes-min",
        "a whole number from 0 to 1000000000",
        "passes that a shadow makes before it is promoted",
    ),
    key(
        "promote-differences-max",
        "a whole number from 0 to 100, percent",
        "jobs that it would have started at another time",
    ),
    key(
        "promote-wait-max",
        "a whole number from 0 to 1000000, percent; 0 is no bound",
        "what jobs would have waited with it, of what they waited",
    ),
    key(
        "policy-state",
        "a folder",
        "where what policies have learned is kept over a restart; none is nowhere",
    ),
    key("journal", "a folder", "where every event and decision is written down, for replay; none is nowhere"),
    key(
        "journal-size",
        "bytes, as a whole number or like 64M or 1G, from 1M to 1024G",
        "most that the journal takes on the disk",
    ),
    key("watch-period", PERIOD, "how often the job manager's view of the scheduler is looked at; 0 is never"),
    key("audit-period", PERIOD, "how often the ledger is compared with the job manager's; 0 is never"),
];

const PERIOD: &str = "seconds, or a duration like 90s, 10m, 1.5h, of at most 366d; 0 is never";
const PERIOD_NONE: &str = "seconds, or a duration like 90s, 10m, 1.5h, of at most 366d; 0 is no bound";

/// The names of all keys.
pub(super) fn names() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

/// The names of all arguments.
pub(super) fn argument_names() -> String {
    let name = |key: &'static Key| match key.name {
        "policy-config" => "policy.KEY",
        "queues" => {
            "queues.QUEUE.placement, queues.QUEUE.policy, queues.QUEUE.policy.KEY, queues.QUEUE.ceiling, queues.QUEUE.floor"
        }
        "limits" => "limits.LIMIT",
        "reservations" => "reservations.KEY",
        "resources" => "resources.by-unit, resources.nodes-below.ATTRIBUTE",
        name => name,
    };
    KEYS.iter().map(name).chain(["mode"]).collect::<Vec<_>>().join(", ")
}
