//! What FromDevice's handlers say of its source.

use thruway_element::HandlerError;
use thruway_port::capture::LinkType;

use super::{FromDevice, Source};

impl FromDevice {
    /// What packets begin with.
    pub(super) fn link(&mut self) -> LinkType {
        let reported = match &mut self.source {
            Source::Live(live) if !live.interface().is_ethernet => Some(LinkType::Raw),
            Source::Capture(capture) => capture.open().ok().and_then(|reader| reader.link()),
            _ => None,
        };
        self.shape.encap.or(reported).unwrap_or(LinkType::Ethernet)
    }

    pub(super) fn reset_counts(&mut self) {
        (self.count, self.bytes) = (0, 0);
    }

    pub(super) fn read_kernel_drops(&mut self) -> Result<String, HandlerError> {
        Ok(match &mut self.source {
            Source::Live(live) => {
                let drops = live.drops();
                (drops.ring_full + drops.too_long).to_string()
            }
            _ => "0".to_owned(),
        })
    }

    pub(super) fn read_preferred_drops(&mut self) -> Result<String, HandlerError> {
        Ok(match &mut self.source {
            Source::Live(live) => live.drops().preferred.to_string(),
            _ => "0".to_owned(),
        })
    }

    pub(super) fn read_method(&mut self) -> Result<String, HandlerError> {
        Ok(match &self.source {
            Source::Live(live) => live.mode().to_owned(),
            _ => "-".to_owned(),
        })
    }

    pub(super) fn read_filesize(&mut self) -> Result<String, HandlerError> {
        Ok(match &self.source {
            Source::Capture(capture) => capture.size(),
            _ => "-".to_owned(),
        })
    }

    pub(super) fn read_filepos(&mut self) -> Result<String, HandlerError> {
        Ok(match &self.source {
            Source::Capture(capture) => capture.position().to_string(),
            _ => "-".to_owned(),
        })
    }
}
