//! Crashes of the instance, of the scheduler, and of their connection.

use fluxgate_formats::Idset;
use fluxgate_instance::{Config, Instance, InstanceError};
use fluxgate_wire::rpc::Client;
use serde_json::{Value, json};

use crate::common::*;

#[tokio::test]
async fn a_crash_in_the_middle_of_everything_loses_no_job() {
    let dir = tempfile::tempdir().unwrap();
    let mut ids: Vec<u64> = Vec::new();
    for life in 0..4 {
        let handle = instance(dir.path(), 10_000.0).await;
        let client = client(&handle).await;
        tokio::spawn(FirstFit::connect(&handle).await.run());
        let payload = json!({ "jobspec": simulated(1 + life % 3, 60.0, 120.0), "copies": 300 });
        let answer = client.rpc("job-ingest.submit", payload).await.unwrap();
        ids.extend(answer["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()));
        // Until many of them have run.
        events(&client, ids[ids.len() - 200]).await;
        handle.abort().await.unwrap();
    }
    let handle = instance(dir.path(), 10_000.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    for id in &ids {
        events(&client, *id).await;
    }
    let audit = audit(&client).await;
    for (key, n) in [
        ("submitted", 1200),
        ("completed", 1200),
        ("started", 1200),
        ("lost", 0),
        ("run_twice", 0),
        ("overlaps", 0),
        ("dropped", 0),
        ("hellos", 5),
    ] {
        assert_eq!(audit[key], json!(n), "{key} in {audit}");
    }
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_scheduler_that_dies_finds_its_jobs_again() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    let first = tokio::spawn(FirstFit::connect(&handle).await.run());
    let running = submit(&client, simulated(12, 600.0, 1200.0)).await;
    let pending = submit(&client, simulated(12, 600.0, 1200.0)).await;
    runs(&client, running).await;
    assert!(handle.drop_scheduler().await);
    first.await.unwrap();
    let status = client.rpc("job-manager.queue-status", json!({})).await.unwrap();
    assert_eq!(status["blocked"], json!("scheduler"));
    let second = FirstFit::connect(&handle).await;
    assert_eq!(second.hello.len(), 1);
    assert_eq!(second.hello[0]["id"], json!(running));
    tokio::spawn(second.run());
    let cancel = json!({ "id": running, "severity": 0, "type": "cancel" });
    client.rpc("job-manager.raise", cancel).await.unwrap();
    runs(&client, pending).await;
    let audit = audit(&client).await;
    assert_eq!(
        (&audit["dropped"], &audit["connections"], &audit["hellos"]),
        (&json!(1), &json!(2), &json!(2))
    );
    assert_eq!((&audit["canceled"], &audit["running"], &audit["lost"]), (&json!(1), &json!(1), &json!(0)));
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn nodes_that_go_down_get_no_new_jobs_and_jobs_there_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let running = submit(&client, simulated(4, 600.0, 1200.0)).await;
    runs(&client, running).await;
    handle.nodes_down(Idset::parse("0-2").unwrap(), false).await;
    let there = submit(&client, simulated(4, 600.0, 1200.0)).await;
    runs(&client, there).await;
    assert_eq!(job(&client, there).await["ranks"], json!("3"));
    assert_eq!(job(&client, running).await["state"], json!(16));
    handle.nodes_up(Idset::parse("0-2").unwrap()).await;
    let status = client.rpc("resource.status", Value::Null).await.unwrap();
    assert_eq!(status["online"], json!("0-3"));
    handle.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_instance_in_a_folder_and_on_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let second = Instance::start(config(dir.path(), 1.0)).await;
    assert!(matches!(second, Err(InstanceError::Store(_))), "{second:?}");
    let elsewhere = tempfile::tempdir().unwrap();
    let mut same_socket = Config::new(elsewhere.path(), machine(2, 2));
    same_socket.socket = Some(handle.socket().to_owned());
    let second = Instance::start(same_socket).await;
    assert!(matches!(second, Err(InstanceError::Listen(_))), "{second:?}");
    let socket = handle.socket().to_owned();
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600, "ADM-1");
    handle.shutdown().await.unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn bad_frames_close_only_the_connection_of_their_sender() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    let huge = [&0xffee_0012_u32.to_ne_bytes()[..], &[0xff; 4]].concat();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), huge] {
        let mut stream = tokio::net::UnixStream::connect(handle.socket()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        // The authentication byte, then the end.
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest, [0]);
    }
    assert_eq!(client.rpc("broker.ping", json!({ "seq": 1 })).await.unwrap()["seq"], json!(1));
    let other = Client::connect(handle.uri()).await.unwrap().0;
    assert_eq!(other.rpc("attr.get", json!({ "name": "size" })).await.unwrap()["value"], json!("4"));
    handle.shutdown().await.unwrap();
}

/// Another process writes the database, and does not end: the writer of the instance is refused.
fn blocked(dir: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(dir.join("instance.sqlite")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// Asks until a request is refused because records cannot be written; returns the text of the error. A request of the turn that cannot
/// be written is answered when that turn is written, so each request is a task of its own.
async fn refused(client: &Client) -> String {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    loop {
        let (client, tell) = (client.clone(), tell.clone());
        tokio::spawn(async move {
            if let Err(error) = client.rpc("job-list.list", json!({ "attrs": ["all"] })).await {
                let _ = tell.send(error);
            }
        });
        let patience = std::time::Duration::from_millis(20);
        if let Ok(Some(error)) = tokio::time::timeout(patience, told.recv()).await {
            assert_eq!(error.errnum, fluxgate_wire::errno::EAGAIN, "{error}");
            return error.to_string();
        }
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_written_holds_the_instance_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let handle = instance(dir.path(), 1.0).await;
    let client = client(&handle).await;
    tokio::spawn(FirstFit::connect(&handle).await.run());
    let running = submit(&client, simulated(12, 600.0, 1200.0)).await;
    runs(&client, running).await;
    let other = blocked(dir.path());
    // It is in no record yet, so it is not answered.
    let waits = tokio::spawn({
        let client = Client::connect(handle.uri()).await.unwrap().0;
        async move { submit(&client, simulated(4, 600.0, 1200.0)).await }
    });
    let text = refused(&client).await;
    assert!(text.contains("the instance waits until its records can be written: "), "{text}");
    assert!(text.contains("instance.sqlite: database is locked"), "{text}");
    for (topic, payload) in [
        ("job-ingest.submit", json!({ "jobspec": simulated(1, 1.0, 2.0) })),
        ("job-manager.raise", json!({ "id": running, "severity": 0, "type": "cancel" })),
        ("resource.drain", json!({ "targets": "0", "reason": "test" })),
    ] {
        let refused = client.rpc(topic, payload).await.unwrap_err();
        assert_eq!(refused.errnum, fluxgate_wire::errno::EAGAIN, "{topic}: {refused}");
    }
    client.rpc("broker.ping", json!({})).await.unwrap();
    assert_eq!(client.rpc("fluxgate-instance.info", Value::Null).await.unwrap()["running"], 1);
    assert!(!waits.is_finished());
    other.execute_batch("COMMIT").unwrap();
    let id = waits.await.unwrap();
    runs(&client, id).await;
    let audit = audit(&client).await;
    for (key, n) in [("submitted", 2), ("running", 2), ("lost", 0), ("overlaps", 0), ("dropped", 0)] {
        assert_eq!(audit[key], json!(n), "{key} in {audit}");
    }
    // An instance that is ended meanwhile says that it could not write, and begins again as it was.
    let other = blocked(dir.path());
    drop(client.stream("job-ingest.submit", json!({ "jobspec": simulated(1, 600.0, 1200.0) })));
    refused(&client).await;
    let error = handle.shutdown().await.unwrap_err().to_string();
    assert!(error.contains("instance.sqlite: database is locked"), "{error}");
    drop(other);
    let handle = instance(dir.path(), 1.0).await;
    let client = Client::connect(handle.uri()).await.unwrap().0;
    for id in [running, id] {
        assert_eq!(job(&client, id).await["state"], json!(16));
    }
    handle.shutdown().await.unwrap();
}
