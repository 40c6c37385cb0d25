//! The example of two hosts, with output commit.

/// The configuration with output commit for all that leaves; `late` is its COMMIT_LATE.
pub fn committing(text: &str, late: &str) -> String {
    let late = format!("KEY $KEY, COMMIT_LATE {late},");
    let changes = [
        ("lan[1] -> to_lan;", "lan[1] -> [2]pair;"),
        ("wan[1] -> to_wan;", "wan[1] -> [3]pair;"),
        ("KEY $KEY,", &late),
    ];
    changes.into_iter().fold(text.to_owned(), |text, (plain, commits)| {
        assert!(text.contains(plain), "{plain}");
        text.replace(plain, commits)
    })
}
