//! Fast patterns, by the buffer that they are looked for in.

use crate::patterns::{Pattern, Patterns};
use crate::rules::buffer::Buffer;
use crate::rules::error::Reason;
use crate::rules::fast::FastPattern;

/// The patterns that are looked for in one buffer.
#[derive(Debug)]
pub(super) struct Area {
    pub patterns: Patterns,
    /// Which fast pattern each of them is.
    pub numbers: Vec<u32>,
}

/// Areas by buffer. What is looked for in the body of either side is in both of them.
#[derive(Debug, Default)]
pub(super) struct Areas(Vec<Option<Area>>);

impl Areas {
    pub(super) fn new(fast: &[FastPattern]) -> Result<Areas, Reason> {
        let area = |buffer: &Buffer| {
            let mut area = (Vec::new(), Vec::new());
            for (number, pattern) in (0u32..).zip(fast) {
                let is_either = pattern.buffer == Buffer::FileData && buffer.is_body();
                if pattern.buffer == *buffer || is_either {
                    let FastPattern { bytes, nocase, .. } = pattern;
                    area.0.push(Pattern { bytes: bytes.clone(), nocase: *nocase });
                    area.1.push(number);
                }
            }
            if area.0.is_empty() || *buffer == Buffer::FileData {
                return Ok(None);
            }
            let patterns = Patterns::new(&area.0)
                .map_err(|error| Reason::TooLarge(format!("fast patterns: {error}")))?;
            Ok(Some(Area { patterns, numbers: area.1 }))
        };
        Buffer::ALL.iter().map(area).collect::<Result<_, _>>().map(Areas)
    }

    pub(super) fn get(&self, buffer: Buffer) -> Option<&Area> {
        self.0.get(buffer.index())?.as_ref()
    }
}
