use super::*;

const SMALL: &str = r#"
name = "small"
cores = 2

[clock_hz]
value = 2.5e9
source = "made up"

[[levels]]
name = "L1"
bytes = 32768
dependent = { value = 4, source = "made up" }
prefetched = { value = 1, source = "made up" }
stream = { value = 1, source = "made up" }

[[levels]]
name = "DRAM"
bytes = 8e9
dependent = { value = 200, spread = 5, source = "made up" }
prefetched = { value = 30, source = "made up" }
stream = { value = 10, source = "made up" }

[operations.visit]
each = { value = 2, source = "made up" }
"#;

fn refused(change: impl Fn(&str) -> String) -> String {
    Hardware::parse("small.toml", &change(SMALL)).unwrap_err().to_string()
}

#[test]
fn a_description_comes_back_as_it_was() {
    let hardware = Hardware::parse("small.toml", SMALL).unwrap();
    assert_eq!((hardware.sockets, hardware.cores, hardware.levels.len()), (1, 2, 2));
    assert_eq!(hardware.levels[1].dependent.spread, Some(5.0));
    assert_eq!(hardware.seconds(2.5e9), 1.0);
    assert_eq!(Hardware::parse("again", &hardware.to_toml()).unwrap(), hardware);
}

#[test]
fn impossible_values_are_named() {
    let wrong = refused(|text| text.replace("value = 200", "value = -1"));
    assert_eq!(
        wrong,
        "small.toml: levels.DRAM.dependent.value is -1: give a number that is not negative"
    );
    let wrong = refused(|text| text.replace("value = 2.5e9", "value = 3.6"));
    assert!(wrong.contains("clock_hz.value is 3.6: give ticks a second"), "{wrong}");
    let wrong = refused(|text| text.replace("bytes = 8e9", "bytes = 100"));
    assert!(wrong.contains("levels.DRAM.bytes is 100: each level is larger"), "{wrong}");
    let wrong = refused(|text| text.replace("cores = 2", "cores = 0"));
    assert!(wrong.contains("at least one"), "{wrong}");
    let wrong = refused(|text| text.replace("value = 30,", "value = nan,"));
    assert!(wrong.contains("levels.DRAM.prefetched.value is NaN"), "{wrong}");
}

#[test]
fn missing_and_unknown_fields_are_named_with_their_line() {
    let wrong = refused(|text| text.replace("cores = 2", ""));
    assert!(wrong.contains("missing field `cores`"), "{wrong}");
    let wrong = refused(|text| text.replace("cores = 2", "cores = 2\ncolour = 1"));
    assert!(wrong.contains("unknown field `colour`") && wrong.contains("line 4"), "{wrong}");
    let levels = refused(|text| {
        let head = text.split("[[levels]]").next().unwrap_or_default();
        head.replace("cores = 2", "cores = 2\nlevels = []")
    });
    assert!(levels.contains("no levels: describe the caches"), "{levels}");
    let file = Hardware::load(Path::new("/nonexistent.toml")).unwrap_err().to_string();
    assert!(file.starts_with("/nonexistent.toml: No such file"), "{file}");
}
