//! Inputs, taken apart.

/// An input in two parts: what stands before the first byte 0xff, which no text has, and the rest.
pub(crate) fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0xff).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// Bytes as text: what is none becomes U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
