//! Vectors and properties of jobspecs.

use serde_json::json;

use super::*;

#[test]
fn a_simple_job_reads_back_as_it_was_built() {
    let job =
        Simple { nodes: Some(2), slots: 3, command: vec!["app".into()], duration: 60.0, ..Simple::default() };
    let job = job.build();
    assert_eq!(Jobspec::from_value(&job.to_value()).as_ref(), Ok(&job));
    assert_eq!(job.check_v1(), Ok(()));
    assert_eq!(job.tasks[0].count, TaskCount::Total(3));
    assert_eq!(job.to_value()["resources"][0]["with"][0]["count"], json!(2));
}
