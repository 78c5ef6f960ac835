use super::*;

#[test]
fn one_id_in_every_encoding() {
    let id = JobId(6731191091817518);
    assert_eq!(id.to_words(), "reform-remote-galileo--heart-package-academy");
    assert_eq!(id.to_emoji(), "👩💅📓😸👑🚓");
    for text in [
        "ƒuZZybuNNy",
        "fuZZybuNNy",
        "0x17e9fb8df16c2e",
        "0017.e9fb.8df1.6c2e",
        &id.to_words(),
        &id.to_emoji(),
    ] {
        assert_eq!(text.parse(), Ok(id), "{text}");
    }
}
