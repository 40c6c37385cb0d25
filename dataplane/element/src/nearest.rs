//! Which name was perhaps meant.

/// The candidate nearest to `name`, if it is near enough to be meant.
///
/// Optimal string alignment distance, letters' case counting half as much as other letters.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.chars().take(MAX_NAME).collect();
    // A letter in three; in the shortest names only the case.
    let limit = (2 * (wanted.len() / 3).min(3)).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= 3)
        .map(|candidate| match candidate.eq_ignore_ascii_case(name) {
            // Whatever its length: only the case was missed.
            true => (usize::from(candidate != name), candidate),
            false => (distance(&wanted, &candidate.chars().collect::<Vec<_>>()), candidate),
        })
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Names are compared up to this length.
const MAX_NAME: usize = 64;

/// Twice the edit distance; a change of case counts one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).map(|j| 2 * j).collect();
    for i in 1..=a.len() {
        let mut row = vec![2 * i];
        for j in 1..=b.len() {
            let change = match (a[i - 1], b[j - 1]) {
                (x, y) if x == y => 0,
                (x, y) if x.eq_ignore_ascii_case(&y) => 1,
                _ => 2,
            };
            let mut best = (last[j - 1] + change).min(last[j] + 2).min(row[j - 1] + 2);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 2);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let names = ["IPFilter", "Queue", "IPClassifier", "q", "Tee"];
        let near = |name| nearest(name, names);
        assert_eq!(near("IPFliter"), Some("IPFilter"));
        assert_eq!(near("ipfilter"), Some("IPFilter"));
        assert_eq!(near("Queu"), Some("Queue"));
        assert_eq!(near("tee"), Some("Tee"));
        assert_eq!(near("Q"), Some("q"));
        assert_eq!(nearest("lan", ["WAN", "LAN"]), Some("LAN"));
        assert_eq!(near("x"), None);
        assert_eq!(near("Something"), None);
    }
}
