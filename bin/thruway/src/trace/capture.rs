//! Paths of packets as a capture: a frame per hop, with the hop's events as its comment.
//!
//! All frames are of one link type, for tcpdump reads no capture of several. So a packet without an
//! Ethernet header gets one here, of zeros, and its comment says so.

use thruway_client::trace::Shot;
use thruway_port::capture::{CaptureWriter, FileFormat, LinkType, WriterOptions};

use super::journey::PacketPath;
use super::text::{At, Clock, line};

/// EtherTypes (IEEE 802 numbers); the last is for local experiments.
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UNKNOWN: [u8; 2] = [0x88, 0xb5];

/// Writes a file; `-` is standard output.
pub fn write(path: &str, paths: &[PacketPath], clock: &Clock) -> anyhow::Result<()> {
    let options =
        WriterOptions { format: FileFormat::Pcapng, link: LinkType::Ethernet, snaplen: 0 };
    let mut writer = CaptureWriter::create(path, &options)?;
    let mut frames = Vec::new();
    for path in paths {
        let mut shot: Option<&Shot> = None;
        for at in At::all(paths, path) {
            let hop = at.hop;
            shot = hop.after.as_ref().or(hop.before.as_ref()).or(shot);
            let Some(shot) = shot else { continue };
            let text = line(&at, clock);
            let (head, remark) = header(shot);
            let comment = format!("packet {}: {text}{remark}", path.name);
            let bytes = [&head, &shot.bytes[..]].concat();
            let len = (head.len() + shot.len) as u32;
            frames.push((clock.at(at.begin()), bytes, len, comment));
        }
    }
    frames.sort_by_key(|(time, ..)| *time);
    for (time, bytes, len, comment) in &frames {
        writer.write_commented(*time, bytes, *len, comment)?;
    }
    Ok(writer.finish()?)
}

/// The Ethernet header that a packet lacks, and what is to be said of it.
fn header(shot: &Shot) -> (Vec<u8>, &'static str) {
    let layers = shot.layers();
    if layers.is_frame {
        return (Vec::new(), "");
    }
    let (ethertype, remark) = match (layers.network, shot.bytes.first().map(|byte| byte >> 4)) {
        (Some(0), Some(4)) => (IPV4, " (it has no Ethernet header here)"),
        (Some(0), Some(6)) => (IPV6, " (it has no Ethernet header here)"),
        _ => (UNKNOWN, " (its first header is not known; the Ethernet header is made up)"),
    };
    ([&[0; 12], &ethertype[..]].concat(), remark)
}
