//! Costs that running configurations showed: kept in a file beside the description of their host,
//! and used by estimates instead of what elements declare.
//!
//! An observation is of one class with its arguments, and a ratio: what an element took over what
//! its operations were estimated at, for the packets and batches that it had. Estimates of other
//! packets multiply by it. It belongs to one calibration: after another one it is not used.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Version of the file that this program reads and writes.
const VERSION: u32 = 1;
/// Most observations that are kept; of more the oldest go.
pub const COSTS_MAX: usize = 1000;
/// Longest file, bytes: all observations with the longest arguments.
const FILE_LEN_MAX: u64 = 2 << 20;
/// Longest class and longest arguments of an observation, bytes.
const CLASS_LEN_MAX: usize = 64;
const ARGUMENTS_LEN_MAX: usize = 512;
/// An observation that is further off, by this factor, is of something else: no operation that is
/// declared explains it.
const RATIO_MAX: f64 = 50.0;

/// What one class with its arguments took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedCost {
    /// The element's class.
    pub class: String,
    /// Its arguments, as they were written.
    #[serde(default)]
    pub arguments: String,
    /// Cycles per packet that its operations were estimated at.
    pub declared: f64,
    /// Cycles per packet that it took.
    pub observed: f64,
    /// Packets that this is seen of.
    pub packets: u64,
}

impl ObservedCost {
    /// The observation over the declaration; none where it cannot be used.
    pub fn ratio(&self) -> Option<f64> {
        let is_short =
            self.class.len() <= CLASS_LEN_MAX && self.arguments.len() <= ARGUMENTS_LEN_MAX;
        let is_number = |value: f64| value.is_finite() && value > 0.0;
        if !is_short || !is_number(self.declared) || !is_number(self.observed) {
            return None;
        }
        let ratio = self.observed / self.declared;
        (1.0 / RATIO_MAX..=RATIO_MAX).contains(&ratio).then_some(ratio)
    }
}

/// All observations on a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    version: u32,
    /// Of the description that they were observed with.
    calibration: String,
    /// The oldest first.
    #[serde(default)]
    costs: Vec<ObservedCost>,
    /// Whether there are some of another calibration, which are not used.
    #[serde(skip)]
    pub is_of_another: bool,
}

/// Why observations are not read or kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path}: {why}; drop the observed costs with `thruway estimate --forget`, which then come \
         from `thruway estimate --live ADDRESS --refine` again"
)]
pub struct ObservedError {
    path: String,
    why: String,
}

impl ObservedError {
    fn of(path: &Path, why: impl ToString) -> ObservedError {
        let why = why.to_string();
        let why = why.split(" (os error").next().unwrap_or_default().trim_end().to_owned();
        ObservedError { path: path.display().to_string(), why }
    }
}

/// Where the observations on the host of a description are.
pub fn file_of(description: &Path) -> PathBuf {
    description.with_extension("observed.toml")
}

/// Removes the observations; whether there were any.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget(description: &Path) -> Result<bool, ObservedError> {
    let path = file_of(description);
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(ObservedError::of(&path, error)),
    }
}

impl Observed {
    /// Those on the host of a description that has this text; none where there is no file.
    ///
    /// # Errors
    /// When the file is too long, no such file, or of another version.
    pub fn load(description: &Path, text: &str) -> Result<Observed, ObservedError> {
        let none = Observed { version: VERSION, calibration: mark(text), ..Observed::default() };
        let path = file_of(description);
        let wrong = |why: &str| ObservedError::of(&path, why);
        let Some(kept) = read(&path)? else { return Ok(none) };
        let kept: Observed = toml::from_str(&kept).map_err(|why| wrong(&why.to_string()))?;
        if kept.version != VERSION {
            let version = kept.version;
            return Err(wrong(&format!("it has version {version}, and {VERSION} is known")));
        }
        if kept.costs.len() > COSTS_MAX {
            return Err(wrong(&format!("it has more than {COSTS_MAX} costs")));
        }
        if let Some(cost) = kept.costs.iter().find(|cost| cost.ratio().is_none()) {
            let class: String = cost.class.chars().take(CLASS_LEN_MAX).collect();
            return Err(wrong(&format!("the cost of {class:?} cannot be")));
        }
        if kept.calibration != none.calibration {
            return Ok(Observed { is_of_another: !kept.costs.is_empty(), ..none });
        }
        Ok(kept)
    }

    /// By how much a class with these arguments costs more than it declares, if that was observed.
    pub fn ratio(&self, class: &str, arguments: &str) -> Option<f64> {
        let mut all = self.costs.iter();
        all.find(|cost| cost.class == class && cost.arguments == arguments)?.ratio()
    }

    /// Keeps observations, instead of earlier ones of the same classes with the same arguments; how
    /// many of them can be used.
    pub fn keep(&mut self, costs: Vec<ObservedCost>) -> usize {
        let good = costs.into_iter().filter(|cost| cost.ratio().is_some());
        let mut kept = 0;
        for cost in good {
            let is_same = |other: &ObservedCost| {
                other.class == cost.class && other.arguments == cost.arguments
            };
            self.costs.retain(|other| !is_same(other));
            self.costs.push(cost);
            kept += 1;
        }
        let most = self.costs.len().saturating_sub(COSTS_MAX);
        self.costs.drain(..most);
        self.is_of_another = false;
        kept
    }

    /// Writes them beside the description of their host, whole or not at all; the file's path.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, description: &Path) -> Result<PathBuf, ObservedError> {
        let path = file_of(description);
        let failed = |why: std::io::Error| ObservedError::of(&path, why);
        let text = toml::to_string(self).map_err(|why| ObservedError::of(&path, why))?;
        // A name of its own: two that write at a time do not mix.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|why| {
            // It may not have been made.
            let _ = fs::remove_file(&new);
            failed(why)
        })?;
        Ok(path)
    }
}

/// The text of a file that is there, is one, and is not too long.
fn read(path: &Path) -> Result<Option<String>, ObservedError> {
    let failed = |why: std::io::Error| ObservedError::of(path, why);
    let is_file = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.is_file(),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(failed(why)),
    };
    if !is_file {
        return Err(ObservedError::of(path, "it is not a plain file"));
    }
    let mut text = String::new();
    let file = OpenOptions::new().read(true).open(path).map_err(failed)?;
    file.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(ObservedError::of(path, format!("it is longer than {FILE_LEN_MAX} bytes")));
    }
    Ok(Some(text))
}

/// A description's mark: FNV-1a of its text, which another calibration does not have.
fn mark(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(class: &str, declared: f64, observed: f64) -> ObservedCost {
        let (class, arguments) = (class.to_owned(), "1".to_owned());
        ObservedCost { class, arguments, declared, observed, packets: 10_000 }
    }

    #[test]
    fn what_is_kept_is_used_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("hardware.toml");
        let mut observed = Observed::load(&host, "host").unwrap();
        assert_eq!(observed.ratio("Paint", "1"), None);
        assert_eq!(observed.keep(vec![cost("Paint", 10.0, 25.0), cost("Null", 0.0, 4.0)]), 1);
        assert_eq!(observed.keep(vec![cost("Paint", 10.0, 20.0)]), 1);
        let path = observed.save(&host).unwrap();
        let read = Observed::load(&host, "host").unwrap();
        assert_eq!((&read, read.ratio("Paint", "1")), (&observed, Some(2.0)));
        assert_eq!(read.ratio("Paint", "2"), None, "other arguments");
        // Calibrated anew.
        let other = Observed::load(&host, "another").unwrap();
        assert!(other.is_of_another && other.ratio("Paint", "1").is_none());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{path:?} alone");
        assert!(forget(&host).unwrap() && !forget(&host).unwrap());
        assert_eq!(Observed::load(&host, "host").unwrap().ratio("Paint", "1"), None);
    }

    #[test]
    fn there_are_not_too_many_and_the_oldest_go() {
        let mut observed = Observed::default();
        let costs = (0..COSTS_MAX + 5).map(|nth| cost(&format!("C{nth}"), 1.0, 2.0));
        observed.keep(costs.collect());
        assert_eq!(observed.costs.len(), COSTS_MAX);
        assert_eq!((observed.ratio("C4", "1"), observed.ratio("C5", "1")), (None, Some(2.0)));
    }

    #[test]
    fn hostile_files_are_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("hardware.toml");
        let file = file_of(&host);
        let head = "version = 1\ncalibration = \"x\"\n";
        let one = |declared: &str, class: &str| {
            format!(
                "[[costs]]\nclass = \"{class}\"\ndeclared = {declared}\nobserved = 1.0\npackets = 1\n"
            )
        };
        for (text, why) in [
            ("\u{0}".to_owned(), "parse"),
            ("version = 2\ncalibration = \"\"".to_owned(), "version 2"),
            (format!("{head}{}", one("nan", "A")), "cannot be"),
            (format!("{head}{}", one("-1.0", "A")), "cannot be"),
            (format!("{head}{}", one("1e9", "A")), "cannot be"),
            (format!("{head}{}", one("1.0", &"A".repeat(65))), "cannot be"),
            (format!("{head}{}", one("1.0", "A").repeat(COSTS_MAX + 1)), "more than"),
            (format!("{head}# {}", "x".repeat(FILE_LEN_MAX as usize)), "longer than"),
            (format!("{head}more = 1\n"), "unknown field"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Observed::load(&host, "host").unwrap_err().to_string();
            assert!(error.contains("thruway estimate --forget"), "{error}");
            assert!(error.contains(why) || why == "parse", "{why}: {error}");
        }
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        let error = Observed::load(&host, "host").unwrap_err().to_string();
        assert!(error.contains("not a plain file"), "{error}");
        assert!(forget(&host).unwrap());
    }
}
