//! Times as text: RFC 3339 in UTC, with milliseconds.

use std::time::SystemTime;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// A time as text: `2026-05-04T03:02:01.000Z`.
pub fn text(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// For serde's `with`.
pub(crate) fn serialize<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

/// For serde's `with`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(D::Error::custom)
}

/// For serde's `with`, of a time that may be missing.
pub(crate) mod optional {
    use serde::Deserialize as _;
    use serde::de::Error as _;

    use super::{Deserializer, Serializer, SystemTime, text};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_some(&text(*time)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| humantime::parse_rfc3339(&text).map_err(D::Error::custom)).transpose()
    }
}
