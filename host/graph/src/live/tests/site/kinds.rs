//! Resources beside nodes, cores and gpus, as policies see them.

use serde_json::json;

use super::*;

fn kinds(m: &Resources) -> Vec<(String, String, u64, u64)> {
    let row = |it: &crate::ResourceKind| (it.name.clone(), it.unit.clone(), it.total, it.free);
    m.resource_kinds().iter().map(row).collect()
}

fn asked(m: &mut Resources, jobspec: &str) -> Vec<u64> {
    let request = m.compile(&Jobspec::from_json(jobspec).unwrap()).unwrap();
    m.resources_asked(&request)
}

#[test]
fn site_policies_see_storage_beside_nodes() {
    let mut m = Rabbits::default().machine();
    let ssd = |free: u64| vec![("ssd".to_owned(), "GiB".to_owned(), 600, free)];
    assert_eq!(kinds(&m), ssd(600));
    assert_eq!(asked(&mut m, &beside(2, 10)), [20]);
    assert_eq!(asked(&mut m, &job(json!([node(1)]))), [0]);
    // Storage is granted by whole vertices.
    run(&mut m, 1, &beside(2, 10)).unwrap();
    assert_eq!(kinds(&m), ssd(400));
    m.set_vertex_status("/site/chassis1", false).unwrap();
    assert_eq!(kinds(&m), ssd(100), "the rest of the other chassis: what is down is not free");
    m.set_vertex_status("/site/chassis1", true).unwrap();
    m.release(JobId(1), None).unwrap();
    assert_eq!(kinds(&m), ssd(600));
}

#[test]
fn site_policies_see_what_is_inside_nodes_and_licences() {
    let text = json!({"graph": {"nodes": [
        {"id": "0", "metadata": {"type": "cluster", "paths": {"containment": "/c"}}},
        {"id": "1", "metadata": {"type": "node", "name": "n0", "rank": 0, "paths": {"containment": "/c/n0"}}},
        {"id": "2", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/c/n0/core0"}}},
        {"id": "3", "metadata": {"type": "core", "id": 1, "rank": 0, "paths": {"containment": "/c/n0/core1"}}},
        {"id": "4", "metadata": {"type": "memory", "id": 0, "rank": 0, "size": 64, "unit": "GB",
            "paths": {"containment": "/c/n0/memory0"}}},
        {"id": "5", "metadata": {"type": "licence", "id": 0, "size": 5, "paths": {"containment": "/c/licence0"}}}
    ], "edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}, {"source": "1", "target": "3"},
        {"source": "1", "target": "4"}, {"source": "0", "target": "5"}]}});
    let mut m = Resources::from_jgf(&text.to_string()).unwrap();
    m.set_up(&ids("0"));
    let sums =
        |m: &Resources| kinds(m).into_iter().map(|(name, _, _, free)| (name, free)).collect::<Vec<_>>();
    assert_eq!(sums(&m), [("licence".to_owned(), 5), ("memory".to_owned(), 64)]);
    let jobspec = job(json!([{"type": "licence", "count": 2},
        {"type": "slot", "count": 1, "label": "task", "with": [
            {"type": "core", "count": 1}, {"type": "memory", "count": 1500, "unit": "MB"}]}]));
    assert_eq!(asked(&mut m, &jobspec), [2, 2], "units convert and round up");
    run(&mut m, 1, &jobspec).unwrap();
    assert_eq!(sums(&m), [("licence".to_owned(), 3), ("memory".to_owned(), 62)]);
}
