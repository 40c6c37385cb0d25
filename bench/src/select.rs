//! Which cases and figures the user asks for.

use thruway::glob;

/// Whether PATTERN means this case.
pub fn wanted(pattern: Option<&str>, case: &str) -> bool {
    match pattern {
        None => true,
        Some(pattern) if pattern.contains(['*', '?']) => glob(pattern, case),
        Some(pattern) => case.contains(pattern),
    }
}

/// The figures of these names, or all; `list` reports which there are.
pub fn named<F>(
    all: &'static [F],
    name_of: fn(&F) -> &str,
    names: &[String],
    list: fn() -> String,
) -> anyhow::Result<Vec<&'static F>> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |name: &String| all.iter().find(|figure| name_of(figure) == name);
    let found = |name| find(name).ok_or_else(|| anyhow::anyhow!("no figure '{name}'\n{}", list()));
    names.iter().map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(wanted(None, "a/b") && wanted(Some("/b"), "a/b") && wanted(Some("a*b"), "a/b"));
        assert!(!wanted(Some("a*c"), "a/b") && !wanted(Some("c"), "a/b"));
    }
}
