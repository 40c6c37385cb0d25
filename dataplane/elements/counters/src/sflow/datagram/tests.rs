//! Datagrams are read back field by field, as the specification's XDR has them.

use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;

/// Reads numbers and bytes one after the other.
pub(in crate::sflow) struct Xdr<'a>(pub &'a [u8]);

impl<'a> Xdr<'a> {
    pub fn number(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    fn expect(&mut self, numbers: &[u32]) {
        for wanted in numbers {
            assert_eq!(self.number(), *wanted);
        }
    }

    /// Opaque bytes without their padding.
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.next_multiple_of(4));
        self.0 = rest;
        &bytes[..len]
    }
}

/// A sample with its packet's header.
pub(in crate::sflow) type Whole = (Sample, Vec<u8>);

/// The samples of a datagram, and its number.
pub(in crate::sflow) fn read_back(source: &Source, datagram: &[u8]) -> (u32, Vec<Whole>) {
    let mut xdr = Xdr(datagram);
    xdr.expect(&[5]);
    match source.agent {
        IpAddr::V4(address) => {
            xdr.expect(&[1]);
            assert_eq!(xdr.bytes(4), address.octets());
        }
        IpAddr::V6(address) => {
            xdr.expect(&[2]);
            assert_eq!(xdr.bytes(16), address.octets());
        }
    }
    xdr.expect(&[source.sub_agent]);
    let (sequence, _up, count) = (xdr.number(), xdr.number(), xdr.number());
    let samples = (0..count).map(|_| read_sample(source, &mut xdr)).collect();
    assert!(xdr.0.is_empty(), "nothing behind the samples");
    (sequence, samples)
}

fn read_sample(source: &Source, xdr: &mut Xdr<'_>) -> Whole {
    xdr.expect(&[1]);
    let len = xdr.number() as usize;
    let mut own = Xdr(xdr.bytes(len));
    let sequence = own.number();
    own.expect(&[source.interface, source.rate]);
    let (pool, drops) = (own.number(), own.number());
    own.expect(&[source.interface, 0, 1, 1]);
    let record_len = own.number() as usize;
    let mut record = Xdr(own.bytes(record_len));
    let protocols = [HeaderProtocol::Ethernet, HeaderProtocol::Ipv4, HeaderProtocol::Ipv6];
    let number = record.number();
    let protocol = protocols.into_iter().find(|known| *known as u32 == number).unwrap();
    let (frame_len, stripped) = (record.number(), record.number());
    assert_eq!(stripped, if protocol == HeaderProtocol::Ethernet { 4 } else { 0 });
    let header_len = record.number() as usize;
    let header = record.bytes(header_len).to_vec();
    assert!(own.0.is_empty() && record.0.is_empty());
    (Sample { sequence, pool, drops, protocol, len: frame_len - stripped }, header)
}

fn sample() -> impl Strategy<Value = Whole> {
    let protocol = prop_oneof![
        Just(HeaderProtocol::Ethernet),
        Just(HeaderProtocol::Ipv4),
        Just(HeaderProtocol::Ipv6)
    ];
    let header = proptest::collection::vec(any::<u8>(), 0..1_025);
    (any::<[u32; 3]>(), protocol, 0u32..70_000, header).prop_map(
        |([sequence, pool, drops], protocol, len, header)| {
            (Sample { sequence, pool, drops, protocol, len }, header)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read(
        samples in proptest::collection::vec(sample(), 0..40),
        is_ipv6: bool,
    ) {
        let agent = if is_ipv6 { Ipv6Addr::LOCALHOST.into() } else { [192, 0, 2, 1].into() };
        let source = Source { agent, sub_agent: 3, interface: 7, rate: 100 };
        let mut writer = Writer::new(source, 0);
        let mut datagrams = Vec::new();
        let mut send = |bytes: &[u8], count: u32| datagrams.push((bytes.to_vec(), count));
        for (sample, header) in &samples {
            writer.add(sample, header, 5_000_000_000, &mut send);
        }
        writer.finish(&mut send);
        let mut read = Vec::new();
        for (nth, (datagram, count)) in datagrams.iter().enumerate() {
            prop_assert!(datagram.len() <= DATAGRAM_MAX);
            let (sequence, samples) = read_back(&source, datagram);
            prop_assert_eq!((sequence as usize, samples.len()), (nth, *count as usize));
            read.extend(samples);
        }
        prop_assert_eq!(read, samples);
    }
}
