//! The extensions and trailers beside the chunks of bodies. They are kept until their message ends,
//! as functions read the body without a break; then functions see them.

use super::fault::Fault;

/// Bytes of memory for the extensions and trailers of all messages, in all threads.
const TOTAL: usize = 8 << 20;

/// Of messages, by number: lines, one for the extensions of each chunk, and the trailer fields.
pub struct Asides {
    all: Vec<Vec<u8>>,
    free: Vec<u32>,
    memory: usize,
    total: usize,
}

impl Default for Asides {
    fn default() -> Asides {
        Asides { all: Vec::new(), free: Vec::new(), memory: 0, total: TOTAL }
    }
}

impl Asides {
    /// As one of so many threads: it has its part of the memory.
    pub fn share(&mut self, threads: usize) {
        self.total /= threads.max(1);
    }

    /// Adds bytes of the message with this number + 1, which is 0 before there is anything; at most
    /// `most` bytes per message.
    ///
    /// # Errors
    /// [`Fault::ChunkExtensionTooLong`], [`Fault::UnpackMemory`].
    pub fn add(&mut self, number: &mut u32, bytes: &[u8], most: usize) -> Result<(), Fault> {
        if *number == 0 {
            *number = 1 + self.free.pop().unwrap_or_else(|| {
                self.all.push(Vec::new());
                self.all.len() as u32 - 1
            });
        }
        let kept = self.all.get_mut(*number as usize - 1).ok_or(Fault::UnpackMemory)?;
        if kept.len() + bytes.len() > most {
            return Err(Fault::ChunkExtensionTooLong);
        }
        let before = kept.capacity();
        // The growth is known only afterwards: at most twice the bytes.
        if self.memory + 2 * bytes.len() > self.total {
            return Err(Fault::UnpackMemory);
        }
        kept.extend_from_slice(bytes);
        self.memory += kept.capacity() - before;
        Ok(())
    }

    /// Ends the current line, if the last bytes of the message did not.
    ///
    /// # Errors
    /// As [`Asides::add`].
    pub fn end_line(&mut self, number: &mut u32, most: usize) -> Result<(), Fault> {
        let kept = number.checked_sub(1).and_then(|at| self.all.get(at as usize));
        match kept {
            Some(kept) if !kept.ends_with(b"\n") => self.add(number, b"\r\n", most),
            _ => Ok(()),
        }
    }

    /// Appends all of a message to `out`, and keeps nothing more of it; gives how many bytes.
    pub fn take(&mut self, number: &mut u32, out: &mut Vec<u8>) -> usize {
        let Some(at) = std::mem::take(number).checked_sub(1) else { return 0 };
        let Some(kept) = self.all.get_mut(at as usize).map(std::mem::take) else { return 0 };
        self.memory -= kept.capacity();
        self.free.push(at);
        out.extend_from_slice(&kept);
        kept.len()
    }

    /// Keeps nothing more of a message.
    pub fn close(&mut self, number: &mut u32) {
        self.take(number, &mut Vec::new());
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_messages_are_kept_apart_and_bounded() {
        let (mut asides, mut out) = (Asides::default(), Vec::new());
        let (mut one, mut other, mut none) = (0, 0, 0);
        for part in [&b"a="[..], b"b"] {
            asides.add(&mut one, part, 12).unwrap();
        }
        asides.add(&mut other, b"x\r\n", 12).unwrap();
        for number in [&mut one, &mut other, &mut none] {
            asides.end_line(number, 12).unwrap();
        }
        asides.add(&mut one, b"1234567", 12).unwrap();
        assert_eq!(asides.add(&mut one, b"8", 12), Err(Fault::ChunkExtensionTooLong));
        assert!(asides.memory() >= 15);
        assert_eq!(asides.take(&mut one, &mut out), 12);
        assert_eq!((asides.take(&mut other, &mut out), asides.take(&mut none, &mut out)), (3, 0));
        assert_eq!((&out[..], asides.memory()), (&b"a=b\r\n1234567x\r\n"[..], 0));
        asides.share(1 << 20);
        assert_eq!(asides.add(&mut one, b"12345", 12), Err(Fault::UnpackMemory));
        assert_eq!(asides.take(&mut one, &mut out), 0);
    }
}
