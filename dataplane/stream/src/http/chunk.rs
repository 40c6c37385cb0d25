//! The lines between the chunks of a body (RFC 9112 section 7.1), byte after byte.

use super::fault::Fault;
use super::framing::{DirectionState, Phase};
use super::line::{Judge, is_control, is_space};

/// Most digits of a chunk's size: it fits in 60 bits.
const MAX_SIZE_DIGITS: u8 = 15;

impl DirectionState {
    /// Takes the bytes between the data of two chunks, up to where extensions begin or end; returns
    /// their number, and whether they are extensions. Sets the next phase.
    pub(super) fn between_chunks(
        &mut self,
        bytes: &[u8],
        judge: &mut Judge,
        extension_bytes: u16,
    ) -> Result<(usize, bool), Fault> {
        let is_extension = bytes.first().is_some_and(|byte| self.is_in_extension(*byte));
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_in_extension(*byte) != is_extension {
                return Ok((at, is_extension));
            }
            match self.phase() {
                Phase::ChunkSize => self.size_byte(*byte, judge)?,
                Phase::ChunkBlank => self.after_size(*byte, judge)?,
                Phase::ChunkExtension => self.extension_byte(*byte, judge, extension_bytes)?,
                Phase::ChunkLineFeed if *byte == b'\n' => self.line_ends(),
                Phase::ChunkLineFeed => return Err(Fault::BareCr),
                Phase::ChunkEnd => self.end_byte(*byte, judge)?,
                Phase::ChunkEndFeed if *byte == b'\n' => self.begin_chunk(),
                Phase::ChunkEndFeed => return Err(Fault::BadChunkEnd),
                _ => return Ok((at, is_extension)),
            }
        }
        Ok((bytes.len(), is_extension))
    }

    /// Whether the next byte belongs to extensions, of which it is not the end.
    fn is_in_extension(&self, byte: u8) -> bool {
        self.phase() == Phase::ChunkExtension && !matches!(byte, b'\r' | b'\n')
    }

    /// A chunk's first line follows.
    pub(super) fn begin_chunk(&mut self) {
        (self.left, self.count, self.length) = (0, 0, 0);
        self.set_phase(Phase::ChunkSize);
    }

    fn size_byte(&mut self, byte: u8, judge: &mut Judge) -> Result<(), Fault> {
        let Some(digit) = char::from(byte).to_digit(16) else {
            if self.count == 0 {
                return Err(Fault::BadChunkSize);
            }
            return self.after_size(byte, judge);
        };
        if self.count >= MAX_SIZE_DIGITS {
            return Err(Fault::BadChunkSize);
        }
        self.count += 1;
        self.left = self.left << 4 | u64::from(digit);
        Ok(())
    }

    fn after_size(&mut self, byte: u8, judge: &mut Judge) -> Result<(), Fault> {
        match byte {
            b';' => self.set_phase(Phase::ChunkExtension),
            b'\r' => self.set_phase(Phase::ChunkLineFeed),
            b'\n' => {
                judge.fault(Fault::BareLf)?;
                self.line_ends();
            }
            // Recipients must parse white space before extensions only, which none sends.
            b' ' | b'\t' => {
                judge.fault(Fault::BadChunkLine)?;
                self.extension_longer(u16::MAX)?;
                self.set_phase(Phase::ChunkBlank);
            }
            _ => return Err(Fault::BadChunkSize),
        }
        Ok(())
    }

    fn extension_byte(&mut self, byte: u8, judge: &mut Judge, most: u16) -> Result<(), Fault> {
        match byte {
            b'\r' => self.set_phase(Phase::ChunkLineFeed),
            b'\n' => {
                judge.fault(Fault::BareLf)?;
                self.line_ends();
            }
            _ => {
                judge.fault_if(is_control(byte) && !is_space(byte), Fault::BadChunkExtension)?;
                self.extension_longer(most)?;
            }
        }
        Ok(())
    }

    fn extension_longer(&mut self, most: u16) -> Result<(), Fault> {
        if self.length >= most {
            return Err(Fault::ChunkExtensionTooLong);
        }
        self.length += 1;
        Ok(())
    }

    fn line_ends(&mut self) {
        (self.count, self.length) = (0, 0);
        self.set_phase(if self.left == 0 { Phase::Trailer } else { Phase::ChunkData });
    }

    fn end_byte(&mut self, byte: u8, judge: &mut Judge) -> Result<(), Fault> {
        match byte {
            b'\r' => self.set_phase(Phase::ChunkEndFeed),
            b'\n' => {
                judge.fault(Fault::BareLf)?;
                self.begin_chunk();
            }
            _ => return Err(Fault::BadChunkEnd),
        }
        Ok(())
    }
}
