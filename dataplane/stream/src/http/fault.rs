//! Faults of messages.

/// Declares the faults: whether a lenient policy tolerates it, its name, its meaning.
macro_rules! faults {
    ($($variant:ident = $word:literal, $lenient:literal : $doc:literal),+ $(,)?) => {
        /// Why a message is refused.
        ///
        /// Each is an ambiguity that two receivers may resolve differently: a middlebox must not be
        /// the third (RFC 9112 section 11.2, request smuggling).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Fault { $(#[doc = $doc] $variant),+ }

        impl Fault {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Fault] = &[$(Fault::$variant),+];

            /// Name in counters.
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$variant => $word),+ }
            }

            /// Its meaning.
            pub const fn meaning(self) -> &'static str {
                match self { $(Fault::$variant => $doc),+ }
            }

            /// Whether a lenient policy tolerates it: most receivers agree on one reading.
            pub const fn is_tolerable(self) -> bool {
                match self { $(Fault::$variant => $lenient),+ }
            }
        }
    };
}

faults! {
    // Lines and fields.
    BareLf = "bare-lf", true: "a line ends in LF without CR",
    BareCr = "bare-cr", true: "a CR stands within a line",
    ControlByte = "control-byte", true: "a control byte in a field's value or the reason phrase",
    Nul = "nul", false: "a zero byte in a head",
    ObsFold = "obs-fold", true: "a field goes on in a line that begins with white space",
    LeadingSpace = "leading-space", false: "white space before the first field",
    SpaceBeforeColon = "space-before-colon", true: "white space between a field's name and its colon",
    BadFieldName = "bad-field-name", true: "a field's name is no token",
    NoColon = "no-colon", true: "a line among the fields has no colon",
    HeadTooLong = "head-too-long", false: "a head is longer than the limit",
    TooManyFields = "too-many-fields", false: "a head has more fields than the limit",
    BlankLines = "blank-lines", true: "more than one empty line before a request, or any before a response",
    // First lines.
    BinaryStartLine = "binary-start-line", false: "a control byte in a first line",
    BadStartLine = "bad-start-line", true: "the parts of a first line are not parted by one space",
    BadMethod = "bad-method", false: "a request's method is no token of at most 32 bytes",
    BadTarget = "bad-target", true: "a request's target has bytes that none may have",
    BadVersion = "bad-version", false: "a version other than HTTP/1.0 and HTTP/1.1",
    OddVersion = "odd-version", true: "a version HTTP/1.2 to HTTP/1.9",
    BadStatus = "bad-status", false: "a status that is no number from 100 to 599",
    // Its destination.
    NoHost = "no-host", true: "an HTTP/1.1 request without Host",
    TwoHosts = "two-hosts", true: "more than one Host",
    BadHost = "bad-host", true: "a Host that is neither empty nor host and port",
    HostDiffers = "host-differs", true: "Host is not the host of the request's target",
    // Lengths.
    BadContentLength = "bad-content-length", false: "a Content-Length that is no number below 10^18",
    ContentLengthRepeated = "content-length-repeated", true: "the same Content-Length twice",
    ContentLengthsDiffer = "content-lengths-differ", false: "two Content-Lengths that differ",
    LengthAndEncoding = "length-and-transfer-encoding", true: "both Content-Length and Transfer-Encoding",
    BadTransferEncoding = "bad-transfer-encoding", false: "a Transfer-Encoding that is no list of tokens",
    ChunkedNotLast = "chunked-not-last", true: "a Transfer-Encoding that does not end in chunked",
    ChunkedTwice = "chunked-twice", false: "chunked is not the only last coding",
    TransferCoded = "transfer-coded", true: "a transfer coding besides chunked",
    TransferEncodingIn10 = "transfer-encoding-in-1.0", true: "Transfer-Encoding in an HTTP/1.0 message",
    BodyNotAllowed = "body-not-allowed", true: "a length or encoding in a response that has no body",
    // Chunks.
    BadChunkSize = "bad-chunk-size", false: "a chunk's size is no hexadecimal number below 2^60",
    BadChunkLine = "bad-chunk-line", true: "white space in a chunk's first line, before its extensions or its end",
    ChunkExtensionTooLong = "chunk-extension-too-long", false: "extensions of a chunk, or of a message's chunks together, are longer than the limit",
    BadChunkExtension = "bad-chunk-extension", true: "a control byte in the extensions of a chunk",
    BadChunkEnd = "bad-chunk-end", false: "a chunk's data does not end after its size",
    TrailerField = "trailer-field", true: "a field that no trailer may have (length, encoding, Host)",
    // Order of messages.
    TooManyPending = "too-many-pending", false: "more requests wait for an answer than the limit",
    Unasked = "unasked", true: "a response without a request",
    UnaskedSwitch = "unasked-switch", false: "a change of protocol that was not asked for",
    EarlySwitch = "early-switch", false: "a change of protocol while other requests are pending",
    TooManyParts = "too-many-parts", false: "a packet has more parts of messages than the limit",
    Encoded = "encoded", false: "a body with a coding that is not known, or several, where these do not pass",
    BadCoding = "bad-coding", false: "a body that is not in its content coding",
    Bomb = "bomb", false: "a body unpacks to more than the limits of size, ratio or work",
    UnpackMemory = "unpack-memory", false: "no memory to unpack one more body, or for more chunk extensions and trailers",
    Tunnel = "tunnel", false: "a CONNECT request, where no other protocol may follow",
    HeadCutShort = "head-cut-short", false: "the connection ends within a head",
}

/// A set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults(u64);

const _: () = assert!(Fault::ALL.len() <= u64::BITS as usize);

impl Faults {
    /// None.
    pub const NONE: Faults = Faults(0);

    /// Adds one.
    pub fn add(&mut self, fault: Fault) {
        self.0 |= 1 << fault as u8;
    }

    /// Whether it is among them.
    pub fn has(self, fault: Fault) -> bool {
        self.0 >> (fault as u8) & 1 == 1
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Them, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.iter().copied().filter(move |fault| self.has(*fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_of_one_form() {
        let mut names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Fault::ALL.len());
        let plain = |byte: u8| byte.is_ascii_lowercase() || b"-.0123456789".contains(&byte);
        assert!(names.iter().all(|name| name.bytes().all(plain)));
        for (index, fault) in Fault::ALL.iter().enumerate() {
            assert_eq!(index, *fault as usize);
        }
    }

    #[test]
    fn a_set_holds_what_was_added() {
        let mut faults = Faults::NONE;
        faults.add(Fault::HeadCutShort);
        faults.add(Fault::BareLf);
        let listed: Vec<Fault> = faults.iter().collect();
        assert_eq!(listed, [Fault::BareLf, Fault::HeadCutShort]);
        assert!(!faults.has(Fault::Nul) && !faults.is_empty() && Faults::NONE.is_empty());
    }
}
