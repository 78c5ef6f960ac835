//! Policies of trained networks: folders of files of weights, components and their native twins, recorded decisions.

use std::path::Path;
use std::process::Command;

use fluxgate_languages::template::Template;
use fluxgate_languages::weights::Weights;
use fluxgate_sim::machine::Machine;
use fluxgate_tests::drive::{full, made_up, schedule};
use fluxgate_tests::fixture::{World, cli};
use fluxgate_tests::native_twin::NativeTwin;
use fluxgate_tests::networks::{
    Draw, PROBE, TWIN, Twin, build, can_build, compare_logits, component, configured, folder, weights,
};
use fluxgate_tests::patience::output;
use serde_json::{Value, json};

use crate::python::python;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn res_43_a_folder_is_written_from_weights_or_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let (file, made) = (dir.path().join("w.safetensors"), dir.path().join("mine"));
    std::fs::write(&file, weights(&[10, 8, 1], &[], 1)).unwrap();
    let new = |template: &str| {
        let args = [
            "policy",
            "new",
            "mine",
            "--template",
            template,
            "--weights",
            text(&file),
            "--path",
            text(&made),
        ];
        cli(&args)
    };
    new("linear").fails(1, &["w.safetensors", "the template linear is not for this file, mlp-kernel is"]);
    new("resnet").fails(2, &["`resnet` is no template", "mlp-kernel, mlp-flat, linear, formula"]);
    assert!(!made.exists());
    let said = new("mlp-kernel").ok();
    assert!(said.contains("fluxgate policy build"), "{said}");
    assert_eq!(std::fs::read(made.join("weights.safetensors")).unwrap(), std::fs::read(&file).unwrap());
    std::fs::write(&file, b"nothing").unwrap();
    std::fs::remove_dir_all(&made).unwrap();
    new("mlp-kernel").fails(1, &["w.safetensors: not a file in the format safetensors"]);
    std::fs::write(&file, "duration * cores\n").unwrap();
    new("formula").ok();
    assert!(std::fs::read_to_string(made.join("src/lib.rs")).unwrap().contains("duration * cores"));
    cli(&["policy", "new", "x", "--template", "linear"]).fails(2, &["--weights"]);
}

#[test]
fn res_44_component_and_native_twin_decide_and_compute_the_same() {
    if !can_build() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Decisions: a whole log, with commitments, reservations and rows chosen out of a longer queue.
    let file = weights(&[10, 32, 16, 8, 1], &[], 7);
    TWIN.set(file.clone()).unwrap();
    let workload = made_up(1500);
    let machine = Machine::from_header(&workload.header).unwrap();
    let twin = schedule(&workload, &machine, Box::new(NativeTwin::<Twin>::new(&[]).unwrap()));
    let made = folder(dir.path(), Template::MlpKernel, "decides", &file, None);
    let built = build(&made, true);
    let found = schedule(&workload, &machine, Box::new(component(&built)));
    assert_eq!(found.len(), workload.jobs.len());
    assert!(found == twin, "component and native twin differ");
    // RES-53: rows drawn from a seed.
    let mut drawn = Vec::new();
    for seed in [("sample-seed", "1"), ("sample-seed", "2")] {
        let twin = schedule(&workload, &machine, Box::new(NativeTwin::<Twin>::new(&[seed]).unwrap()));
        let found = schedule(&workload, &machine, Box::new(configured(&built, &[seed])));
        assert!(found == twin, "component and native twin differ with {seed:?}");
        drawn.push(found);
    }
    assert!(drawn[0] != found && drawn[0] != drawn[1], "seeds change decisions");
    // Logits of odd rows, to the bit, with and without SIMD.
    let file = weights(&[8, 32, 16, 8, 1], &[("features", "rlscheduler-1")], 8);
    let read = Weights::read(&file).unwrap();
    for simd in [true, false] {
        let name = if simd { "probe" } else { "probe-scalar" };
        let made = folder(dir.path(), Template::MlpKernel, name, &file, Some(PROBE));
        let numbers = compare_logits(&mut component(&build(&made, simd)), &read, 20_000, 9);
        assert!(numbers > 2_000, "{numbers}");
    }
}

#[test]
fn res_46_a_pass_of_a_kernel_network_is_within_its_fuel_and_memory() {
    if !can_build() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let said = [("features", "rlscheduler-1"), ("window", "128"), ("backfill", "none")];
    let file = weights(&[8, 32, 16, 8, 1], &said, 8);
    let fuel = [true, false].map(|simd| {
        let name = if simd { "simd" } else { "scalar" };
        let built = build(&folder(dir.path(), Template::MlpKernel, name, &file, None), simd);
        // None of the jobs that wait fits: one is picked, and committed. The passes that fill the machine are taken off.
        let [cost, before] =
            [128, 0].map(|waiting| full(Box::new(component(&built)), waiting).0.policy_cost());
        assert!(cost.memory <= 1 << 20, "{name}: {} bytes", cost.memory);
        cost.fuel - before.fuel
    });
    assert!(fuel[0] < 500_000 && fuel[1] < 2_000_000, "{fuel:?}");
}

/// A recording of a network's own decisions, with other actions for some.
fn recording(weights: &Weights, decisions: usize, change: impl Fn(usize, usize, &[f32]) -> usize) -> Vec<u8> {
    let (rows, width) = (weights.model.view.rows, weights.model.view.set.width());
    let mut draw = Draw(3);
    let (mut values, mut masks, mut actions) = (Vec::new(), Vec::new(), Vec::new());
    for decision in 0..decisions {
        let row: Vec<f32> = (0..rows * width).map(|_| draw.number()).collect();
        let mut logits = Vec::new();
        weights.model.network.logits(&row, width, rows, &mut logits);
        let picked = fluxgate_networks::network::largest(&logits, &vec![true; rows]).unwrap().unwrap();
        actions.extend((change(decision, picked, &logits) as i64).to_le_bytes());
        values.extend(row.iter().flat_map(|x| x.to_le_bytes()));
        masks.extend(vec![1u8; rows]);
    }
    let (first, second) = (values.len(), values.len() + masks.len());
    let header = json!({
        "observations": {"dtype": "F32", "shape": [decisions, rows, width], "data_offsets": [0, first]},
        "masks": {"dtype": "U8", "shape": [decisions, rows], "data_offsets": [first, second]},
        "actions": {"dtype": "I64", "shape": [decisions], "data_offsets": [second, second + actions.len()]},
    });
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &values, &masks, &actions].concat()
}

#[test]
fn res_45_recorded_decisions_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (file, recorded) = (dir.path().join("w.safetensors"), dir.path().join("r.safetensors"));
    let bytes = weights(&[10, 8, 1], &[], 1);
    std::fs::write(&file, &bytes).unwrap();
    let read = Weights::read(&bytes).unwrap();
    let verify = || cli(&["policy", "verify", text(&file), "--recorded", text(&recorded), "--json"]);
    std::fs::write(&recorded, recording(&read, 50, |_, picked, _| picked)).unwrap();
    let said = verify().json();
    assert_eq!((&said["decisions"], &said["choices"], &said["differ"]), (&json!(50), &json!(50), &json!(0)));
    // Another row than the one that was picked.
    let other = |at: usize, picked: usize, _: &[f32]| if at == 7 { (picked + 1) % 16 } else { picked };
    std::fs::write(&recorded, recording(&read, 50, other)).unwrap();
    let said = cli(&["policy", "verify", text(&file), "--recorded", text(&recorded)]);
    assert!(said.out.contains("decision 7: recorded is row"), "{said:?}");
    said.fails(1, &["the network decides otherwise in 1 of 50 decisions"]);
    // Not for this network, and not made of a network.
    std::fs::write(
        &recorded,
        recording(&Weights::read(&weights(&[10, 1], &[("window", "4")], 1)).unwrap(), 2, |_, picked, _| {
            picked
        }),
    )
    .unwrap();
    verify().fails(1, &["found 4 rows of 10 features, accepted are 16 of 10"]);
    std::fs::write(&file, b"x").unwrap();
    verify().fails(1, &["not a file in the format safetensors"]);
}

/// The component decides beside the policy in force, then in its place, and no job is lost.
fn from_shadow_to_promotion(name: &str, wasm: &[u8]) {
    let world = World::up(&["--nodes", "1", "--cores", "4", "--policy", "fcfs", "--speed", "100"]);
    let file = world.dir.path().join(format!("{name}.wasm"));
    std::fs::write(&file, wasm).unwrap();
    world.cli(&["policy", "load", text(&file)]).ok();
    world.cli(&["policy", "shadow", name]).ok();
    let submit = |cores: &str| {
        let said = world.cli(&["submit", cores, "-t", "1h", "--simulate", "60s"]).ok();
        said.split_whitespace().last().unwrap().to_owned()
    };
    for cores in ["-n3", "-n4", "-n1", "-n2"] {
        submit(cores);
    }
    world.until("its passes are compared", |world| world.diff(name, None)["passes"].as_u64() > Some(0));
    assert!(world.cli(&["policy", "diff", name, "--json"]).json()["cost"]["fuel"].as_u64() > Some(0));
    let said = world.cli(&["policy", "promote", name, "--force", "--json"]).json();
    assert_eq!((&said["from"], &said["to"]), (&json!("fcfs"), &json!(name)));
    for cores in ["-n4", "-n1", "-n3"] {
        submit(cores);
    }
    world.until_done();
    assert_eq!(world.jobs("inactive").len(), 7);
    assert_eq!(world.stats()["policy"], name);
    world.assert_clean();
}

#[test]
fn res_50_a_network_goes_from_shadow_to_swap_on_a_live_instance() {
    if !can_build() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = weights(&[10, 8, 1], &[("backfill", "none")], 7);
    let made = folder(dir.path(), Template::MlpKernel, "trained", &file, None);
    from_shadow_to_promotion("trained", &build(&made, true));
}

/// The notebook `python/notebooks/training.ipynb`: its cells train and export, and the commands at its end follow.
#[test]
fn res_43_45_50_from_training_to_a_clean_audit() {
    let Some((python, package)) = python() else { return };
    if !can_build() || fluxgate_testing::component("easy").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let notebook =
        std::fs::read_to_string(fluxgate_testing::root().join("python/notebooks/training.ipynb")).unwrap();
    let notebook: Value = serde_json::from_str(&notebook).unwrap();
    let cells = notebook["cells"].as_array().unwrap().iter().filter(|cell| cell["cell_type"] == "code");
    let source = |cell: &Value| {
        let lines = cell["source"].as_array().unwrap().iter().filter_map(Value::as_str);
        lines.collect::<String>() + "\n"
    };
    std::fs::write(dir.path().join("notebook.py"), cells.map(source).collect::<String>()).unwrap();
    let mut train = Command::new(python);
    train.arg("notebook.py").current_dir(dir.path()).env("PYTHONPATH", package);
    let said = output(train);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));

    let trained = |name: &str| dir.path().join("trained").join(name);
    let weights = std::fs::read(trained("weights.safetensors")).unwrap();
    let made = folder(dir.path(), Template::MlpKernel, "mine", &weights, None);
    let built = build(&made, true);
    let wasm = dir.path().join("mine.wasm");
    std::fs::write(&wasm, &built).unwrap();
    let recorded = trained("decisions.safetensors");
    let said = cli(&["policy", "verify", text(&wasm), "--recorded", text(&recorded), "--json"]).json();
    assert!(said["decisions"].as_u64() > Some(100), "{said}");
    assert_eq!(said["differ"], 0, "{said}");
    let beside = ["easy", "formula:score=f4", "multifactor", text(&wasm)];
    let mut replay = vec!["replay", "--json"];
    let held_out = trained("held-out.swf");
    replay.push(text(&held_out));
    beside.iter().for_each(|policy| replay.extend(["--policy", policy]));
    let said = cli(&replay).json();
    let runs = said["runs"].as_array().unwrap_or_else(|| panic!("{said}"));
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run["metrics"]["jobs"] == 1000), "{said}");
    from_shadow_to_promotion("mine", &built);
}
