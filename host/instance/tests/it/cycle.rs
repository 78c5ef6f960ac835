//! From submission to the end of a job, over the real socket, with a real (if small) scheduler.

use crate::common::*;
use serde_json::{Value, json};

#[tokio::test]
async fn a_simulated_job_goes_through_all_states() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1000.0).await;
    let sched = tokio::spawn(FirstFit::connect(&handle).await.run());
    let client = client(&handle).await;
    let id = submit(&client, simulated(6, 30.0, 60.0)).await;
    let expected =
        ["submit", "validate", "depend", "priority", "alloc", "start", "finish", "release", "free", "clean"];
    assert_eq!(events(&client, id).await, expected);
    let job = job(&client, id).await;
    assert_eq!((&job["state"], &job["result"], &job["success"]), (&json!(64), &json!(1), &json!(true)));
    assert_eq!((&job["ranks"], &job["nodelist"]), (&json!("0-1"), &json!("node[0-1]")));
    let ran = job["t_cleanup"].as_f64().unwrap() - job["t_run"].as_f64().unwrap();
    assert!((ran - 30.0).abs() < 1e-3, "{ran}");
    assert_eq!(job["annotations"], json!({"sched": {"resource_summary": "x"}}));
    let audit = audit(&client).await;
    for (key, n) in
        [("submitted", 1), ("completed", 1), ("lost", 0), ("run_twice", 0), ("dropped", 0), ("hellos", 1)]
    {
        assert_eq!(audit[key], json!(n), "{key} in {audit}");
    }
    client.rpc("fluxgate-instance.shutdown", json!({})).await.unwrap();
    handle.wait().await.unwrap();
    sched.await.unwrap();
}

#[tokio::test]
async fn a_thousand_copies_are_conserved() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 10_000.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let payload = json!({ "jobspec": simulated(3, 20.0, 60.0), "copies": 1000 });
    let answer = client.rpc("job-ingest.submit", payload).await.unwrap();
    let ids: Vec<u64> = answer["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 1000);
    events(&client, ids[999]).await;
    for id in &ids {
        events(&client, *id).await;
    }
    let audit = audit(&client).await;
    assert_eq!(
        (&audit["completed"], &audit["lost"], &audit["overlaps"]),
        (&json!(1000), &json!(0), &json!(0))
    );
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_cannot_run_is_refused_at_submission() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1000.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let refused =
        client.rpc("job-ingest.submit", json!({ "jobspec": simulated(17, 1.0, 2.0) })).await.unwrap_err();
    assert_eq!((refused.errnum, refused.text.as_str()), (75, "unsatisfiable request"));
    for (payload, word) in [
        (json!({}), "jobspec"),
        (json!({ "jobspec": 5 }), "jobspec"),
        (json!({ "jobspec": simulated(1, -1.0, 1.0) }), "simulate.duration"),
        (json!({ "jobspec": simulated(1, 1.0, 1.0), "urgency": 32 }), "urgency"),
        (json!({ "jobspec": simulated(1, 1.0, 1.0), "copies": 100_001 }), "copies"),
    ] {
        let refused = client.rpc("job-ingest.submit", payload).await.unwrap_err();
        assert!(refused.text.contains(word), "{refused}");
    }
    let audit = audit(&client).await;
    assert_eq!((&audit["submitted"], &audit["rejected"]), (&json!(0), &json!(1)));
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_scheduler_at_a_time_and_unknown_services_are_enosys() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let client = client(&handle).await;
    let taken = client.rpc("service.add", json!({ "service": "sched" })).await.unwrap_err();
    assert_eq!(taken.errnum, 17);
    let mut second = client.stream("resource.acquire", Value::Null).unwrap();
    assert_eq!(second.next().await.unwrap().unwrap_err().errnum, 16);
    assert_eq!(client.rpc("nobody.home", Value::Null).await.unwrap_err().errnum, 38);
    assert_eq!(client.rpc("sched.whatever", Value::Null).await.unwrap_err().errnum, 38);
    assert!(handle.drop_scheduler().await);
    handle.shutdown().await.unwrap();
}
