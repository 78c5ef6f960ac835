//! The XML of hwloc.

use super::{at, names};
use crate::model::Model;

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
    let expected = "cluster0 fish07 socket0 L3cache0 core0 pu0 pu1 core1 pu2 gpu3 storage numanode0";
    assert_eq!(all.join(" "), expected);
    let node = model.vertex(at(&model, "/cluster0/fish07")).unwrap();
    assert_eq!((node.id(), node.rank(), model.text(node.basename())), (Some(7), Some(0), "fish"));
    let disk = model.vertex(at(&model, "/cluster0/fish07/socket0/storage")).unwrap();
    assert_eq!((disk.size(), model.text(disk.unit())), (960, "GB"));
    let cache = model.vertex(at(&model, "/cluster0/fish07/socket0/L3cache0")).unwrap();
    assert_eq!((cache.size(), model.text(cache.type_())), (32768, "cache"));
}

#[test]
fn version_one_and_a_list_of_types() {
    let model = Model::from_hwloc(V1, None).unwrap();
    assert_eq!(
        model.at_path("/cluster0/n/numanode1/socket1/core2").len(),
        1,
        "ids count through the machine"
    );
    let model = Model::from_hwloc(V1, Some(&["node", "core"])).unwrap();
    let containment = model.name("containment").unwrap();
    let all = names(&model, &model.subtree(model.root("containment").unwrap(), containment));
    assert_eq!(all.join(" "), "cluster0 n core0 core1 core2");
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
        (V2.replace("960000000", "big"), "line 18: object 'OSDev'", "Size 'big'"),
        (V2.replace("type=\"Core\" os_index=\"1\"", "os_index=\"1\""), "line 13: object ''", "type"),
        (deep, "line 1: object 'Group'", "inside each other"),
    ] {
        match Model::from_hwloc(&text, None) {
            Err(error) => assert!(error.place.starts_with(place) && error.what.contains(what), "{error}"),
            // A cache that is left out need not say how large it is.
            Ok(_) => assert!(text.contains("\"big\" depth=\"2\"")),
        }
    }
}
