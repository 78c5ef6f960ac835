//! Jobs with real processes.

use fluxgate_formats::JobId;
use fluxgate_instance::output_paths;
use serde_json::{Value, json};

use crate::common::*;

#[tokio::test]
async fn tasks_have_their_environment_and_their_output_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let script = "echo $FLUX_TASK_RANK $FLUX_JOB_SIZE $FLUX_JOB_NNODES $FLUX_JOB_ID $GREETING; echo e >&2";
    let mut spec = real(3, &["sh", "-c", script], 60.0);
    spec["attributes"]["system"]["environment"] = json!({ "GREETING": "hi" });
    let id = submit(&client, spec).await;
    events(&client, id).await;
    assert_eq!(job(&client, id).await["success"], json!(true));
    let (out, err) = output_paths(dir.path(), JobId(id));
    let mut lines: Vec<String> = std::fs::read_to_string(out).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    let expected: Vec<String> =
        (0..3).map(|rank| format!("{rank} 3 1 {} hi", JobId(id).to_f58_ascii())).collect();
    assert_eq!(lines, expected);
    assert_eq!(std::fs::read_to_string(err).unwrap(), "e\ne\ne\n");
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_status_of_the_worst_task_is_that_of_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let id = submit(&client, real(3, &["sh", "-c", "exit $FLUX_TASK_RANK"], 60.0)).await;
    let missing = submit(&client, real(1, &["/no/such/program"], 60.0)).await;
    let mut elsewhere = real(1, &["true"], 60.0);
    elsewhere["attributes"]["system"]["cwd"] = json!("/no/such/folder");
    let elsewhere = submit(&client, elsewhere).await;
    for id in [id, missing, elsewhere] {
        events(&client, id).await;
    }
    let ended = job(&client, id).await;
    assert_eq!((&ended["waitstatus"], &ended["result"]), (&json!(512), &json!(2)));
    let ended = job(&client, missing).await;
    assert_eq!((&ended["waitstatus"], &ended["exception_type"]), (&json!(127 << 8), &json!("exec")));
    let ended = job(&client, elsewhere).await;
    assert!(ended["exception_note"].as_str().unwrap().contains("/no/such/folder"), "{ended}");
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_process_ends_with_its_time_and_with_its_cancel_and_with_the_instance() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    // The child that the shell leaves in its group must end too.
    let script = "sleep 600 & echo $!; wait";
    let late = submit(&client, real(1, &["sh", "-c", script], 0.3)).await;
    let canceled = submit(&client, real(1, &["sh", "-c", script], 600.0)).await;
    let last = submit(&client, real(1, &["sh", "-c", script], 600.0)).await;
    let child = |id: u64| {
        let out = output_paths(dir.path(), JobId(id)).0;
        async move {
            loop {
                let text = std::fs::read_to_string(&out).unwrap_or_default();
                if let Some(pid) = text.strip_suffix('\n') {
                    return format!("/proc/{pid}/cmdline");
                }
                tokio::task::yield_now().await;
            }
        }
    };
    let gone = |path: String| async move {
        // A zombie has an empty command line.
        while std::fs::read(&path).is_ok_and(|text| !text.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    let children = [child(late).await, child(canceled).await, child(last).await];
    let cancel = json!({ "id": canceled, "severity": 0, "type": "cancel" });
    client.rpc("job-manager.raise", cancel).await.unwrap();
    for (id, result) in [(late, 8), (canceled, 4)] {
        events(&client, id).await;
        assert_eq!(job(&client, id).await["result"], json!(result));
    }
    handle.shutdown().await.unwrap();
    for path in children {
        gone(path).await;
    }
    let handle = instance(dir.path(), 1.0).await;
    let client = crate::common::client(&handle).await;
    assert_eq!(job(&client, last).await["result"], json!(4));
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn after_a_crash_processes_are_found_again_and_vanished_ones_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let (stays, goes) = (
        submit(&client, real(1, &["sleep", "600"], 0.0)).await,
        submit(&client, real(1, &["sleep", "0"], 0.0)).await,
    );
    events(&client, goes).await;
    runs(&client, stays).await;
    handle.abort().await.unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = crate::common::client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    assert_eq!(job(&client, stays).await["state"], json!(16));
    client.rpc("job-manager.kill", json!({ "id": stays, "signum": 9 })).await.unwrap();
    let names = events(&client, stays).await;
    assert_eq!(names.iter().filter(|name| *name == "start").count(), 1);
    let ended = job(&client, stays).await;
    assert!(ended["exception_note"].as_str().unwrap().contains("exit status was lost"), "{ended}");
    let audit: Value = audit(&client).await;
    assert_eq!((&audit["lost"], &audit["run_twice"]), (&json!(0), &json!(0)));
    handle.shutdown().await.unwrap();
}
