//! The header of an SWF log: `; Label: value` comments.
//!
//! A directive with an invalid value is no reason to refuse the log: it becomes a warning, and its field stays empty.

use std::collections::BTreeMap;

use serde::Serialize;

/// Maximum number of directives without a field of their own, and of warnings.
const MAX_EXTRA: usize = 1000;

/// The directives of SWF 2.2. Everything is optional in practice.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Header {
    /// `Version`: of the format.
    pub version: Option<String>,
    /// `Computer`: brand and model.
    pub computer: Option<String>,
    /// `Installation`: the site, and the machine's name.
    pub installation: Option<String>,
    /// `Acknowledge`: the acknowledgement for users of the log.
    pub acknowledge: Vec<String>,
    /// `Information`: addresses and remarks.
    pub information: Vec<String>,
    /// `Conversion`: the author of the conversion.
    pub conversion: Option<String>,
    /// `MaxJobs`: jobs in the original log.
    pub max_jobs: Option<u64>,
    /// `MaxRecords`: lines in the file (more than jobs if jobs have partial executions).
    pub max_records: Option<u64>,
    /// `Preemption`: `No`, `Yes`, `Double` or `TS`.
    pub preemption: Option<String>,
    /// `UnixStartTime`: second 0 of the log, in seconds since the epoch, UTC.
    pub unix_start_time: Option<f64>,
    /// `TimeZone`: seconds to add for local time. Deprecated by the format for `TimeZoneString`.
    pub time_zone: Option<f64>,
    /// `TimeZoneString`: a zone name as in the tz database.
    pub time_zone_string: Option<String>,
    /// `StartTime`, as `date` prints it.
    pub start_time: Option<String>,
    /// `EndTime`, as `date` prints it.
    pub end_time: Option<String>,
    /// `MaxNodes`: nodes of the machine.
    pub max_nodes: Option<u32>,
    /// `MaxProcs`: processors of the machine.
    pub max_procs: Option<u32>,
    /// `MaxRuntime`: longest run time the system allowed, seconds.
    pub max_runtime: Option<f64>,
    /// `MaxMemory`: most memory allowed, kilobytes.
    pub max_memory_kb: Option<f64>,
    /// `AllowOveruse`: true if jobs may use more than they requested.
    pub allow_overuse: Option<bool>,
    /// `MaxQueues`: number of queues.
    pub max_queues: Option<u32>,
    /// `Queues`: free text about them.
    pub queues_text: Vec<String>,
    /// `Queue`: names of queues by number.
    pub queues: BTreeMap<u32, String>,
    /// `MaxPartitions`: number of partitions.
    pub max_partitions: Option<u32>,
    /// `Partitions`: free text about them.
    pub partitions_text: Vec<String>,
    /// `Partition`: names of partitions by number.
    pub partitions: BTreeMap<u32, String>,
    /// `Note`: remarks.
    pub notes: Vec<String>,
    /// Labels that the format does not define, in file order.
    pub other: Vec<(String, String)>,
    /// Directives that could not be parsed: line number and text.
    pub warnings: Vec<(u64, String)>,
}

impl Header {
    /// Reads one comment line, without its `;`. Text that is no directive is ignored.
    pub(crate) fn add(&mut self, line: u64, comment: &str) {
        let Some((label, value)) = comment.split_once(':') else { return };
        let (label, value) = (label.trim(), value.trim());
        if label.is_empty() || label.contains(char::is_whitespace) {
            return;
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let known = match label {
            "Version" => set(&mut self.version, text()),
            "Computer" => set(&mut self.computer, text()),
            "Installation" => set(&mut self.installation, text()),
            "Acknowledge" => push(&mut self.acknowledge, value),
            "Information" => push(&mut self.information, value),
            "Conversion" => set(&mut self.conversion, text()),
            "MaxJobs" => set(&mut self.max_jobs, leading(value)),
            "MaxRecords" => set(&mut self.max_records, leading(value)),
            "Preemption" => set(&mut self.preemption, text()),
            "UnixStartTime" => set(&mut self.unix_start_time, leading_f64(value)),
            "TimeZone" => set(&mut self.time_zone, leading_f64(value)),
            "TimeZoneString" => set(&mut self.time_zone_string, text()),
            "StartTime" => set(&mut self.start_time, text()),
            "EndTime" => set(&mut self.end_time, text()),
            "MaxNodes" => set(&mut self.max_nodes, leading(value)),
            "MaxProcs" => set(&mut self.max_procs, leading(value)),
            // Both may be `none` or empty in logs of machines without a limit.
            "MaxRuntime" => {
                set(&mut self.max_runtime, leading_f64(value)) || value.eq_ignore_ascii_case("none")
            }
            "MaxMemory" => {
                set(&mut self.max_memory_kb, leading_f64(value)) || value.eq_ignore_ascii_case("none")
            }
            "AllowOveruse" => set(&mut self.allow_overuse, yes_no(value)),
            "MaxQueues" => set(&mut self.max_queues, leading(value)),
            "Queues" => push(&mut self.queues_text, value),
            "Queue" => numbered(&mut self.queues, value),
            "MaxPartitions" => set(&mut self.max_partitions, leading(value)),
            "Partitions" => push(&mut self.partitions_text, value),
            "Partition" => numbered(&mut self.partitions, value),
            "Note" => push(&mut self.notes, value),
            _ => {
                if self.other.len() < MAX_EXTRA {
                    self.other.push((label.to_owned(), value.to_owned()));
                }
                true
            }
        };
        if !known && self.warnings.len() < MAX_EXTRA {
            self.warnings.push((line, format!("{label}: found `{value}`")));
        }
    }
}

fn set<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    let ok = value.is_some();
    // The first one counts: logs repeat labels in later remarks.
    if slot.is_none() {
        *slot = value;
    }
    ok
}

fn push(list: &mut Vec<String>, value: &str) -> bool {
    if !value.is_empty() && list.len() < MAX_EXTRA {
        list.push(value.to_owned());
    }
    true
}

/// `1  [fque:1]`, `3  normal`.
fn numbered(map: &mut BTreeMap<u32, String>, value: &str) -> bool {
    let (number, name) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
    let Ok(number) = number.parse() else { return false };
    if map.len() < MAX_EXTRA {
        map.insert(number, name.trim().to_owned());
    }
    true
}

/// The whole number that the value begins with: logs append remarks (`128 (two frames)`).
fn leading<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.split(|c: char| c.is_whitespace() || c == '(').next()?.parse().ok()
}

fn leading_f64(value: &str) -> Option<f64> {
    leading::<f64>(value).filter(|n| n.is_finite())
}

fn yes_no(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_of_real_headers() {
        let text = " Version: 2.2\n Computer: IBM SP\n Acknowledge: A\n Acknowledge: B\n MaxJobs: 250440\n \
            UnixStartTime: 956700003\n TimeZone: -28800\n TimeZoneString: US/Pacific\n MaxNodes: 144\n \
            MaxProcs: 1152 (8-way)\n MaxQueues: 24\n Queue:  0  interactive    \n Queue: 10  No_Class\n \
            Partition:  1  DEFAULT\n Note: THIS IS A CLEANED VERSION OF THE LOG!\n       The filters used:\n\
            \n          user=68 and (job>=58 and job<=564) (477 jobs removed)\n MaxRuntime: none\n Cores: x\n MaxNodes: 1";
        let mut h = Header::default();
        for (i, line) in text.lines().enumerate() {
            h.add(i as u64 + 1, line);
        }
        assert_eq!(h.version.as_deref(), Some("2.2"));
        assert_eq!(h.acknowledge, ["A", "B"]);
        assert_eq!((h.max_jobs, h.max_records), (Some(250_440), None));
        assert_eq!((h.unix_start_time, h.time_zone), (Some(956_700_003.0), Some(-28_800.0)));
        assert_eq!((h.max_nodes, h.max_procs), (Some(144), Some(1152)));
        assert_eq!(h.queues[&0], "interactive");
        assert_eq!(h.partitions[&1], "DEFAULT");
        assert_eq!(h.notes, ["THIS IS A CLEANED VERSION OF THE LOG!"]);
        assert_eq!(h.other, [("Cores".to_owned(), "x".to_owned())]);
        assert_eq!(h.warnings, []);
    }

    #[test]
    fn what_is_not_understood_is_a_warning() {
        let mut h = Header::default();
        h.add(7, " MaxProcs: many");
        assert_eq!(h.max_procs, None);
        assert_eq!(h.warnings, [(7, "MaxProcs: found `many`".to_owned())]);
    }
}
