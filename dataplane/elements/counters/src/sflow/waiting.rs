//! Samples that wait to be sent, in memory that is there from the start.

use super::datagram::Sample;

/// See the module.
pub(super) struct Waiting {
    samples: Vec<(Sample, u16)>,
    /// `header_len` bytes for each sample, of which it uses as many as it has.
    headers: Vec<u8>,
    samples_max: usize,
    header_len: usize,
}

impl Waiting {
    /// Room for so many samples, each with so many bytes of its packet (at most 65,535).
    pub(super) fn new(samples_max: usize, header_len: usize) -> Waiting {
        Waiting {
            samples: Vec::with_capacity(samples_max),
            headers: Vec::with_capacity(samples_max * header_len),
            samples_max,
            header_len,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Adds a sample of these bytes. False when there is no room for it.
    pub(super) fn push(&mut self, sample: Sample, bytes: &[u8]) -> bool {
        if self.samples.len() == self.samples_max {
            return false;
        }
        let kept = &bytes[..bytes.len().min(self.header_len)];
        self.samples.push((sample, kept.len() as u16));
        self.headers.extend_from_slice(kept);
        self.headers.resize(self.samples.len() * self.header_len, 0);
        true
    }

    /// Takes out all, in their order.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&Sample, &[u8])) {
        let headers = self.headers.chunks_exact(self.header_len);
        for ((sample, len), header) in self.samples.iter().zip(headers) {
            take(sample, &header[..usize::from(*len)]);
        }
        self.samples.clear();
        self.headers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sflow::datagram::HeaderProtocol;

    #[test]
    fn samples_come_in_their_order_as_many_as_there_is_room_for() {
        let mut waiting = Waiting::new(2, 4);
        let sample = |sequence| Sample {
            sequence,
            pool: 10,
            drops: 0,
            protocol: HeaderProtocol::Ethernet,
            len: 6,
        };
        for _ in 0..2 {
            assert!(waiting.is_empty());
            assert!(waiting.push(sample(1), b"abcdef"));
            assert!(waiting.push(sample(2), b"gh"));
            assert!(!waiting.push(sample(3), b"ij"), "full");
            let mut taken = Vec::new();
            waiting.drain(|sample, header| taken.push((sample.sequence, header.to_vec())));
            assert_eq!(taken, [(1, b"abcd".to_vec()), (2, b"gh".to_vec())]);
        }
    }
}
