use super::*;

#[test]
fn smoke() {
    let a: Idset = "[0-3,8]".parse().unwrap();
    let b: Idset = "2-9".parse().unwrap();
    assert_eq!(a.union(&b).to_string(), "0-9");
    assert_eq!(a.difference(&b).to_string(), "0-1");
    assert_eq!(a.intersection(&b).to_string(), "2-3,8");
}
