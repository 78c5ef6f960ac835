//! The files of Batsim 5 for a run: `jobs.csv` with a line for each job, and `schedule.json` with figures of all; and a
//! workload of Batsim from jobs. Tools for results of Batsim, such as evalys, open them as they are.
//!
//! A resource of Batsim is a core: the cores of the machine in one row, in the order of ranks and ids, counted from 0.
//! Lines are in the order of ends, as Batsim writes them; times have six digits after the point, as there. The columns
//! and figures are those of Batsim's pages `output-jobs` and `output-schedule`; means are over all jobs, also rejected
//! ones, as Batsim computes them. Energy is not known, and no machine is ever off: such values are -1 or 0.
//!
//! This module does not know how a schedule is made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::io;

use fluxgate_formats::TotalF64;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::observe::{Observer, Span, Started};
use crate::record::Rows;
use crate::schedule::Cores;
use crate::workload::Job;

/// The columns of `jobs.csv`.
pub const COLUMNS: [&str; 17] = [
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
];

/// The name that Batsim gives to the first workload of a simulation.
const WORKLOAD: &str = "w0";

/// The figures of `schedule.json`, by name. Times in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Schedule {
    /// The program that made the file.
    pub batsim_version: String,
    /// 0: energy is not known.
    pub consumed_joules: f64,
    /// Time from the first submission to the last end.
    pub makespan: f64,
    /// Largest (end - submission) / run time, over jobs with a run time above 0.
    pub max_slowdown: f64,
    /// Longest time from submission to end.
    pub max_turnaround_time: f64,
    /// Longest wait.
    pub max_waiting_time: f64,
    /// Mean of (end - submission) / run time; the sum is over jobs with a run time above 0.
    pub mean_slowdown: f64,
    /// Mean time from submission to end.
    pub mean_turnaround_time: f64,
    /// Mean wait.
    pub mean_waiting_time: f64,
    /// Number of cores.
    pub nb_computing_machines: u64,
    /// 0: no machine changes its power state.
    pub nb_grouped_switches: u64,
    /// Number of jobs that have a line.
    pub nb_jobs: u64,
    /// Number of jobs that ran to their end.
    pub nb_jobs_finished: u64,
    /// Number of jobs that were killed at their limit, or ended early with a node or by a reservation.
    pub nb_jobs_killed: u64,
    /// Number of jobs that were denied.
    pub nb_jobs_rejected: u64,
    /// Number of jobs that ended by themselves.
    pub nb_jobs_success: u64,
    /// 0: no machine changes its power state.
    pub nb_machine_switches: u64,
    /// Fraction of the jobs with a line that ended by themselves, 0 to 1.
    pub success_rate: f64,
    /// Core-seconds in use, from the first submission to the last end.
    pub time_computing: f64,
    /// Core-seconds not in use, from the first submission to the last end.
    pub time_idle: f64,
    /// 0: no machine sleeps.
    pub time_sleeping: f64,
    /// 0: no machine is switched off.
    pub time_switching_off: f64,
    /// 0: no machine is switched on.
    pub time_switching_on: f64,
    /// 0: no node fails in such a run.
    pub time_unavailable: f64,
}

impl Schedule {
    /// Writes the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

/// A job that runs: its end, its place among the starts, and its line.
type Ends = Reverse<(TotalF64, u64, String)>;

/// Writes `jobs.csv` and sums up `schedule.json`; an [`Observer`] of a run. A job that is submitted again has the line of its last run.
pub struct Writer<W: io::Write> {
    out: W,
    rows: Rows,
    cores: u64,
    places: Vec<(u32, u32)>,
    running: BinaryHeap<Ends>,
    starts: u64,
    first: Option<f64>,
    last: Option<f64>,
    /// Cores and ends of jobs that ran already at the beginning.
    warm: Vec<(u32, f64)>,
    sums: Schedule,
}

impl<W: io::Write> Writer<W> {
    /// Writes the header line; `machine` are the cores of each rank.
    ///
    /// # Errors
    /// The header line cannot be written.
    pub fn new(mut out: W, machine: &Cores) -> io::Result<Self> {
        writeln!(out, "{}", COLUMNS.join(","))?;
        Ok(Writer {
            out,
            rows: Rows::of(machine),
            cores: machine.values().map(|ids| ids.len()).sum(),
            places: Vec::new(),
            running: BinaryHeap::new(),
            starts: 0,
            first: None,
            last: None,
            warm: Vec::new(),
            sums: Schedule::default(),
        })
    }

    /// The figures, and the writer of the lines, once the run is over.
    pub fn finish(self) -> (Schedule, W) {
        let Writer { sums, cores, warm, first, last, out, .. } = self;
        let count = (sums.nb_jobs as f64).max(1.0);
        let begin = first.unwrap_or_default();
        let makespan = last.map_or(0.0, |last| last - begin);
        let before: f64 = warm
            .iter()
            .map(|(cores, end)| f64::from(*cores) * (end.min(begin + makespan) - begin).max(0.0))
            .sum();
        let computing = sums.time_computing + before;
        let schedule = Schedule {
            batsim_version: format!("fluxgate {}", env!("CARGO_PKG_VERSION")),
            makespan,
            mean_slowdown: sums.mean_slowdown / count,
            mean_turnaround_time: sums.mean_turnaround_time / count,
            mean_waiting_time: sums.mean_waiting_time / count,
            nb_computing_machines: cores,
            success_rate: sums.nb_jobs_success as f64 / count,
            time_computing: computing,
            time_idle: cores as f64 * makespan - computing,
            ..sums
        };
        (schedule, out)
    }

    /// Writes the lines of jobs that have ended by then.
    fn until(&mut self, now: f64) -> io::Result<()> {
        while self.running.peek().is_some_and(|Reverse((end, ..))| end.0 <= now) {
            let Some(Reverse((_, _, line))) = self.running.pop() else { break };
            self.out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// The fields of a job that are known before it starts.
    fn begin(job: &Job) -> String {
        let Job { id, submit, cores, limit, .. } = job;
        format!("{},{WORKLOAD},{},{submit:.6},{cores},{limit:.6}", id.0, profile(job))
    }
}

impl<W: io::Write> Observer for Writer<W> {
    fn warm(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.warm.push((s.job.cores, s.end));
        Ok(())
    }

    fn submitted(&mut self, job: &Job) -> io::Result<()> {
        self.first.get_or_insert(job.submit);
        self.until(job.submit)
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        // A job has one line: its run to the end.
        if s.again.is_some() {
            return Ok(());
        }
        let (wait, run, response) = (s.start - s.job.submit, s.end - s.start, s.end - s.job.submit);
        let state = match (s.is_lost(), s.job.killed()) {
            (true, _) => "COMPLETED_KILLED",
            (false, true) => "COMPLETED_WALLTIME_REACHED",
            (false, false) => "COMPLETED_SUCCESSFULLY",
        };
        let killed = s.is_lost() || s.job.killed();
        let mut line = Self::begin(s.job);
        // Writing to a String does not fail.
        let _ = write!(
            line,
            ",{},{state},{:.6},{run:.6},{:.6},{wait:.6},{response:.6},",
            u8::from(!killed),
            s.start,
            s.end
        );
        let sums = &mut self.sums;
        if run > 0.0 {
            let slowdown = response / run;
            let _ = write!(line, "{slowdown:.6}");
            sums.mean_slowdown += slowdown;
            sums.max_slowdown = sums.max_slowdown.max(slowdown);
        }
        self.places.clear();
        self.rows.places(s.r, &mut self.places);
        for (at, (from, to)) in self.places.iter().enumerate() {
            let before = if at == 0 { "," } else { " " };
            let _ =
                if from == to { write!(line, "{before}{from}") } else { write!(line, "{before}{from}-{to}") };
        }
        if self.places.is_empty() {
            line.push(',');
        }
        line.push_str(",-1.000000,\n");
        sums.nb_jobs += 1;
        sums.nb_jobs_finished += 1;
        *(if killed { &mut sums.nb_jobs_killed } else { &mut sums.nb_jobs_success }) += 1;
        sums.mean_waiting_time += wait;
        sums.mean_turnaround_time += response;
        sums.max_waiting_time = sums.max_waiting_time.max(wait);
        sums.max_turnaround_time = sums.max_turnaround_time.max(response);
        sums.time_computing += f64::from(s.job.cores) * run;
        self.last = Some(self.last.map_or(s.end, |last| last.max(s.end)));
        self.running.push(Reverse((TotalF64(s.end), self.starts, line)));
        self.starts += 1;
        Ok(())
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        self.until(span.to)
    }

    fn denied(&mut self, job: &Job, _note: &str) -> io::Result<()> {
        self.sums.nb_jobs += 1;
        self.sums.nb_jobs_rejected += 1;
        writeln!(self.out, "{},0,REJECTED,,,,,,,,,", Self::begin(job))
    }

    fn finished(&mut self) -> io::Result<()> {
        self.until(f64::INFINITY)?;
        self.out.flush()
    }
}

/// The name of a job's profile: a delay of its run time, unless it is killed earlier.
fn profile(job: &Job) -> String {
    format!("delay{}", job.run)
}

/// Writes jobs as a workload of Batsim: a delay for each run time, and `resources` as the size of the machine, or that of
/// the widest job. Batsim has no delay of 0.
///
/// # Errors
/// Those of `out`.
pub fn write_workload(mut out: impl io::Write, jobs: &[Job], resources: Option<u64>) -> io::Result<()> {
    let widest = jobs.iter().map(|job| u64::from(job.cores)).max().unwrap_or(1);
    let mut profiles = Map::new();
    writeln!(out, "{{\n\"nb_res\": {},\n\"jobs\": [", resources.unwrap_or(widest))?;
    for (at, job) in jobs.iter().enumerate() {
        let name = profile(job);
        let line = json!({
            "id": job.id.0.to_string(), "subtime": job.submit, "res": job.cores, "walltime": job.limit, "profile": name,
        });
        writeln!(out, "{line}{}", if at + 1 < jobs.len() { "," } else { "" })?;
        profiles.entry(name).or_insert_with(|| json!({"type": "DelayProfile", "delay": job.run}));
    }
    writeln!(out, "],\n\"profiles\": {}\n}}", Value::Object(profiles))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver;
    use crate::machine::Machine;
    use fluxgate_formats::JobId;

    /// Runs jobs on two nodes of two cores; the lines and the figures.
    fn files(jobs: Vec<Job>) -> (Vec<String>, Schedule) {
        let machine = Machine::uniform(2, 4).unwrap();
        let mut writer = Writer::new(Vec::new(), &machine.cores).unwrap();
        driver::run(jobs, machine.resources, driver::replay_config(), None, &mut [&mut writer]).unwrap();
        let (schedule, text) = writer.finish();
        (String::from_utf8(text).unwrap().lines().map(str::to_owned).collect(), schedule)
    }

    #[test]
    fn res_20_lines_and_figures_by_hand() {
        // Job 1 holds 3 cores until 10; job 2 is killed at its limit of 20; job 3 is too wide; job 4 waits until 10.
        let jobs = vec![
            Job::new(JobId(1), 0.0, 3, 30.0, 10.0),
            Job::new(JobId(2), 1.0, 1, 20.0, 25.5),
            Job::new(JobId(3), 2.0, 5, 20.0, 10.0),
            Job::new(JobId(4), 4.0, 2, 8.0, 4.0),
        ];
        let (lines, schedule) = files(jobs);
        let expected = [
            "3,w0,delay10,2.000000,5,20.000000,0,REJECTED,,,,,,,,,",
            "1,w0,delay10,0.000000,3,30.000000,1,COMPLETED_SUCCESSFULLY,0.000000,10.000000,10.000000,0.000000,10.000000,1.000000,0-2,-1.000000,",
            "4,w0,delay4,4.000000,2,8.000000,1,COMPLETED_SUCCESSFULLY,10.000000,4.000000,14.000000,6.000000,10.000000,2.500000,0-1,-1.000000,",
            "2,w0,delay25.5,1.000000,1,20.000000,0,COMPLETED_WALLTIME_REACHED,1.000000,20.000000,21.000000,0.000000,20.000000,1.000000,3,-1.000000,",
        ];
        assert_eq!(lines[0], COLUMNS.join(","));
        assert_eq!(lines[1..], expected);
        let counts =
            (schedule.nb_jobs, schedule.nb_jobs_finished, schedule.nb_jobs_success, schedule.nb_jobs_killed);
        assert_eq!((counts, schedule.nb_jobs_rejected), ((4, 3, 2, 1), 1));
        assert_eq!(
            (schedule.makespan, schedule.success_rate, schedule.nb_computing_machines),
            (21.0, 0.5, 4)
        );
        assert_eq!((schedule.mean_waiting_time, schedule.max_waiting_time), (1.5, 6.0));
        assert_eq!((schedule.mean_turnaround_time, schedule.max_turnaround_time), (10.0, 20.0));
        assert_eq!((schedule.mean_slowdown, schedule.max_slowdown), (4.5 / 4.0, 2.5));
        assert_eq!((schedule.time_computing, schedule.time_idle), (58.0, 84.0 - 58.0));
        let mut text = Vec::new();
        schedule.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let keys: Vec<&str> = text.lines().filter_map(|line| line.trim().split('"').nth(1)).collect();
        assert!(keys.is_sorted() && keys.len() == 24, "{keys:?}");
    }

    #[test]
    fn res_20_places_apart_are_intervals_apart() {
        // Cores 0, 1 and 3 are held by jobs of which that on 1 ends first; then cores 1 and 2 are free.
        let job = |id, cores, run| Job::new(JobId(id), 0.0, cores, run, run);
        let (lines, _) =
            files(vec![job(1, 1, 90.0), job(2, 1, 10.0), job(3, 1, 90.0), job(4, 1, 10.0), job(5, 2, 5.0)]);
        let held = |line: &str| line.rsplit(',').nth(2).unwrap().to_owned();
        let all: Vec<String> = lines[1..].iter().map(|line| held(line)).collect();
        assert_eq!(all, ["1", "3", "1 3", "0", "2"]);
    }
}
