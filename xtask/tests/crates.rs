//! `cargo xtask crates`: the crates for others can be published.

use std::process::Command;

#[test]
fn the_crates_for_others_can_be_packed_in_their_order() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("crates").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches(".crate").count(), 6, "{text}");
}
