//! One scheduler in the place of the other while jobs run, in both directions: whether the jobs run on, and whether anything is held
//! by two jobs afterwards.
//!
//! The machine has three chassis with 36 ssds and four nodes of four cores each, and one node beside them. Must never know how
//! either scheduler chooses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::before;
use super::graph_scheduler::Tree;
use super::table::PAGE;
use crate::house::House;

/// The heading of the table, and its head.
const HEADING: &str = "## One scheduler in the place of the other";
const HEAD: &str = "| records | from Fluxgate to the graph scheduler | from the graph scheduler to Fluxgate | run |\n|---|---|---|---|";

/// The formats of R, each with or without the site's graph.
const RECORDS: [(&str, &str, bool); 4] = [
    ("`rv1_shorthand`", "rv1_shorthand", true),
    ("`rv1`", "rv1", true),
    ("`rv1_nosched`, no graph of the site", "rv1_nosched", false),
    ("`rv1_nosched` beside a graph", "rv1_nosched", true),
];

/// Makes the machine, and functions for both schedulers; `$FORMAT`, `$GRAPH` and `$FIRST` (`ours` or `theirs`) name the trial.
const SCRIPT: &str = r#"
set -e
for begins in sched-fluxion-qmanager sched-fluxion-feasibility sched-fluxion-resource sched-simple; do
    if flux module list | grep -q "^$begins "; then flux module remove $begins; fi
done
flux python - <<'EOF'
import json, os
nodes, edges, rank, hosts = [], [], 0, 13
def vertex(above, path, **data):
    nodes.append({"id": str(len(nodes)), "metadata": dict(data, paths={"containment": path})})
    if above is not None:
        edges.append({"source": str(above), "target": str(len(nodes) - 1)})
    return len(nodes) - 1
def node(above, path):
    global rank
    own = vertex(above, f"{path}/n{rank}", type="node", name=f"n{rank}", rank=rank)
    for core in range(4):
        vertex(own, f"{path}/n{rank}/core{core}", type="core", id=core, rank=rank)
    rank += 1
root = vertex(None, "/site", type="cluster", name="site")
for c in range(3):
    chassis = vertex(root, f"/site/chassis{c}", type="chassis", id=c, properties={"rabbit": f"r{c}", "ssdcount": "36"})
    for s in range(36):
        vertex(chassis, f"/site/chassis{c}/ssd{s}", type="ssd", unit="GiB", size=100, status=1)
    for _ in range(4):
        node(chassis, f"/site/chassis{c}")
node(root, "/site")
json.dump({"graph": {"nodes": nodes, "edges": edges}}, open("site.jgf", "w"))
lite = [{"rank": "0-12", "children": {"core": "0-3"}}]
json.dump({"version": 1, "execution": {"R_lite": lite, "nodelist": ["n[0-12]"], "starttime": 0, "expiration": 0}}, open("R", "w"))
graph = f'scheduling = "{os.getcwd()}/site.jgf"\n' if os.environ["GRAPH"] == "1" else ""
open("site.toml", "w").write(f'[resource]\npath = "{os.getcwd()}/R"\n{graph}noverify = true\nnorestrict = true\n')
EOF
flux module remove resource
flux config load site.toml
flux module load resource monitor-force-up
flux module reload -f job-ingest disable-validator
up() {
    test "$GRAPH" = 1 || return 0
    flux python -c '
import flux
h = flux.Flux()
marks = [{"resource_path": f"/site/chassis{c}/ssd{s}", "status": "up"} for c in range(3) for s in range(36)]
for answer in [h.rpc("sched-fluxion-resource.set_status", mark) for mark in marks]:
    answer.get()'
}
load_ours() { flux module load --loader="$FG" --name=sched-fluxgate "$FG" policy=easy record-format=$FORMAT; up; }
load_theirs() {
    flux module load sched-fluxion-resource match-format=$FORMAT
    flux module load sched-fluxion-qmanager queue-policy=easy
    flux module stats sched-fluxion-qmanager > /dev/null
    up
}
remove_ours() { flux module remove sched-fluxgate; }
remove_theirs() { flux module remove sched-fluxion-qmanager; flux module remove sched-fluxion-resource; }
mock() { flux submit --setattr=exec.test.run_duration=1h "$@" true; }
beside() {
    if test "$GRAPH" != 1; then mock -N"$1" -x; return; fi
    jq -nc --argjson n "$1" '{version: 1, tasks: [{command: ["true"], slot: "task", count: {per_slot: 1}}],
        attributes: {system: {duration: 36000, exec: {test: {run_duration: "1h"}}}},
        resources: [{type: "slot", count: $n, label: "rabbit", with: [
            {type: "node", count: 1, exclusive: true, with: [
                {type: "slot", count: 1, label: "task", with: [{type: "core", count: 1}]}]},
            {type: "ssd", count: 10, exclusive: true}]}]}' | flux job submit
}
if test "$FIRST" = ours; then second=theirs; else second=ours; fi
load_$FIRST
jobs="$(beside 2) $(beside 1) $(mock -n1 -c1) $(mock -n1 -c2) $(mock -N1 -x) $(mock -N2 -x)"
for id in $jobs; do flux job wait-event -t 60 $id start > /dev/null; done
remove_$FIRST
load_$second
more=""
for n in 1 2 3 4 5; do more="$more $(mock -n1 -c1)"; done
for n in 1 2 3 4; do more="$more $(mock -N1 -x)"; done
for n in 1 2 3 4 5; do more="$more $(beside 1)"; done
# The scheduler is at rest when as many jobs run for two seconds.
running() { flux jobs -f running -no '{id}' | wc -l; }
last=-1; same=0
while test $same -lt 4; do
    now=$(running)
    if test $now = $last; then same=$((same + 1)); else same=0; fi
    last=$now
    sleep 0.5
done
alive=0
for id in $jobs; do test "$(flux jobs -no '{state}' $id)" = RUN && alive=$((alive + 1)); done
held() {
    for id in $(flux jobs -f running -no '{id}'); do
        flux kvs get "$(flux job id --to=kvs $id).R" > one
        flux python -c '
import json
from flux.idset import IDset
r = json.load(open("one"))
for row in r["execution"]["R_lite"]:
    for rank in IDset(row["rank"]):
        for core in IDset(row["children"]["core"]):
            print("rank", rank, "core", core)' 
        jq -r '.scheduling.graph.nodes[]?.metadata | select(.type == "ssd" and .exclusive) | .paths.containment' one 2> /dev/null || true
    done
}
twice=$(held | sort | uniq -d | wc -l)
jq -n --argjson alive $alive --argjson twice $twice --argjson running $last '{alive: $alive, twice: $twice, running: $running}' > result.json
flux cancel --all --quiet || true
flux queue drain --quiet --timeout=60s || true
remove_$second
"#;
/// The jobs that run when the schedulers are exchanged.
const JOBS: u64 = 6;

/// Tries all, prints the table and, if it is asked for, writes it.
pub(super) fn run(house: &House, tree: &Tree, write: bool, limit: u64) -> Result<()> {
    let run = house.day_and_commit()?;
    println!("\n{}, Fluxgate {run}\n\n{HEAD}", tree.version());
    let mut rows = Vec::new();
    for (name, format, graph) in RECORDS {
        let cell = |first: &str| exchange(house, tree, format, graph, first, limit);
        let row = format!("| {name} | {} | {} | {run} |", cell("ours")?, cell("theirs")?);
        println!("{row}");
        rows.push(row);
    }
    if write {
        let page = house.root().join(PAGE);
        let text = fs::read_to_string(&page).with_context(|| PAGE.to_owned())?;
        fs::write(&page, with(&text, &rows)?).with_context(|| PAGE.to_owned())?;
    }
    Ok(())
}

/// One exchange in an instance of its own, as the text of a cell.
fn exchange(
    house: &House,
    tree: &Tree,
    format: &str,
    graph: bool,
    first: &str,
    limit: u64,
) -> Result<String> {
    let dir = tempfile::tempdir().context("cannot make a folder")?;
    let script = dir.path().join("script");
    fs::write(&script, SCRIPT).context("cannot write a script")?;
    let modules = ["resource/modules", "qmanager/modules"].map(|folder| tree.build.join(folder));
    let modules: Vec<&Path> = modules.iter().map(PathBuf::as_path).collect();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit.to_string()]).arg(tree.bin.join("flux"));
    command.args(["start", "-s1", "--conf=fake-resources.nnodes=13"]);
    command.args(["--conf=fake-resources.cores-per-node=4", "bash"]).arg(&script).current_dir(dir.path());
    command.env("FORMAT", format).env("GRAPH", u8::from(graph).to_string()).env("FIRST", first);
    command.env("FG", house.target().join("debug/fluxgate")).env("FLUXGATE_POLICIES", house.policies());
    command.env("XDG_CACHE_HOME", house.target().join("flux-tests"));
    command.env("PATH", before("PATH", &[&tree.bin])?);
    command.env("FLUX_MODULE_PATH_PREPEND", before("FLUX_MODULE_PATH_PREPEND", &modules)?);
    command.env_remove("FLUX_URI").env_remove("FLUX_SCHED_MODULE").stdin(Stdio::null());
    let output = command.output().context("cannot start flux")?;
    match fs::read(dir.path().join("result.json")) {
        Ok(result) => told(&serde_json::from_slice(&result).context("the result of the script")?),
        Err(_) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            eprintln!("{format}, {first} first: {}", said.trim());
            Ok("did not come to its end".to_owned())
        }
    }
}

/// The text of a cell.
fn told(result: &Value) -> Result<String> {
    let number = |key: &str| result[key].as_u64().with_context(|| format!("{key}: found {}", result[key]));
    let (alive, twice, running) = (number("alive")?, number("twice")?, number("running")?);
    let twice =
        if twice == 0 { "nothing held twice".to_owned() } else { format!("{twice} units held twice") };
    Ok(format!("{alive} of {JOBS} jobs run on, {twice}, {} of 14 more run", running.saturating_sub(alive)))
}

/// The page with these rows in its table.
fn with(page: &str, rows: &[String]) -> Result<String> {
    let place = page.split_once(HEADING).with_context(|| format!("{PAGE}: no heading {HEADING}"))?;
    let (head, rest) =
        place.1.split_once(HEAD).with_context(|| format!("{PAGE}: no table with the head {HEAD}"))?;
    let after = rest.find("\n\n").context("the table has an end")?;
    ensure!(!head.contains("\n## "), "{PAGE}: the table is not below {HEADING}");
    Ok(format!("{}{HEADING}{head}{HEAD}\n{}{}", place.0, rows.join("\n"), &rest[after..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_is_written_below_its_heading() {
        let page = format!("# A\n\n{HEADING}\n\nText.\n\n{HEAD}\n| old | a | b | then |\n\nMore.\n");
        let written = with(&page, &["| new | c | d | now |".to_owned()]).unwrap();
        assert_eq!(written, page.replace("| old | a | b | then |", "| new | c | d | now |"));
        assert!(with("# A\n", &[]).is_err());
    }

    #[test]
    fn a_cell_says_what_lives_and_what_is_held_twice() {
        let cell = told(&json!({"alive": 6, "twice": 0, "running": 15})).unwrap();
        assert_eq!(cell, "6 of 6 jobs run on, nothing held twice, 9 of 14 more run");
        assert!(told(&json!({"alive": 0, "twice": 3, "running": 0})).unwrap().contains("3 units held twice"));
        assert!(told(&json!({})).is_err());
    }

    #[test]
    fn the_page_has_the_table() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
        assert!(with(&fs::read_to_string(page).unwrap(), &[]).is_ok());
    }
}
