//! The table of lines: name, number, level, and what a line means. Thousands and hundreds of a number are its area.
//!
//! A number is never used again for another line; a line that is gone leaves its number free for ever.

use tracing::Level;

/// Makes [`Id`] of the table.
macro_rules! table {
    ($(#[doc = $meaning:literal] $name:ident = $number:literal $level:ident,)+) => {
        /// A line that the scheduler can log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Id {
            $(#[doc = $meaning] $name = $number,)+
        }

        impl Id {
            /// All lines, by number.
            pub const ALL: &[Id] = &[$(Id::$name,)+];

            /// Its id as it stands in front of the line: `FG-` and four digits.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Id::$name => concat!("FG-", $number),)+
                }
            }

            /// The 128-bit id of systemd's journal: always the same 28 digits, and the four of the number.
            pub const fn journal(self) -> &'static str {
                match self {
                    $(Id::$name => concat!("f1069a7e5c8e4b0d9e3c6d1ab7e2", $number),)+
                }
            }

            /// How serious it is.
            pub const fn level(self) -> Level {
                match self {
                    $(Id::$name => Level::$level,)+
                }
            }

            /// Its meaning and the action that it asks for, in Markdown.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Id::$name => $meaning.trim_ascii(),)+
                }
            }

            /// Its name in this table.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Id::$name => stringify!($name),)+
                }
            }
        }
    };
}

table! {
    // The scheduler and its broker.
    /// The scheduler serves; with the jobs that wait, the policy and the machine.
    Ready = 1001 INFO,
    /// The instance goes down, and the scheduler with it.
    Leaving = 1002 INFO,
    /// The scheduler cannot go on with this broker and ends; the reason follows.
    SessionOver = 1003 ERROR,
    /// A signal ended the scheduler in the middle of a pass. No job is lost; what policies have learned is that of their last save.
    StoppedInPass = 1004 WARN,
    /// The broker module ends with this error.
    ModuleEnds = 1005 ERROR,
    /// The topology of nodes in R (RFC 49) does not match cores and gpus, or its description of flow is no tree; the reason follows.
    UnusedTopology = 1006 WARN,
    /// The key `scheduling` of R is no dictionary, and is ignored.
    UnusedScheduling = 1007 WARN,
    /// The end of the instance has moved; jobs without limit run until then.
    ExpirationUpdated = 1008 INFO,
    /// The scheduler does without an optional service, mostly because another module has its name.
    ServiceNotOffered = 1009 WARN,
    /// `flux module stats --clear-all` does not reach the scheduler; `--clear` does.
    NoSubscription = 1010 WARN,
    /// The log level of a reload was not set.
    LogLevelNotSet = 1011 WARN,
    /// The clock of the host was set back by a minute or more. The schedule stands still until it is as late as it was; where that takes too long, restart the scheduler.
    ClockBack = 1012 WARN,
    /// The clock of the host was set ahead by a minute or more. The line names reservations that begin late, and those whose time was passed over.
    ClockAhead = 1013 WARN,
    /// The settings `resources` name a type or a property that no vertex of this machine has, such as a misspelt one.
    UnusedRules = 1014 WARN,

    // The conversation with the job manager.
    /// The job manager has dropped the scheduler, which registers again; the reason is in `flux dmesg` before it.
    Offline = 1101 WARN,
    /// The job manager is not loaded yet; the scheduler tries again.
    JobManagerAbsent = 1102 INFO,
    /// The job manager did not answer in time; the scheduler asks again.
    JobManagerSilent = 1103 WARN,
    /// An old job manager does not tell whether it is served; a scheduler that was dropped finds out later.
    NoServingState = 1104 INFO,
    /// An old job manager does not tell what it counts as allocated; it is not compared.
    NoAudits = 1105 INFO,
    /// The job manager failed to count what is allocated; the comparison is made later.
    NoCount = 1106 WARN,
    /// Job manager and scheduler disagree on what is allocated. Report it with the line if FG-1108 does not follow.
    CountsDiffer = 1107 WARN,
    /// Job manager and scheduler agree again.
    CountsAgree = 1108 INFO,
    /// The scheduler held resources of a job that the job manager has as free, and released them. Report it with the line.
    Released = 1109 WARN,
    /// The job manager did not take the resources of a job, which are free again.
    StartRefused = 1110 ERROR,
    /// A job was given resources after its request was withdrawn; they are free again.
    RequestGone = 1111 WARN,
    /// R of a running job is read from the KVS, since `job-info` does not have it.
    NoCurrentR = 1112 WARN,
    /// A running job holds resources that are unknown; it gets an exception.
    RNotFound = 1113 WARN,
    /// A job gets an exception from the scheduler; the note has the reason.
    Exception = 1114 WARN,
    /// The job manager refused an exception.
    ExceptionRefused = 1115 WARN,
    /// A message that breaks the protocol was dropped.
    Malformed = 1116 WARN,
    /// A message that was not expected now was dropped.
    Unexpected = 1117 WARN,
    /// A user other than the owner tried to change a setting.
    GuestRefused = 1118 WARN,
    /// An embedded instance cannot tell who connects, and refuses the connection.
    NoPeerCredentials = 1119 WARN,
    /// An embedded instance refused a connection of this user.
    ConnectionRefused = 1120 WARN,

    // Policies.
    /// A policy was loaded on request; it decides nothing yet.
    PolicyLoaded = 1201 INFO,
    /// Another policy decides from now on.
    PolicySwapped = 1202 INFO,
    /// A policy trapped, ran too long or broke its contract. The line tells who decides instead and when it returns; `flux gate policy show NAME`.
    PolicyFailed = 1203 ERROR,
    /// A successor could not take over; the running policy stays.
    SwapFailed = 1204 ERROR,
    /// The policy before is to decide again.
    RollingBack = 1205 WARN,
    /// The policy before cannot be used any more.
    CannotRollBack = 1206 ERROR,
    /// A policy failed and there was none before it; the built-in policy stays.
    NoneBefore = 1207 WARN,
    /// A policy that had failed is tried again.
    QuarantineOver = 1208 INFO,
    /// A policy kept the rules of the site for the time of its probation.
    ProbationOver = 1209 INFO,
    /// A policy broke a rule of the site on probation; the one before decides again.
    ProbationBroken = 1210 ERROR,
    /// After a broken probation not even the built-in policy could take over. Report it with the line.
    BuiltinRefused = 1211 ERROR,
    /// The policy that the settings name for a queue could not be used; the default policy decides the queue.
    QueuePolicyRefused = 1212 ERROR,
    /// A policy makes its passes beside the one that decides.
    ShadowFollows = 1213 INFO,
    /// A shadow failed or fell behind; nothing live is touched. `flux gate policy diff NAME`.
    ShadowEnded = 1214 WARN,
    /// A component of the folder of policies cannot be used, and is not offered.
    PolicyLeftOut = 1215 WARN,
    /// Something happened to a policy while no client listened.
    PolicyNews = 1216 INFO,
    /// A compiled component in the cache is damaged or of another version; it is compiled anew.
    CacheIgnored = 1217 WARN,
    /// A compiled component could not be written to the cache; the next start compiles it again.
    CacheNotKept = 1218 WARN,
    /// A shadow was to be promoted at this time and was not; the reason follows.
    PromotionFailed = 1219 ERROR,
    /// An error that a policy logged itself.
    PolicyError = 1221 ERROR,
    /// A warning that a policy logged itself.
    PolicyWarning = 1222 WARN,
    /// Information that a policy logged itself.
    PolicyInfo = 1223 INFO,

    // Configuration.
    /// New settings are in force; the keys that changed follow, each with its value before and after.
    Reloaded = 1301 INFO,
    /// New settings are in force, but for what the line names.
    ReloadNote = 1302 WARN,
    /// New settings were refused; the old ones are in force. The reason follows.
    ReloadRefused = 1303 ERROR,
    /// A setting of the graph scheduler has another meaning here, or none.
    FluxionSetting = 1304 WARN,

    // Reservations of nodes.
    /// A reservation was made, changed or ended.
    Reservation = 1401 INFO,
    /// A running job that runs into a reservation with `--running shorten` could not be shortened.
    LimitKept = 1402 WARN,
    /// The next times of a reservation that comes again cannot be computed.
    NotRepeated = 1403 ERROR,
    /// Reservations of the scheduler before this one are in force.
    ReservationsRestored = 1404 INFO,
    /// Stored reservations could not be asked for and are **not** in force. Correct the cause and start the scheduler again.
    ReservationsUnread = 1405 ERROR,
    /// Stored reservations are of a later version or damaged, and are **not** in force; the value was put aside.
    ReservationsPutAside = 1406 ERROR,
    /// Reservations could not be written down. Report it with the line.
    ReservationsUnwritten = 1407 ERROR,
    /// The KVS refused reservations: they are in force, and would be lost with this process. They are written again every ten seconds.
    ReservationsNotKept = 1408 WARN,
    /// Nothing starts because stored reservations are lost and `reservations.lost` is `hold`. Make them again, then `flux gate reservation accept-loss`.
    HeldForReservations = 1409 ERROR,
    /// The owner goes on without reservations that are lost.
    LossAccepted = 1410 WARN,
    /// The users of a group cannot be looked up; reservations keep those that were known.
    GroupUnknown = 1411 WARN,
    /// A group can be looked up again.
    GroupKnown = 1412 INFO,
    /// The groups of a reservation have too many users together; those that were known stay.
    GroupsTooLarge = 1413 WARN,
    /// The users of a reservation's groups have changed.
    GroupsChanged = 1414 INFO,
    /// A reservation has begun, and jobs that began before it still hold some of its nodes; the others are used.
    NodesLate = 1415 WARN,
    /// A reservation with `release_when_idle` ended early; its nodes take other jobs.
    ReservationReleased = 1416 INFO,
    /// A queue was started or stopped because a reservation of it began or ended (`reservations.start-queues`).
    QueueFollows = 1417 INFO,
    /// A queue whose reservation began or ended could not be started or stopped: the job manager refused it, or is not there. Correct the cause, and use `flux queue start` or `stop`.
    QueueDoesNotFollow = 1418 WARN,

    // Vertices of a site's graph.
    /// Status and properties of vertices are as the scheduler before this one had them.
    VerticesRestored = 1501 INFO,
    /// Stored status and properties of vertices could not be read. Where the KVS refused it, no job is denied for a property until they were.
    VerticesUnread = 1502 WARN,
    /// Vertices with stored status or properties are not in the resource graph any more.
    VerticesGone = 1503 WARN,
    /// The KVS refused status and properties of vertices: they would be lost with this process. They are written again every ten seconds.
    VerticesNotKept = 1504 WARN,
    /// Status and properties of vertices could not be written down. Report it with the line.
    VerticesUnwritten = 1505 ERROR,
    /// A service names vertices that the graph does not have: its storage never comes up. Correct its paths.
    PathUnknown = 1506 WARN,

    // Files.
    /// A journal is written to this folder.
    JournalOpened = 1601 INFO,
    /// The folder of the journal cannot be used; scheduling goes on without one. Correct it and start the scheduler again.
    NoJournal = 1602 ERROR,
    /// The journal could not be written; it is tried again.
    JournalFailed = 1603 ERROR,
    /// The disk is full or too slow, and records are missing from the journal. Make room; a checkpoint follows by itself.
    JournalDropped = 1604 ERROR,
    /// The last record of a file of the journal is incomplete; readers skip it.
    JournalTorn = 1605 WARN,
    /// An entry of the audit trail is lost; correct its folder.
    AuditTrailFailed = 1606 ERROR,
    /// The learned state of a policy was read from a file.
    StateRead = 1607 INFO,
    /// The learned state of a policy could not be read; it begins without.
    StateUnread = 1608 ERROR,
    /// The learned state of a policy could not be written.
    StateNotKept = 1609 ERROR,
    /// The disk of the audit trail is too slow; entries are left out until it has written those that wait.
    AuditTrailBehind = 1610 ERROR,
}
