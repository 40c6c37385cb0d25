//! What an operator declares of a function that runs only while it is needed.
//!
//! An operator declares [`OnDemandSpec`] for a function: a handler of the chain that says whether
//! it is needed. While it is not, the element that runs the function is written as a piece of
//! cable; a hot swap brings the function, and another one takes it away again (ADR 76).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How long a function must have been needless, where not said otherwise.
const CALM: Duration = Duration::from_secs(5);
/// Bounds of that time.
const CALM_MIN: Duration = Duration::from_millis(100);
const CALM_MAX: Duration = Duration::from_secs(24 * 3600);

/// When a function runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OnDemandSpec {
    /// A handler of the chain whose value is a number: the function is needed while that is more
    /// than 0. `detector.flooded`.
    pub when: String,
    /// How long it must not have been needed before it is taken away [default: `5s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<String>,
}

impl OnDemandSpec {
    /// How long it must not have been needed before it is taken away.
    ///
    /// # Errors
    /// It is no such time: a sentence.
    pub fn calm(&self) -> Result<Duration, String> {
        let Some(text) = &self.calm else { return Ok(CALM) };
        match humantime::parse_duration(text) {
            Ok(calm) if (CALM_MIN..=CALM_MAX).contains(&calm) => Ok(calm),
            Ok(_) => Err(format!("'{text}': give 100ms to 24h")),
            Err(error) => Err(format!("'{}': {error}", text.escape_debug())),
        }
    }

    /// Whether `when` has the form of a handler.
    pub(crate) fn is_handler(&self) -> bool {
        let good = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
        let parts = self.when.rsplit_once('.');
        self.when.bytes().all(good)
            && parts.is_some_and(|(element, name)| !element.is_empty() && !name.is_empty())
    }
}
