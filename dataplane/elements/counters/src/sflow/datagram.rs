//! Datagrams of sFlow version 5 (sflow.org, "sFlow Version 5", July 2004, section 5), with flow
//! samples of raw packet headers and nothing else. All numbers are big-endian, as in XDR.

use std::net::IpAddr;

/// Largest datagram: with UDP and IPv6 headers it fits the usual MTU of 1,500 bytes.
pub(super) const DATAGRAM_MAX: usize = 1_400;

/// `version` of a datagram.
const VERSION: u32 = 5;
/// `data_format` of a flow sample (enterprise 0), and of a raw packet header in one.
const FLOW_SAMPLE: u32 = 1;
const RAW_HEADER: u32 = 1;
/// `interface` of an output that is not known.
const NO_INTERFACE: u32 = 0;
/// Where the number of samples stands, counted from the end of the agent's address.
const COUNT_OFFSET: usize = 12;
/// Bytes of a sample besides the packet's header: format and length, eight fields, format and
/// length of its record, four fields.
const SAMPLE_LEN: usize = 4 * (2 + 8 + 2 + 4);

/// Protocol of the first header of a packet: `header_protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderProtocol {
    Ethernet = 1,
    Ipv4 = 11,
    Ipv6 = 12,
}

/// The sampling agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) agent: IpAddr,
    pub(super) sub_agent: u32,
    /// SNMP index of the interface, 0 where it is not known: `source_id` and `input`.
    pub(super) interface: u32,
    /// Packets of which one is sampled.
    pub(super) rate: u32,
}

/// A sampled packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Samples taken by this source, this one included.
    pub(super) sequence: u32,
    /// Packets that could have been sampled up to this one: `sample_pool`.
    pub(super) pool: u32,
    /// Samples that were lost before it.
    pub(super) drops: u32,
    pub(super) protocol: HeaderProtocol,
    /// Bytes of the packet.
    pub(super) len: u32,
}

/// Makes datagrams of samples.
pub(super) struct Writer {
    source: Source,
    /// Datagrams sent before.
    sequence: u32,
    /// Samples in this one.
    count: u32,
    began_ns: i64,
    bytes: Vec<u8>,
}

impl Writer {
    /// For a source that has been up since `now`, nanoseconds.
    pub(super) fn new(source: Source, now: i64) -> Writer {
        let bytes = Vec::with_capacity(DATAGRAM_MAX);
        Writer { source, sequence: 0, count: 0, began_ns: now, bytes }
    }

    /// Adds a sample; hands a datagram that is full, and how many samples it has, to `send`.
    pub(super) fn add(
        &mut self,
        sample: &Sample,
        header: &[u8],
        now: i64,
        send: &mut impl FnMut(&[u8], u32),
    ) {
        if self.bytes.len() + SAMPLE_LEN + header.len().next_multiple_of(4) > DATAGRAM_MAX {
            self.finish(send);
        }
        if self.bytes.is_empty() {
            self.begin(now);
        }
        self.put_sample(sample, header);
        self.count += 1;
    }

    /// Hands out the datagram that is being made, if there is one.
    pub(super) fn finish(&mut self, send: &mut impl FnMut(&[u8], u32)) {
        if self.count == 0 {
            return;
        }
        let at = self.address_end() + COUNT_OFFSET;
        self.bytes[at..at + 4].copy_from_slice(&self.count.to_be_bytes());
        send(&self.bytes, self.count);
        self.sequence = self.sequence.wrapping_add(1);
        self.count = 0;
        self.bytes.clear();
    }

    fn address_end(&self) -> usize {
        if self.source.agent.is_ipv6() { 24 } else { 12 }
    }

    /// `sample_datagram_v5` up to its samples.
    fn begin(&mut self, now: i64) {
        self.put([VERSION]);
        match self.source.agent {
            IpAddr::V4(address) => {
                self.put([1]);
                self.bytes.extend(address.octets());
            }
            IpAddr::V6(address) => {
                self.put([2]);
                self.bytes.extend(address.octets());
            }
        }
        let up_ms = (now.saturating_sub(self.began_ns).max(0) / 1_000_000) as u32;
        // The number of samples follows when it is known.
        self.put([self.source.sub_agent, self.sequence, up_ms, 0]);
    }

    /// `flow_sample` with one `sampled_header`.
    fn put_sample(&mut self, sample: &Sample, header: &[u8]) {
        let padded = header.len().next_multiple_of(4);
        let Source { interface, rate, .. } = self.source;
        self.put([FLOW_SAMPLE, (SAMPLE_LEN - 8 + padded) as u32]);
        self.put([sample.sequence, interface, rate, sample.pool, sample.drops]);
        self.put([interface, NO_INTERFACE, 1]);
        self.put([RAW_HEADER, (16 + padded) as u32]);
        // A frame's length has its check sequence, which is not here and counts as stripped.
        let stripped = if sample.protocol == HeaderProtocol::Ethernet { 4 } else { 0 };
        self.put([sample.protocol as u32, sample.len + stripped, stripped, header.len() as u32]);
        self.bytes.extend_from_slice(header);
        self.bytes.resize(self.bytes.len() + padded - header.len(), 0);
    }

    fn put<const N: usize>(&mut self, numbers: [u32; N]) {
        self.bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    }
}

#[cfg(test)]
pub(super) mod tests;
