//! Which bytes count where two segments bring different ones for the same place.
//!
//! Systems decide it differently, and by where the segments begin and end. The rules are those that
//! J. Novak and S. Sturges found by sending one set of segments to many systems (Target-Based TCP
//! Stream Reassembly, 2007), as Snort and Suricata have them. Where these two differ (HP-UX 10 and
//! IRIX, segments with the same beginning), it is as in Snort.
//!
//! Only waiting bytes are undecided: the receiver gets the bytes that a function has seen.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;

use crate::tcp::Seq;

/// The operating system, or rule, that resolves overlaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// Bytes stay as they came first.
    #[default]
    First,
    /// Later bytes replace waiting ones.
    Last,
    /// FreeBSD, NetBSD, OpenBSD, AIX.
    Bsd,
    /// Linux since 2.4.
    Linux,
    /// Linux before 2.4.
    OldLinux,
    /// Solaris since 9.
    Solaris,
    /// HP-UX 10.
    Hpux10,
    /// HP-UX since 11.
    Hpux11,
    /// IRIX.
    Irix,
    /// macOS.
    Macos,
    /// Windows before 2003.
    Windows,
    /// Windows Server 2003.
    Windows2003,
    /// Windows since Vista.
    Vista,
}

impl Overlap {
    /// All of them, with the names that configurations use.
    pub const ALL: [(&'static str, Overlap); 13] = [
        ("first", Overlap::First),
        ("last", Overlap::Last),
        ("bsd", Overlap::Bsd),
        ("linux", Overlap::Linux),
        ("old-linux", Overlap::OldLinux),
        ("solaris", Overlap::Solaris),
        ("hpux10", Overlap::Hpux10),
        ("hpux11", Overlap::Hpux11),
        ("irix", Overlap::Irix),
        ("macos", Overlap::Macos),
        ("windows", Overlap::Windows),
        ("windows2003", Overlap::Windows2003),
        ("vista", Overlap::Vista),
    ];

    /// Whether the bytes of the new segment replace those of a waiting one, where both have some.
    #[inline]
    #[must_use]
    pub fn is_new_kept(self, old: &Range<Seq>, new: &Range<Seq>) -> bool {
        let begins_before = new.start.before(old.start);
        let begins_same = new.start == old.start;
        let ends_after = new.end.after(old.end);
        let ends_same = new.end == old.end;
        match self {
            Overlap::First | Overlap::Vista => false,
            Overlap::Last => true,
            Overlap::Bsd | Overlap::Macos | Overlap::Windows | Overlap::Windows2003 => {
                begins_before
            }
            Overlap::Linux | Overlap::Hpux10 | Overlap::Irix => {
                begins_before || begins_same && ends_after
            }
            Overlap::OldLinux => begins_before || begins_same && (ends_after || ends_same),
            Overlap::Solaris | Overlap::Hpux11 => {
                ends_after || ends_same && (begins_before || begins_same)
            }
        }
    }
}

/// A name that is none of [`Overlap::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no such policy: first, last, bsd, linux, old-linux, solaris, hpux10, hpux11, irix, macos, \
     windows, windows2003, vista"
)]
pub struct UnknownOverlap;

impl FromStr for Overlap {
    type Err = UnknownOverlap;

    fn from_str(name: &str) -> Result<Overlap, UnknownOverlap> {
        let found = Overlap::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, overlap)| *overlap).ok_or(UnknownOverlap)
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Overlap::ALL.iter().find(|(_, overlap)| overlap == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, overlap) in Overlap::ALL {
            assert_eq!((overlap.to_string().as_str(), name.parse()), (name, Ok(overlap)));
            assert!(UnknownOverlap.to_string().contains(name));
        }
        assert_eq!("BSD".parse(), Ok(Overlap::Bsd));
        assert_eq!("plan9".parse::<Overlap>(), Err(UnknownOverlap));
    }
}
