//! What requests ask servers for, changed on their way so that functions see more of the answers.

use super::edit::{BadEdit, Change, rewrite};
use super::head::View;

/// Changes of all requests' heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asks {
    /// Plain content: no content encoding, no transfer coding besides chunked.
    pub identity: bool,
    /// The whole of it: no ranges.
    pub whole: bool,
    /// HTTP/1.1 only: no other protocol is offered.
    pub stay: bool,
}

impl Asks {
    /// Whether anything is changed.
    pub fn any(self) -> bool {
        self.identity || self.whole || self.stay
    }

    /// Appends a request's head to `out`. With `closes` the connection is to end after the answer.
    ///
    /// A request without Accept-Encoding takes any coding (RFC 9110 section 12.5.3), so there is
    /// one then.
    pub fn rewrite(self, view: View<'_>, closes: bool, out: &mut Vec<u8>) -> Result<(), BadEdit> {
        let all = [
            (self.identity, Change::Set(b"Accept-Encoding", b"identity")),
            (self.identity, Change::Remove(b"TE")),
            (self.whole, Change::Remove(b"Range")),
            (self.whole, Change::Remove(b"If-Range")),
            (self.stay, Change::Remove(b"Upgrade")),
            (closes, Change::Set(b"Connection", b"close")),
            (closes, Change::Remove(b"Keep-Alive")),
        ];
        // Removing what a name that is no header's has changes nothing.
        let mut changes = [Change::Remove(b"-"); 7];
        for (change, (is_wanted, wanted)) in changes.iter_mut().zip(all) {
            if is_wanted {
                *change = wanted;
            }
        }
        rewrite(view, &changes, out)
    }
}
