//! Versions of functions, as an operator declares them.

use std::fmt::Write as _;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::kind::{CheckError, Name, ResourceKind, Spec};
use crate::{FunctionName, NameError};

/// Digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// Longest path, in bytes, as the kernel takes it (`PATH_MAX` with its end).
const PATH_LEN_MAX: usize = 4095;

/// Least memory of a function, in bytes.
const MEMORY_MIN: u64 = 1 << 20;

/// CPUs that can be named.
const CPUS_MAX: u16 = 1024;

/// Longest time, in nanoseconds: a day.
const TIME_NS_MAX: u64 = 86_400_000_000_000;

/// A version of a function: an executable, and what it may use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionSpec {
    /// The executable: an absolute path without links, where nobody else can write.
    pub path: String,
    /// SHA-256 of the executable: 64 hexadecimal digits, lower case.
    pub sha256: String,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Who asks for it and alone changes it, as `cluster`; anybody, if nobody is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// What a function may use, as the element `Nf` takes it; its defaults hold for what is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory, at least 1M (`MEMORY`): `256M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// CPUs that it runs on (`CPUS`): `1 2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// It is restarted when it has a packet for longer (`HANG`): `500ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<String>,
    /// Time that it has to begin (`ATTACH_TIMEOUT`): `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_timeout: Option<String>,
}

impl Limits {
    /// Names and values of those that are given.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("memory", &self.memory),
            ("cpus", &self.cpus),
            ("hang", &self.hang),
            ("attach_timeout", &self.attach_timeout),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    fn is_empty(&self) -> bool {
        self.given().next().is_none()
    }

    /// What is taken here, `Nf` takes, too.
    fn check(&self) -> Result<(), CheckError> {
        right("limits.memory", &self.memory, is_memory, "number of bytes from 1M on, as 256M")?;
        right("limits.cpus", &self.cpus, are_cpus, "list of CPUs below 1024, as \"1 2\"")?;
        let time = "time up to a day, as 500ms or 1s";
        right("limits.hang", &self.hang, is_time, time)?;
        right("limits.attach_timeout", &self.attach_timeout, is_time, time)
    }
}

/// Whether a value that may be missing is right; the error reports what it should be.
fn right(
    field: &'static str,
    value: &Option<String>,
    is_right: fn(&str) -> bool,
    what: &str,
) -> Result<(), CheckError> {
    match value.as_deref().filter(|text| !is_right(text)) {
        None => Ok(()),
        Some(text) => {
            let message = format!("'{}' is no {what}", text.escape_debug());
            Err(CheckError::new(field, message))
        }
    }
}

/// A number of digits alone, times a unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*scale)
}

fn is_memory(text: &str) -> bool {
    let units = [("", 1), ("k", 1 << 10), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    scaled(text, &units).is_some_and(|bytes| bytes >= MEMORY_MIN)
}

fn is_time(text: &str) -> bool {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    scaled(text, &units).is_some_and(|time_ns| time_ns <= TIME_NS_MAX)
}

fn are_cpus(text: &str) -> bool {
    let is_cpu = |word: &str| {
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        digits && word.parse::<u16>().is_ok_and(|cpu| cpu < CPUS_MAX)
    };
    !text.is_empty() && text.split(' ').all(is_cpu)
}

impl FunctionSpec {
    /// Whether each field is right by itself.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), CheckError> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if let Some(why) = path_error(&self.path) {
            return Err(CheckError::new("path", why));
        }
        if self.sha256.len() != SHA256_DIGITS || !self.sha256.bytes().all(digit) {
            let message = "give the 64 hexadecimal digits, lower case, that sha256sum prints";
            return Err(CheckError::new("sha256", message));
        }
        self.limits.check()
    }
}

/// Why a text is no path of an executable, if it is none.
fn path_error(text: &str) -> Option<&'static str> {
    let parts = Path::new(text).components();
    let normal: std::path::PathBuf =
        parts.filter(|part| !matches!(part, Component::ParentDir)).collect();
    if !text.starts_with('/') {
        Some("the path is not absolute; begin it with /")
    } else if text.len() > PATH_LEN_MAX {
        Some("the path is longer than 4,095 bytes")
    } else if text.contains(char::is_control) {
        Some("the path has control characters")
    } else if normal.as_os_str() != text {
        Some("the path has '.', '..' or a '/' too many; give it without")
    } else {
        None
    }
}

impl Name for FunctionName {
    type Spec = FunctionSpec;

    fn parse(text: &str) -> Result<FunctionName, NameError> {
        FunctionName::new(text)
    }

    fn as_str(&self) -> &str {
        self.as_str()
    }
}

impl Spec for FunctionSpec {
    type Name = FunctionName;

    const KIND: ResourceKind = ResourceKind::Function;

    fn lines(&self) -> String {
        let mut text = format!("path: {:?}\nsha256: {}\n", self.path, self.sha256);
        if !self.limits.is_empty() {
            text += "limits:\n";
        }
        for (name, value) in self.limits.given() {
            // Writing to a String does not fail.
            let _ = writeln!(text, "  {name}: {value:?}");
        }
        if let Some(owner) = &self.managed_by {
            let _ = writeln!(text, "managed_by: {owner}");
        }
        text
    }

    fn managed_by(&self) -> Option<&str> {
        self.managed_by.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut FunctionSpec)) -> Option<String> {
        let (path, sha256) = ("/usr/lib/nf/ids".to_owned(), "0".repeat(SHA256_DIGITS));
        let mut spec = FunctionSpec { path, sha256, ..FunctionSpec::default() };
        change(&mut spec);
        spec.check().err().map(|error| error.field.into_owned())
    }

    #[test]
    fn a_wrong_field_is_named() {
        assert_eq!(refused(|_| {}), None);
        for path in ["", "ids", "/usr/./ids", "/usr/../ids", "/usr//ids", "/ids/", "/a\nb"] {
            assert_eq!(refused(|spec| spec.path = path.into()), Some("path".into()), "{path:?}");
        }
        assert_eq!(refused(|spec| spec.path = "/x".repeat(PATH_LEN_MAX)), Some("path".into()));
        for sha256 in ["", &"0".repeat(63), &"0".repeat(65), &"A".repeat(64), &"g".repeat(64)] {
            assert_eq!(
                refused(|spec| spec.sha256 = sha256.into()),
                Some("sha256".into()),
                "{sha256}"
            );
        }
    }

    #[test]
    fn limits_are_those_of_nf() {
        for memory in ["1M", "256M", "2G", "1024k", "1048576"] {
            assert_eq!(refused(|spec| spec.limits.memory = Some(memory.into())), None, "{memory}");
        }
        for memory in ["", "M", "1023k", "0", "-1M", "1T", "1 M", "1.5G", "99999999999999G"] {
            let found = refused(|spec| spec.limits.memory = Some(memory.into()));
            assert_eq!(found, Some("limits.memory".into()), "{memory}");
        }
        for cpus in ["0", "1 2", "1023"] {
            assert_eq!(refused(|spec| spec.limits.cpus = Some(cpus.into())), None, "{cpus}");
        }
        for cpus in ["", " ", "1,2", "1  2", "-1", "+1", "1024", "1-2", "70000"] {
            let found = refused(|spec| spec.limits.cpus = Some(cpus.into()));
            assert_eq!(found, Some("limits.cpus".into()), "{cpus}");
        }
        for time in ["0s", "1s", "500ms", "86400s", "10us", "7ns"] {
            assert_eq!(refused(|spec| spec.limits.hang = Some(time.into())), None, "{time}");
        }
        for time in ["", "s", "1", "1 s", "-1s", "86401s", "1d", "1.5s"] {
            let found = refused(|spec| spec.limits.hang = Some(time.into()));
            assert_eq!(found, Some("limits.hang".into()), "{time}");
            let found = refused(|spec| spec.limits.attach_timeout = Some(time.into()));
            assert_eq!(found, Some("limits.attach_timeout".into()), "{time}");
        }
    }

    #[test]
    fn lines_show_each_field_that_is_given() {
        let (path, sha256) = ("/ids".to_owned(), "a".repeat(2));
        let mut spec = FunctionSpec { path, sha256, ..FunctionSpec::default() };
        assert_eq!(spec.lines(), "path: \"/ids\"\nsha256: aa\n");
        spec.limits.hang = Some("1s".into());
        assert_eq!(spec.lines(), "path: \"/ids\"\nsha256: aa\nlimits:\n  hang: \"1s\"\n");
    }
}
