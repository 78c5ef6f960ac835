//! `fluxgate workload`: make, look at, cut and convert workloads. Results go to standard output.
//!
//! Everything that can be wrong with the input is found before the first byte is written.

pub(crate) mod args;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum as _;
use fluxgate_sim::batsim;
use fluxgate_sim::jobspecs::Jobspecs;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::Distribution;
use fluxgate_sim::model;
use fluxgate_sim::swf::SwfError;
use fluxgate_sim::swf::write::{Told, write};
use fluxgate_sim::transform::Transform;
use fluxgate_sim::workload::{Job, Procs, Workload};
use serde_json::{Value, json};

pub(crate) use self::args::WorkloadArgs;
use self::args::{Command, Form, Model, Part};
use crate::fail::usage;
use crate::render;

/// Run the command.
pub(crate) fn run(args: &WorkloadArgs) -> Result<()> {
    match &args.command {
        Command::Make { model, jobs, cores, nodes, machine, seed, estimates } => {
            let (nodes, cores) = match machine {
                Some(path) => {
                    let machine = Machine::load(path)?;
                    let cores = u32::try_from(machine.total_cores()).unwrap_or(u32::MAX);
                    (u32::try_from(machine.cores.len()).ok(), cores)
                }
                None => (*nodes, *cores),
            };
            if cores > model::CORES_MAX {
                bail!("found {cores} cores, accepted are at most {}", model::CORES_MAX);
            }
            if let Some(nodes) = nodes.filter(|nodes| *nodes > cores) {
                return Err(usage(format!(
                    "found {nodes} nodes, accepted are at most as many as cores, {cores}"
                )));
            }
            let mut made = match model {
                Model::Lublin99 => model::lublin99(*jobs, cores, *seed),
                Model::Downey97 => model::downey97(*jobs, cores, *seed),
                Model::Wide => model::wide(*jobs, cores, *seed),
            };
            Transform { estimates: *estimates, seed: *seed, ..Transform::default() }.apply(&mut made);
            let name = model.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            let notes = vec![format!("made by the model {name}, seed {seed}")];
            output(|out| write(out, &Told { notes, start: 0.0, nodes, procs: Some(cores) }, &made))
        }
        Command::Info { part, json } => {
            let (workload, jobs) = load(part)?;
            info(&part.log, &workload, &jobs, *json)
        }
        Command::Cut { part } => {
            let (workload, jobs) = load(part)?;
            output(|out| write(out, &told(&workload, part), &jobs))
        }
        Command::Convert { part, to } => {
            let (workload, jobs) = load(part)?;
            output(|out| convert(*to, &workload, part, &jobs, out))
        }
    }
}

/// The error of a log, with the flag that goes on after a bad line.
pub(crate) fn hinted(error: SwfError) -> anyhow::Error {
    let bad = matches!(error, SwfError::Bad { .. });
    let error = anyhow::Error::from(error);
    if bad { anyhow!("{error:#}; --skip-bad skips such lines and counts them") } else { error }
}

/// A log and the selected part of its jobs.
fn load(part: &Part) -> Result<(Workload, Vec<Job>)> {
    let options = part.selection.options();
    if options.procs == Procs::Nodes {
        return Err(usage(
            "--map procs=nodes: only replay has a machine that says how many cores a node has",
        ));
    }
    let mut workload = Workload::load(&part.log, &options).map_err(hinted)?;
    let mut jobs = std::mem::take(&mut workload.jobs);
    part.selection.transform().apply(&mut jobs);
    Ok((workload, jobs))
}

fn told(workload: &Workload, part: &Part) -> Told {
    let header = &workload.header;
    let log = part.log.file_name().map_or(part.log.as_os_str(), |name| name).to_string_lossy();
    let mut notes = vec![format!("part of {log}, read and written by fluxgate")];
    if workload.bad.count > 0 {
        notes.push(format!("{} bad lines skipped", workload.bad.count));
    }
    Told {
        notes,
        start: header.unix_start_time.unwrap_or(0.0),
        nodes: header.max_nodes,
        procs: header.max_procs,
    }
}

/// On standard output. A reader that goes away is not an error.
fn output(put: impl FnOnce(&mut BufWriter<io::StdoutLock<'_>>) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match put(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn convert(
    form: Form,
    workload: &Workload,
    part: &Part,
    jobs: &[Job],
    out: &mut impl Write,
) -> io::Result<()> {
    match form {
        Form::Swf => write(out, &told(workload, part), jobs),
        Form::Csv => csv(out, jobs),
        Form::Jsonl => jsonl(out, jobs),
        Form::Jobspecs => {
            let names = part.selection.options().queues.names(&workload.header);
            jobspecs(out, Jobspecs::new(&names, &workload.jobspecs), jobs)
        }
        Form::Batsim => {
            let cores = Machine::from_header(&workload.header).ok().map(|machine| machine.total_cores());
            batsim::write_workload(out, jobs, cores)
        }
    }
}

fn csv(out: &mut impl Write, jobs: &[Job]) -> io::Result<()> {
    writeln!(out, "job,user,submit,cores,limit_s,run_s")?;
    jobs.iter().try_for_each(|j| {
        writeln!(out, "{},{},{},{},{},{}", j.id.0, j.user, j.submit, j.cores, j.limit, j.run)
    })
}

fn jsonl(out: &mut impl Write, jobs: &[Job]) -> io::Result<()> {
    jobs.iter().try_for_each(|j| {
        let line = json!({
            "job": j.id.0, "user": j.user, "submit": j.submit, "cores": j.cores, "limit_s": j.limit, "run_s": j.run,
        });
        writeln!(out, "{line}")
    })
}

fn jobspecs(out: &mut impl Write, mut specs: Jobspecs, jobs: &[Job]) -> io::Result<()> {
    jobs.iter().try_for_each(|j| {
        let line = json!({
            "id": j.id.0, "userid": j.user, "t_submit": j.submit, "runtime": j.run, "jobspec": specs.of(j).to_value(),
        });
        writeln!(out, "{line}")
    })
}

fn info(log: &Path, workload: &Workload, jobs: &[Job], as_json: bool) -> Result<()> {
    let of = |value: fn(&Job) -> f64| Distribution::of(&mut jobs.iter().map(value).collect::<Vec<_>>());
    let distributions =
        [("cores", of(|j| f64::from(j.cores))), ("run_s", of(Job::run_time)), ("limit_s", of(|j| j.limit))];
    let users: std::collections::BTreeSet<u32> = jobs.iter().map(|j| j.user).collect();
    let span = match (jobs.first(), jobs.last()) {
        (Some(first), Some(last)) => last.submit - first.submit,
        _ => 0.0,
    };
    let work: f64 = jobs.iter().map(|j| f64::from(j.cores) * j.run_time()).sum();
    let machine = Machine::from_header(&workload.header).ok().map(|m| m.total_cores());
    let offered = machine.filter(|_| span > 0.0).map(|cores| work / (cores as f64 * span));
    let wide = machine.map(|cores| jobs.iter().filter(|j| u64::from(j.cores) > cores).count());
    let mut rows: Vec<(String, Value)> = vec![
        ("jobs".into(), json!(jobs.len())),
        ("users".into(), json!(users.len())),
        ("cores_of_machine".into(), json!(machine)),
        ("first_submit".into(), json!(jobs.first().map(|j| j.submit))),
        ("days".into(), json!(span / 86_400.0)),
        ("offered_load".into(), json!(offered)),
        ("wider_than_machine".into(), json!(wide)),
        ("ran_longer_than_asked".into(), json!(workload.overruns)),
        ("bad_lines".into(), json!(workload.bad.count)),
    ];
    rows.extend(
        workload
            .left_out_counts()
            .into_iter()
            .map(|(why, n)| (format!("left out: {}", why.text()), json!(n))),
    );
    for (name, d) in distributions {
        for (stat, value) in [("mean", d.mean), ("median", d.median), ("p95", d.p95), ("max", d.max)] {
            rows.push((format!("{name}_{stat}"), json!(value)));
        }
    }
    if as_json {
        let all: serde_json::Map<String, Value> = rows.into_iter().collect();
        return render::json(&json!({"log": log.display().to_string(), "info": all}));
    }
    let mut table = render::pairs();
    for (name, value) in rows {
        let value = match value.as_f64() {
            Some(number) => format!("{number:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
            None => "unknown".to_owned(),
        };
        table.add_row([name, value]);
    }
    render::show(&table)
}
