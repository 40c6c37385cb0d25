//! How large things may be that a file of rules asks for.

/// Bytes of a rule, its continuation lines joined.
pub const RULE_BYTES_MAX: usize = 64 * 1024;
/// Options of a rule.
pub const OPTIONS_MAX: usize = 512;
/// Conditions on buffers of a rule.
pub const PARTS_MAX: usize = 128;
/// Bytes of a content.
pub const CONTENT_BYTES_MAX: usize = 2048;
/// Bytes of a regular expression, as written.
pub const PCRE_BYTES_MAX: usize = 8192;
/// Places, distances, lengths in a rule. Suricata's limit for a content is the same.
pub const OFFSET_MAX: u32 = 65_535;
/// Flow bits of one rule.
pub const FLOW_BITS_A_RULE_MAX: usize = 64;
