//! The XML of hwloc.

use super::{at, names};
use crate::description::Model;

pub(super) const V2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <info name="HostName" value="fish07"/>
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0"/>
      <object type="L3Cache" cache_size="33554432" depth="3">
        <object type="L2Cache" cache_size="524288" depth="2">
          <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="4"/></object>
        </object>
        <object type="L2Cache" cache_size="524288" depth="2">
          <object type="Core" os_index="1"><object type="PU" os_index="1"/></object>
        </object>
      </object>
      <object type="L3Cache" cache_size="33554432"><object type="L2Cache"><object type="Core"><object type="PU"/></object></object></object>
      <object type="Bridge"><object type="PCIDev">
        <object type="OSDev" name="cuda3" osdev_type="5"/>
        <object type="OSDev" name="sda" osdev_type="0"><info name="Size" value="960000000"/></object>
        <object type="OSDev" name="eth0" osdev_type="2"/>
      </object></object>
    </object>
  </object>
</topology>"#;

const V1: &str = r#"<topology>
  <object type="Machine"><info name="HostName" value="n"/>
    <object type="NUMANode" os_index="0"><object type="Socket" os_index="0">
      <object type="Cache" depth="3" cache_size="1048576">
        <object type="Core" os_index="4"/><object type="Core" os_index="9"/></object>
    </object></object>
    <object type="NUMANode" os_index="1"><object type="Socket" os_index="1"><object type="Core" os_index="4"/></object>
    </object>
  </object>
</topology>"#;

#[test]
fn version_two_with_devices_and_caches() {
    let model = Model::from_hwloc(V2, None).unwrap();
    let containment = model.name("containment").unwrap();
    let all = names(&model, &model.subtree(model.root("containment").unwrap(), containment));
    let expected =
        "cluster0 fish07 socket0 L3cache0 core0 pu0 pu1 core1 pu2 L3cache1 core2 pu3 numanode0 gpu3 storage1";
    assert_eq!(all.join(" "), expected);
    let node = model.vertex(at(&model, "/cluster0/fish07")).unwrap();
    assert_eq!((node.id(), node.rank(), model.text(node.basename())), (Some(7), Some(0), "fish"));
    let disk = model.vertex(at(&model, "/cluster0/fish07/socket0/storage1")).unwrap();
    assert_eq!((disk.size(), model.text(disk.unit())), (960, "GB"));
    let cache = model.vertex(at(&model, "/cluster0/fish07/socket0/L3cache0")).unwrap();
    assert_eq!((cache.size(), model.text(cache.type_())), (32768, "cache"));
}

#[test]
fn version_one_and_a_list_of_types() {
    let model = Model::from_hwloc(V1, None).unwrap();
    assert_eq!(model.at_path("/cluster0/n/socket1/core2").len(), 1, "ids count through the machine");
    let model = Model::from_hwloc(V1, Some(&["node", "core"])).unwrap();
    let containment = model.name("containment").unwrap();
    let all = names(&model, &model.subtree(model.root("containment").unwrap(), containment));
    assert_eq!(all.join(" "), "cluster0 n core0 core1 core2");
}

/// The expected arrangement is that of hwloc's own `lstopo`.
#[test]
fn memory_of_version_one_stands_where_hwloc_puts_it() {
    let of = |inside: &str| {
        let text = format!(
            "<topology><object type=\"Machine\" cpuset=\"0xf\"><info name=\"HostName\" value=\"n\"/>{inside}</object></topology>"
        );
        let model = Model::from_hwloc(&text, None).unwrap();
        let containment = model.name("containment").unwrap();
        let all = model.subtree(model.root("containment").unwrap(), containment);
        let path = |v| model.paths(v).first().map_or(String::new(), |(_, p)| p.replace("/cluster0/n/", ""));
        all.into_iter().skip(2).map(path).collect::<Vec<_>>().join(" ")
    };
    let pu = |cpuset: &str| format!("<object type=\"PU\" cpuset=\"{cpuset}\"/>");
    let disk = "<object type=\"OSDev\" name=\"cuda0\" osdev_type=\"5\"/>";
    // Memory of the whole machine is beside the package, and its devices belong to the machine.
    let whole = format!(
        "<object type=\"NUMANode\" cpuset=\"0xf\"><object type=\"Package\" cpuset=\"0xf\">{}{}</object>{disk}</object>",
        pu("0x3"),
        pu("0xc")
    );
    assert_eq!(of(&whole), "socket0 socket0/pu0 socket0/pu1 socket0/gpu0 numanode0");
    // Memory of one package of two belongs to that package.
    let part = |set: &str| {
        format!(
            "<object type=\"NUMANode\" cpuset=\"{set}\"><object type=\"Package\" cpuset=\"{set}\">{0}{0}</object></object>",
            pu(set)
        )
    };
    assert_eq!(
        of(&(part("0x3") + &part("0xc"))),
        "socket0 socket0/pu0 socket0/pu1 socket0/numanode0 socket1 socket1/pu2 socket1/pu3 socket1/numanode1"
    );
    // Memory of a part of a package gets a group there, and memory with an empty node set is left out.
    let half = |set: &str, nodes: &str| {
        format!("<object type=\"NUMANode\" cpuset=\"{set}\" nodeset=\"{nodes}\">{0}{0}</object>", pu(set))
    };
    let halves = format!(
        "<object type=\"Package\" cpuset=\"0xf\">{}{}</object>",
        half("0x3", "0x1"),
        half("0xc", "0x0")
    );
    assert_eq!(
        of(&halves),
        "socket0 socket0/group0 socket0/group0/pu0 socket0/group0/pu1 socket0/group0/numanode0 \
         socket0/group1 socket0/group1/pu2 socket0/group1/pu3"
    );
    // Memory without processors keeps its place; an empty group is left out.
    let bare = "<object type=\"NUMANode\" cpuset=\"0x0\"><object type=\"Group\" cpuset=\"0x0\"/></object>";
    assert_eq!(
        of(&format!("{}{}{bare}", part("0x3"), part("0xc"))),
        "group0 group0/socket0 group0/socket0/pu0 group0/socket0/pu1 group0/numanode0 group1 group1/socket1 \
         group1/socket1/pu2 group1/socket1/pu3 group1/numanode1 group2 group2/numanode2"
    );
}

#[test]
fn errors_say_where() {
    let bomb = "<!DOCTYPE t [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><topology>&b;</topology>";
    let deep = "<object type=\"Group\">".repeat(200);
    let deep =
        format!("<topology><object type=\"Machine\">{deep}{}</object></topology>", "</object>".repeat(200));
    for (text, place, what) in [
        ("<topology>".to_owned(), "line 1", ""),
        ("<graphml/>".to_owned(), "line 1", "topology"),
        ("<topology><object type=\"Core\"/></topology>".to_owned(), "line 1", "Machine"),
        (bomb.to_owned(), "line 1", ""),
        (V2.replace("524288", "big"), "line 9: object 'L2Cache'", ""),
        (V2.replace("960000000", "big"), "line 19: object 'OSDev'", "Size 'big'"),
        (V2.replace("type=\"Core\" os_index=\"1\"", "os_index=\"1\""), "line 13: object ''", "type"),
        (deep, "line 1: object 'Group'", "inside each other"),
    ] {
        match Model::from_hwloc(&text, None) {
            Err(error) => assert!(error.place.starts_with(place) && error.what.contains(what), "{error}"),
            // A cache that is left out may lack a size.
            Ok(_) => assert!(text.contains("\"big\" depth=\"2\"")),
        }
    }
}
