//! Why packets go no further.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(crate) enum Refused {
        Denied = "denied": "a drop or deny rule matched the session's first packet",
        NoMatch = "no-match": "no rule of its side matched the session's first packet",
        NotSyn = "not-syn": "a TCP packet of no known session, and not the SYN that begins one",
        Related = "related": "an ICMP error about a session that was not allowed",
        Ip6 = "ip6": "an IPv6 session that IP6 does not let begin on this side",
        NoSession = "no-session": "a fragment, not IP, malformed: nothing that has a session",
    }
}
