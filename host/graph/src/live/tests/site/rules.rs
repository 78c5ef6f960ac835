//! Rules of a site: storage that is granted by unit, and attributes that bind jobs to the nodes of some chassis.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::config;
use super::*;
use crate::SiteRules;

fn by_unit(types: &[&str]) -> SiteRules {
    SiteRules { by_unit: types.iter().map(|&type_| type_.to_owned()).collect(), ..SiteRules::default() }
}

fn behind_rabbits() -> SiteRules {
    SiteRules { nodes_below: [("dw".to_owned(), "rabbit".to_owned())].into(), ..SiteRules::default() }
}

/// Path and size of each storage vertex in an R.
fn sizes(r: &R) -> Vec<(String, u64)> {
    let nodes = r.scheduling.as_ref().unwrap()["graph"]["nodes"].as_array().unwrap().clone();
    let size = |path: &String| {
        let mut all = nodes.iter().map(|node| &node["metadata"]);
        all.find(|it| it["paths"]["containment"] == path.as_str()).unwrap()["size"].as_u64().unwrap_or(1)
    };
    held(r).into_iter().map(|path| (path.clone(), size(&path))).collect()
}

#[test]
fn site_18_35_109_types_that_the_site_names_are_granted_by_unit() {
    let site = Rabbits { ssds: 1, nodes: 3, ..Rabbits::default() };
    let ssd0 = "/site/chassis0/ssd0".to_owned();
    // By default a vertex is granted whole.
    let mut m = site.machine();
    assert_eq!(sizes(&run(&mut m, 1, &beside(1, 30)).unwrap()), [(ssd0.clone(), 100)]);
    assert_eq!(sizes(&run(&mut m, 2, &beside(1, 30)).unwrap()), [("/site/chassis1/ssd0".to_owned(), 100)]);
    let third = ask(&mut m, &beside(1, 30));
    assert!(m.match_now(&third, 0.0, 60.0, Placement::First).is_err());

    let mut m = site.machine();
    m.set_site_rules(&by_unit(&["ssd"]));
    assert_eq!(sizes(&run(&mut m, 1, &beside(2, 30)).unwrap()), [(ssd0.clone(), 60)]);
    assert_eq!(sizes(&run(&mut m, 2, &beside(1, 40)).unwrap()), [(ssd0, 40)]);
    assert_eq!(sizes(&run(&mut m, 3, &beside(1, 41)).unwrap()), [("/site/chassis1/ssd0".to_owned(), 41)]);
    assert!(run(&mut m, 4, &beside(1, 60)).is_none());
    // An exclusive chassis is not shared: it needs all of its storage.
    let alone = job(json!([{"type": "chassis", "count": 1, "exclusive": true, "with": [node(1)]}]));
    assert!(run(&mut m, 4, &alone).is_none());
    assert!(satisfiable(&mut m, &beside(1, 100)).is_ok() && satisfiable(&mut m, &beside(1, 101)).is_err());
    // The resources that a job holds come back from its R.
    let mut again = site.machine();
    again.set_site_rules(&by_unit(&["ssd"]));
    for id in 1..=3 {
        let r = m.allocation_r(JobId(id)).unwrap();
        again.allocate_r(JobId(id), &r, &none(), 0.0, 60.0).unwrap();
    }
    assert!(run(&mut again, 4, &beside(1, 60)).is_none());
    assert_eq!(sizes(&run(&mut again, 4, &beside(1, 59)).unwrap()), [("/site/chassis1/ssd0".to_owned(), 59)]);
    for id in 1..=4 {
        again.release(JobId(id), None).unwrap();
    }
    assert_eq!(again.totals(), site.machine().totals());
    assert!(run(&mut again, 5, &beside(1, 100)).is_some());
}

#[test]
fn a_request_that_did_not_fit_is_asked_anew_when_the_rules_change() {
    let mut m = Rabbits { chassis: 1, ssds: 1, ..Rabbits::default() }.machine();
    assert!(run(&mut m, 1, &job(json!([node(1), {"type": "ssd", "count": 10}]))).is_some());
    let request = ask(&mut m, &beside(1, 30));
    let fits = |m: &mut Resources| m.match_now(&request, 0.0, 60.0, Placement::First).is_ok();
    assert!(!fits(&mut m));
    let epoch = m.epoch();
    m.set_site_rules(&by_unit(&["ssd", "tape"]));
    assert!(m.epoch() > epoch && fits(&mut m));
    assert_eq!(m.missing_of(&by_unit(&["ssd", "tape"])), ["type 'tape'"]);
    m.set_site_rules(&SiteRules::default());
    assert!(!fits(&mut m));
}

#[test]
fn site_36_jobs_with_an_attribute_run_below_vertices_with_a_property() {
    let with_dw = |count: u32| {
        let mut text: Value = serde_json::from_str(&job(json!([node(count)]))).unwrap();
        text["attributes"]["system"]["dw"] = json!("#DW persistentdw name=lib");
        text.to_string()
    };
    let mut m = Rabbits::default().machine();
    assert!(satisfiable(&mut m, &with_dw(5)).is_ok());
    m.set_site_rules(&behind_rabbits());
    assert!(satisfiable(&mut m, &with_dw(4)).is_ok());
    let why = satisfiable(&mut m, &with_dw(5)).unwrap_err();
    assert_eq!(why, "unsatisfiable request: it asks for 5 nodes, and 4 on nodes that meet its constraints");
    assert!(satisfiable(&mut m, &job(json!([node(5)]))).is_ok());
    // Its own constraint holds too, and node 4 is beside the chassis.
    let mut even: Value = serde_json::from_str(&with_dw(2)).unwrap();
    even["attributes"]["system"]["constraints"] = json!({"properties": ["even"]});
    assert_eq!(run(&mut m, 1, &even.to_string()).unwrap().summary(), "rank[0,2]/core[0-3]");
    assert_eq!(run(&mut m, 2, &with_dw(2)).unwrap().summary(), "rank[1,3]/core[0-3]");
    assert!(run(&mut m, 3, &with_dw(1)).is_none());
    assert_eq!(run(&mut m, 3, &job(json!([node(1)]))).unwrap().summary(), "rank4/core[0-3]");
    // Nodes are asked for: no vertex of this machine has the property.
    let other =
        SiteRules { nodes_below: [("dw".to_owned(), "rabit".to_owned())].into(), ..SiteRules::default() };
    assert_eq!(m.missing_of(&other), ["property 'rabit'"]);
    m.set_site_rules(&other);
    assert!(satisfiable(&mut m, &with_dw(1)).is_err());
}

/// Chassis with nodes and storage, as counts.
struct Plain {
    nodes: Vec<u32>,
    free: BTreeMap<String, u64>,
    jobs: BTreeMap<u64, R>,
}

impl Plain {
    fn free_in(&self, chassis: usize) -> u64 {
        let inside = format!("/site/chassis{chassis}/");
        self.free.iter().filter(|(path, _)| path.starts_with(&inside)).map(|(_, units)| units).sum()
    }

    fn fits(&self, slots: u32, gib: u32) -> bool {
        let of = |c: usize| u64::from(self.nodes[c]).min(self.free_in(c) / u64::from(gib));
        (0..self.nodes.len()).map(of).sum::<u64>() >= u64::from(slots)
    }

    /// Takes what an R lists, or gives it back.
    fn book(&mut self, r: &R, each: u32, take: bool) {
        for rank in r.ranks().iter() {
            let of = &mut self.nodes[(rank / each) as usize];
            *of = if take { of.checked_sub(1).expect("a node is held twice") } else { *of + 1 };
        }
        for (path, size) in sizes(r) {
            let of = self.free.get_mut(&path).unwrap();
            *of = if take { of.checked_sub(size).expect("units are held twice") } else { *of + size };
        }
    }
}

proptest! {
    #![proptest_config(config(64))]

    /// Units of storage against a plain list, with restarts in between.
    #[test]
    fn storage_by_unit_is_granted_as_a_plain_list_has_it(
        (chassis, ssds, nodes) in (1..4u32, 1..4u32, 1..4u32),
        steps in prop::collection::vec((1..4u32, 1..250u32, any::<prop::sample::Index>(), 0..4u32), 1..50),
    ) {
        let site = Rabbits { chassis, ssds, nodes, ..Rabbits::default() };
        let load = || {
            let mut machine = site.machine();
            machine.set_site_rules(&by_unit(&["ssd"]));
            machine
        };
        let mut machine = load();
        let paths = (0..chassis).flat_map(|c| (0..ssds).map(move |s| format!("/site/chassis{c}/ssd{s}")));
        let free = paths.map(|path| (path, 100)).collect();
        let mut list = Plain { nodes: vec![nodes; chassis as usize], free, jobs: BTreeMap::new() };
        for (id, (slots, gib, which, kind)) in steps.into_iter().enumerate() {
            match kind {
                0 if !list.jobs.is_empty() => {
                    let done = *which.get(&list.jobs.keys().copied().collect::<Vec<_>>());
                    let r = list.jobs.remove(&done).unwrap();
                    machine.release(JobId(done), None).unwrap();
                    list.book(&r, nodes, false);
                }
                1 => {
                    machine = load();
                    for (id, r) in &list.jobs {
                        machine.allocate_r(JobId(*id), r, &none(), 0.0, 60.0).unwrap();
                    }
                }
                _ => {
                    let fits = list.fits(slots, gib);
                    let r = run(&mut machine, id as u64, &beside(slots, gib));
                    prop_assert_eq!(r.is_some(), fits);
                    let Some(r) = r else { continue };
                    let units: u64 = sizes(&r).iter().map(|(_, size)| size).sum();
                    prop_assert_eq!((r.ranks().len(), units), (u64::from(slots), u64::from(slots * gib)));
                    list.book(&r, nodes, true);
                    list.jobs.insert(id as u64, r);
                }
            }
        }
    }
}
