//! What requests ask servers for, changed on their way so that functions see more of the answers.

use super::edit::{BadEdit, Change, DIGESTS, rewrite};
use super::head::View;
use super::unpack::Coding;

/// Changes of all requests' heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asks {
    /// Plain content: no content encoding, no transfer coding besides chunked.
    pub identity: bool,
    /// No content coding but those that are unpacked, no transfer coding besides chunked.
    pub known: bool,
    /// The whole of it: no ranges.
    pub whole: bool,
    /// HTTP/1.1 only: no other protocol is offered.
    pub stay: bool,
}

impl Asks {
    /// Whether anything is changed.
    pub fn any(self) -> bool {
        self.identity || self.known || self.whole || self.stay
    }

    /// Appends a head to `out`. With `closes` the connection is to end after the answer; with
    /// `unpacks` the body is unpacked, so that what was said of the packed one is not true.
    ///
    /// A request without Accept-Encoding takes any coding (RFC 9110 section 12.5.3), so there is
    /// one then.
    pub fn rewrite(
        self,
        view: View<'_>,
        (closes, unpacks): (bool, bool),
        out: &mut Vec<u8>,
    ) -> Result<(), BadEdit> {
        let all = [
            (self.identity, Change::Set(b"Accept-Encoding", b"identity")),
            (self.known && lists_unknown(view), Change::Set(b"Accept-Encoding", Coding::KNOWN)),
            (self.identity || self.known, Change::Remove(b"TE")),
            (self.whole, Change::Remove(b"Range")),
            (self.whole, Change::Remove(b"If-Range")),
            (self.stay, Change::Remove(b"Upgrade")),
            (closes, Change::Set(b"Connection", b"close")),
            (closes, Change::Remove(b"Keep-Alive")),
            (unpacks, Change::Remove(b"Content-Encoding")),
            (unpacks, Change::Remove(DIGESTS[0])),
            (unpacks, Change::Remove(DIGESTS[1])),
            (unpacks, Change::Remove(DIGESTS[2])),
            (unpacks, Change::Remove(DIGESTS[3])),
        ];
        // Removing what a name that is no header's has changes nothing.
        let mut changes = [Change::Remove(b"-"); 13];
        for (change, (is_wanted, wanted)) in changes.iter_mut().zip(all) {
            if is_wanted {
                *change = wanted;
            }
        }
        rewrite(view, &changes, out)
    }
}

/// Whether a client takes codings that are not unpacked.
fn lists_unknown(view: View<'_>) -> bool {
    let mut members = view.values(b"accept-encoding").flat_map(|v| v.split(|byte| *byte == b','));
    members.any(|member| !Coding::is_known(member))
}
