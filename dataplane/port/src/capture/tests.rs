use super::*;
use parking_lot::Mutex;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, LegacyPcapReader, PcapBlockOwned, PcapNGReader};
use proptest::prelude::*;
use std::io::{Cursor, Write};

type Owned = (u64, Vec<u8>, u32);

const FORMATS: [FileFormat; 3] = [FileFormat::PcapMicro, FileFormat::PcapNano, FileFormat::Pcapng];

/// A stream that ends up in shared memory, and that refuses bytes beyond `room`.
#[derive(Clone)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Sink {
    fn new(room: usize) -> Sink {
        Sink { bytes: Arc::default(), room }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut sink = self.bytes.lock();
        let fits = bytes.len().min(self.room - sink.len());
        if fits == 0 && !bytes.is_empty() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        sink.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn options(format: FileFormat, snaplen: u32) -> WriterOptions {
    WriterOptions { format, link: LinkType::Raw, snaplen }
}

fn written(format: FileFormat, frames: &[Owned]) -> Vec<u8> {
    let sink = Sink::new(usize::MAX);
    let mut writer = CaptureWriter::from_write("test", sink.clone(), &options(format, 0))
        .expect("the header fits");
    for (time, bytes, wire_len) in frames {
        writer.write(*time, bytes, *wire_len).expect("fits");
    }
    writer.finish().expect("fits");
    sink.bytes()
}

fn open(bytes: &[u8]) -> Result<CaptureReader, CaptureError> {
    CaptureReader::from_read("test", Cursor::new(bytes.to_vec()))
}

fn read(bytes: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    let mut frames = Vec::new();
    let mut reader = match open(bytes) {
        Ok(reader) => reader,
        Err(e) => return (frames, Some(e)),
    };
    loop {
        match reader.next_frame() {
            Ok(Some(f)) => frames.push((f.timestamp_ns, f.bytes.to_vec(), f.wire_len)),
            Ok(None) => return (frames, None),
            Err(e) => {
                assert_eq!(reader.next_frame().expect("an error ends the capture"), None);
                return (frames, Some(e));
            }
        }
    }
}

fn read_whole(bytes: &[u8]) -> Vec<Owned> {
    let (frames, error) = read(bytes);
    assert!(error.is_none(), "{error:?}");
    frames
}

fn samples() -> Vec<Owned> {
    vec![
        (1_700_000_000_123_456_789, b"first".to_vec(), 5),
        (1_700_000_001_000_000_001, vec![], 0),
        (1_700_000_002_999_999_999, vec![7; 61], 1500),
    ]
}

fn in_unit(format: FileFormat, ns: u64) -> u64 {
    if format == FileFormat::PcapMicro { ns / 1000 * 1000 } else { ns }
}

#[test]
fn what_is_written_is_read() {
    for format in FORMATS {
        let bytes = written(format, &samples());
        let reader = open(&bytes).expect("a capture");
        assert_eq!(reader.format(), format);
        assert_eq!(reader.link(), Some(LinkType::Raw));
        let expected: Vec<Owned> =
            samples().into_iter().map(|(t, b, w)| (in_unit(format, t), b, w)).collect();
        assert_eq!(read_whole(&bytes), expected);
    }
}

/// Turns a little-endian pcap into a big-endian one, field by field.
fn to_big_endian(little: &[u8]) -> Vec<u8> {
    let mut big = little.to_vec();
    let swap = |big: &mut Vec<u8>, at: usize, len: usize| big[at..at + len].reverse();
    for (at, len) in [(0, 4), (4, 2), (6, 2), (8, 4), (12, 4), (16, 4), (20, 4)] {
        swap(&mut big, at, len);
    }
    let mut at = 24;
    while at < big.len() {
        let len = u32::from_le_bytes(little[at + 8..at + 12].try_into().expect("four")) as usize;
        (0..4).for_each(|i| swap(&mut big, at + 4 * i, 4));
        at += 16 + len;
    }
    big
}

#[test]
fn both_byte_orders_of_pcap() {
    for format in [FileFormat::PcapMicro, FileFormat::PcapNano] {
        let little = written(format, &samples());
        let (frames, error) = read(&to_big_endian(&little));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(frames, read(&little).0);
    }
}

#[test]
fn truncated_at_every_byte_delivers_what_precedes() {
    for format in FORMATS {
        let bytes = written(format, &samples());
        let (all, _) = read(&bytes);
        for cut in 0..bytes.len() {
            let (frames, error) = read(&bytes[..cut]);
            assert_eq!(frames[..], all[..frames.len()], "{format:?} cut at {cut}");
            match error {
                Some(CaptureError::NotACapture { .. }) => assert!(cut < 4),
                Some(CaptureError::Truncated { record, offset, needed, present, .. }) => {
                    assert_eq!(record, frames.len() as u64);
                    assert_eq!(offset + present, cut as u64);
                    assert!(present < needed);
                }
                // A cut between records looks like the end.
                None => assert!(frames.len() < all.len()),
                other => panic!("{format:?} cut at {cut}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_claim_of_4_gb_is_refused_and_costs_nothing() {
    let mut bytes = written(FileFormat::PcapMicro, &samples()[..1]);
    bytes[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (frames, error) = read(&bytes);
    assert!(frames.is_empty());
    let text = error.expect("an error").to_string();
    assert!(text.contains("byte 24") && text.contains("16 MB"), "{text}");
}

#[test]
fn a_claim_below_the_limit_allocates_only_what_arrives() {
    let mut bytes = written(FileFormat::PcapMicro, &samples()[..1]);
    bytes[24 + 8..24 + 12].copy_from_slice(&(15_u32 << 20).to_le_bytes());
    let mut reader = open(&bytes).expect("a header");
    assert!(matches!(reader.next_frame(), Err(CaptureError::Truncated { .. })));
    assert!(reader.source.capacity() <= 1 << 20, "{}", reader.source.capacity());
}

#[test]
fn what_is_not_a_capture_is_named_with_its_first_bytes() {
    let text = open(b"\x1f\x8b\x08\x00rest").err().expect("not a capture").to_string();
    assert!(text.contains("'test'") && text.contains("1f 8b 08 00"), "{text}");
    let text = open(b"").err().expect("not a capture").to_string();
    assert!(text.contains("no bytes at all"), "{text}");
    let text = CaptureReader::open("/nowhere/x.pcap").err().expect("no file").to_string();
    assert!(text.contains("/nowhere/x.pcap"), "{text}");
}

#[test]
fn an_unwanted_link_type_is_named() {
    let mut bytes = written(FileFormat::PcapMicro, &samples());
    bytes[20..22].copy_from_slice(&147_u16.to_le_bytes());
    let reader = open(&bytes).expect("a capture");
    let link = reader.link().expect("pcap has one");
    let error = reader.check_link(link, &[LinkType::Ethernet, LinkType::Raw]);
    let text = error.expect_err("147 is not wanted").to_string();
    assert!(text.contains("147") && text.contains("ETHERNET (1), RAW (101)"), "{text}");
}

#[test]
fn snapshot_length_cuts_frames_and_keeps_the_wire_length() {
    for format in FORMATS {
        let sink = Sink::new(usize::MAX);
        let mut writer = CaptureWriter::from_write("test", sink.clone(), &options(format, 10))
            .expect("the header fits");
        writer.write(0, &[1; 99], 99).expect("fits");
        drop(writer);
        assert_eq!(read_whole(&sink.bytes()), vec![(0, vec![1; 10], 99)]);
    }
}

/// A block of a pcapng file in either byte order.
fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |w: u32| if big { w.to_be_bytes() } else { w.to_le_bytes() };
    let len = 12 + body.len() as u32;
    [&word(kind)[..], &word(len), body, &word(len)].concat()
}

fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| if big { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
}

/// A section with interfaces of two resolutions, a simple packet and an unknown block.
fn section(big: bool) -> Vec<u8> {
    let half = |h: u16| if big { h.to_be_bytes() } else { h.to_le_bytes() };
    let version = [half(1), half(0)].concat();
    let header = [words(big, &[0x1A2B_3C4D]), version, vec![0xFF; 8]].concat();
    // Raw, snapshot length 4; if_tsresol = 2^-10.
    let first = [&half(101)[..], &[0; 2], &words(big, &[4]), &half(9), &half(1), &[0x8A, 0, 0, 0]];
    // Ethernet, no limit; if_tsoffset = 100 s; microseconds by default.
    let offset = if big { 100_u64.to_be_bytes() } else { 100_u64.to_le_bytes() };
    let second = [&half(1)[..], &[0; 2], &words(big, &[0]), &half(14), &half(8), &offset];
    let enhanced = [words(big, &[1, 0, 2_000_000, 3, 60]), b"abc\0".to_vec()].concat();
    let early = [words(big, &[0, 0, 1536, 2, 2]), b"xy\0\0".to_vec()].concat();
    let simple = [words(big, &[9]), b"wxyz".to_vec()].concat();
    [
        block(big, pcapng::SECTION, &header),
        block(big, 1, &first.concat()),
        block(big, 1, &second.concat()),
        block(big, 6, &enhanced),
        block(big, 0x0BAD, &[0; 400]),
        block(big, 6, &early),
        block(big, 3, &simple),
    ]
    .concat()
}

#[test]
fn sections_of_both_byte_orders_with_their_own_interfaces() {
    let file = [section(false), section(true)].concat();
    let mut reader = open(&file).expect("a capture");
    for _ in 0..2 {
        let frame = reader.next_frame().expect("whole").expect("the enhanced packet");
        assert_eq!((frame.bytes, frame.wire_len, frame.interface), (&b"abc"[..], 60, 1));
        assert_eq!((frame.link, frame.timestamp_ns), (LinkType::Ethernet, 102_000_000_000));
        let frame = reader.next_frame().expect("whole").expect("the packet in units of 2^-10 s");
        assert_eq!((frame.bytes, frame.timestamp_ns), (&b"xy"[..], 1_500_000_000));
        let frame = reader.next_frame().expect("whole").expect("the simple packet");
        assert_eq!((frame.bytes, frame.wire_len), (&b"wxyz"[..], 9));
        assert_eq!((frame.link, frame.timestamp_ns), (LinkType::Raw, 0));
    }
    assert_eq!(reader.next_frame().expect("whole"), None);
}

#[test]
fn a_packet_of_an_undescribed_interface_is_damage() {
    let mut file = section(false);
    file.extend(block(false, 6, &words(false, &[2, 0, 0, 0, 0])));
    let (frames, error) = read(&file);
    assert_eq!(frames.len(), 3);
    assert!(error.expect("damage").to_string().contains("not described"));
}

#[test]
fn a_full_output_reports_whole_records() {
    for format in FORMATS {
        let whole = written(format, &samples());
        let header_len = written(format, &[]).len();
        for room in 0..whole.len() {
            let sink = Sink::new(room);
            let writer = CaptureWriter::from_write("disk", sink.clone(), &options(format, 0));
            let Ok(mut writer) = writer else {
                assert!(room < header_len);
                continue;
            };
            for (time, bytes, wire_len) in samples() {
                writer.write(time, &bytes, wire_len).expect("buffered");
            }
            let error = writer.flush().expect_err("does not fit");
            let CaptureError::Write { bytes, records, ref path, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(&**path, "disk");
            // Cut where the writer says, the file is whole and has the records it says.
            let (frames, damage) = read(&sink.bytes()[..bytes as usize]);
            assert!(damage.is_none(), "{format:?} room {room}: {damage:?}");
            assert_eq!(frames.len() as u64, records);
            let again = writer.write(0, b"more", 4).expect_err("stays failed");
            assert_eq!(again.to_string(), error.to_string());
        }
    }
}

#[test]
fn a_damaged_capture_is_loaded_up_to_the_damage() {
    let bytes = written(FileFormat::PcapNano, &samples());
    let mut reader = open(&bytes[..bytes.len() - 1]).expect("a capture");
    let trace = Trace::read(&mut reader, usize::MAX).expect("two frames are whole");
    assert_eq!((trace.len(), trace.byte_count()), (2, 5));
    assert!(matches!(trace.damage(), Some(CaptureError::Truncated { record: 2, .. })));
    assert_eq!(trace.get(0).expect("first").bytes, b"first");
    let mut reader = open(&bytes).expect("a capture");
    let trace = Trace::read(&mut reader, 1).expect("whole");
    assert_eq!((trace.len(), trace.damage().is_none()), (1, true));
}

/// The frames as another reader sees them.
fn oracle(bytes: &[u8], format: FileFormat) -> Vec<Vec<u8>> {
    let cursor = Cursor::new(bytes.to_vec());
    let mut reader: Box<dyn PcapReaderIterator> = match format {
        FileFormat::Pcapng => Box::new(PcapNGReader::new(1 << 20, cursor).expect("pcapng")),
        _ => Box::new(LegacyPcapReader::new(1 << 20, cursor).expect("pcap")),
    };
    let mut frames = Vec::new();
    while let Ok((consumed, block)) = reader.next() {
        match block {
            PcapBlockOwned::Legacy(packet) => frames.push(packet.data.to_vec()),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                frames.push(packet.data[..packet.caplen as usize].to_vec());
            }
            _ => {}
        }
        reader.consume(consumed);
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn others_read_what_is_written(
        frames in prop::collection::vec(
            (0..4_000_000_000_000_000_000_u64, prop::collection::vec(any::<u8>(), 0..200)), 0..20),
        format in prop::sample::select(&FORMATS[..]),
    ) {
        let frames: Vec<Owned> =
            frames.into_iter().map(|(t, b)| (t, b.clone(), b.len() as u32)).collect();
        let bytes = written(format, &frames);
        let theirs = oracle(&bytes, format);
        prop_assert_eq!(&theirs, &frames.iter().map(|f| f.1.clone()).collect::<Vec<_>>());
        let expected: Vec<Owned> =
            frames.into_iter().map(|(t, b, w)| (in_unit(format, t), b, w)).collect();
        prop_assert_eq!(read(&bytes).0, expected);
    }

    #[test]
    fn damage_anywhere_never_panics_and_keeps_what_precedes(
        format in prop::sample::select(&FORMATS[..]),
        at in any::<prop::sample::Index>(),
        value in any::<[u8; 4]>(),
    ) {
        let whole = if format == FileFormat::Pcapng {
            [section(false), section(true)].concat()
        } else {
            written(format, &samples())
        };
        let at = at.index(whole.len() - 4);
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&value);
        let before = read(&whole[..at]).0;
        let (frames, _) = read(&bytes);
        prop_assert!(frames.starts_with(&before));
    }

    #[test]
    fn random_bytes_never_panic(
        magic in prop::sample::select(&[
            0xA1B2_C3D4_u32, 0xD4C3_B2A1, 0xA1B2_3C4D, 0x4D3C_B2A1, 0x0A0D_0D0A][..]),
        mut bytes in prop::collection::vec(any::<u8>(), 4..400),
    ) {
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        read(&bytes);
    }
}

/// The options of the packets of a pcapng file, as another parser reads them: code and value.
fn options_of(file: &[u8]) -> Vec<Vec<(u16, Vec<u8>)>> {
    let mut reader = PcapNGReader::new(1 << 20, Cursor::new(file)).expect("a pcapng file");
    let mut found = Vec::new();
    while let Ok((offset, block)) = reader.next() {
        if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block {
            let options = packet.options.iter();
            let value = |len: u16, value: &[u8]| value[..usize::from(len)].to_vec();
            found.push(options.map(|o| (o.code.0, value(o.len, &o.value))).collect());
        }
        reader.consume(offset);
    }
    found
}

#[test]
fn comments_are_read_by_others_and_left_out_of_pcap() {
    let comments =
        ["", "a", "abc", "abcd", "3 rt :: R [0] -> [2], \u{e9}\"\n", &"x".repeat(70_000)];
    let frames: Vec<Owned> = (0..comments.len()).map(|n| (7, vec![n as u8; 14 + n], 99)).collect();
    for format in FORMATS {
        let sink = Sink::new(usize::MAX);
        let options = WriterOptions { format, ..WriterOptions::default() };
        let mut writer = CaptureWriter::from_write("test", sink.clone(), &options).unwrap();
        for ((_, bytes, wire_len), comment) in frames.iter().zip(comments) {
            writer.write_commented(7_000, bytes, *wire_len, comment).unwrap();
        }
        writer.finish().unwrap();
        let mut reader = CaptureReader::from_read("test", Cursor::new(sink.bytes())).unwrap();
        for (_, bytes, wire_len) in &frames {
            let frame = reader.next_frame().unwrap().expect("a frame");
            assert_eq!((frame.bytes, frame.wire_len), (&bytes[..], *wire_len));
        }
        assert!(reader.next_frame().unwrap().is_none());
        if format == FileFormat::Pcapng {
            let comment = |text: &str| text.as_bytes()[..text.len().min(65_535)].to_vec();
            let expected = comments.map(|text| match text {
                "" => vec![],
                text => vec![(1, comment(text)), (0, vec![])],
            });
            assert_eq!(options_of(&sink.bytes()), expected);
        }
    }
}
