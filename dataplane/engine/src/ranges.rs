//! Numbers of threads as text.

/// Ascending numbers, those in a row as `FIRST-LAST`.
pub fn ranges(numbers: &[usize]) -> String {
    let rows = numbers.chunk_by(|one, next| one + 1 == *next);
    let texts: Vec<String> = rows
        .filter_map(|row| match row {
            [] => None,
            [one] => Some(one.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[0, 2, 3, 4, 6]), "0,2-4,6");
    }
}
