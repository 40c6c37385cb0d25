//! Requests' preferences, changed in transit so that functions see more of the responses.

use super::edit::{Change, DIGESTS, EditError, rewrite};
use super::head::View;
use super::unpack::Coding;

/// Changes of all requests' heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asks {
    /// Plain content: no content encoding, no transfer coding besides chunked.
    pub identity: bool,
    /// No content coding but those that we decompress, no transfer coding besides chunked.
    pub known: bool,
    /// The whole of it: no ranges.
    pub whole: bool,
    /// HTTP/1.1 only: no other protocol is offered.
    pub stay: bool,
    /// HTTP/1.0, and the connection ends behind the answer.
    pub old: bool,
}

impl Asks {
    /// Whether anything is changed.
    pub fn any(self) -> bool {
        self.identity || self.known || self.whole || self.stay || self.old
    }

    /// Appends a head to `out`. With `closes` the connection must end after the answer; with
    /// `unpacks` the body is decompressed, which invalidates fields about the compressed one.
    ///
    /// A request without Accept-Encoding permits any coding (RFC 9110 section 12.5.3), so one is
    /// added.
    pub fn rewrite(
        self,
        view: View<'_>,
        (closes, unpacks): (bool, bool),
        out: &mut Vec<u8>,
    ) -> Result<(), EditError> {
        let all = [
            (self.identity, Change::Set(b"Accept-Encoding", b"identity")),
            (self.known && lists_unknown(view), Change::Set(b"Accept-Encoding", Coding::KNOWN)),
            (self.identity || self.known, Change::Remove(b"TE")),
            (self.whole, Change::Remove(b"Range")),
            (self.whole, Change::Remove(b"If-Range")),
            (self.stay, Change::Remove(b"Upgrade")),
            (closes || self.old, Change::Set(b"Connection", b"close")),
            (closes || self.old, Change::Remove(b"Keep-Alive")),
            (unpacks, Change::Remove(b"Content-Encoding")),
            (unpacks, Change::Remove(DIGESTS[0])),
            (unpacks, Change::Remove(DIGESTS[1])),
            (unpacks, Change::Remove(DIGESTS[2])),
            (unpacks, Change::Remove(DIGESTS[3])),
        ];
        // Removing a name that no header has changes nothing.
        let mut changes = [Change::Remove(b"-"); 13];
        for (change, (is_wanted, wanted)) in changes.iter_mut().zip(all) {
            if is_wanted {
                *change = wanted;
            }
        }
        let start = out.len();
        rewrite(view, &changes, out)?;
        if self.old {
            make_old(&mut out[start..start + view.first_line().len()]);
        }
        Ok(())
    }
}

/// Makes a request's first line one of HTTP/1.0.
fn make_old(line: &mut [u8]) {
    const NEW: &[u8] = b"HTTP/1.1";
    let at = line.windows(NEW.len()).rposition(|version| version == NEW);
    if let Some(minor) = at.and_then(|at| line.get_mut(at + NEW.len() - 1)) {
        *minor = b'0';
    }
}

/// Whether a client takes codings that are not unpacked.
fn lists_unknown(view: View<'_>) -> bool {
    let mut members = view.values(b"accept-encoding").flat_map(|v| v.split(|byte| *byte == b','));
    members.any(|member| !Coding::is_known(member))
}
