use super::*;

#[test]
fn smoke() {
    let list: Hostlist = "foo[1-3,5],bar,foo[00-02]-eth2".parse().unwrap();
    assert_eq!(list.to_string(), "foo[1-3,5],bar,foo[00-02]-eth2");
    assert_eq!(list.len(), 8);
    assert_eq!(list.nth(6).as_deref(), Some("foo01-eth2"));
    assert_eq!(list.find("foo01-eth2"), Some(6));
}
