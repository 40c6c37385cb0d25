//! Switches by learnt addresses and by labels: figures 11 and 12 of the performance model's paper.

use std::fmt::Write as _;

use crate::case::Workspace;
use crate::traffic::{drawn, packet, small_network, write_frames};

/// Pairs of addresses, or labels, of which traffic has some.
const COUNTS: [(&str, u8); 2] = [("one", 1), ("ten", 10)];
/// Packets of a trace; they fit a second-level cache.
const PACKETS: usize = 4096;
const SEED: u64 = 20_261_128;
/// The first label of traffic.
const LABEL: u32 = 100;

/// Names and texts; traces go to `workspace`.
pub fn all(workspace: &Workspace) -> anyhow::Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for (name, count) in COUNTS {
        texts.push((format!("switch/{name}"), learning(workspace, name, count)?));
        texts.push((format!("mpls/{name}"), labels(workspace, name, count)?));
    }
    Ok(texts)
}

/// Frames of flows, changed by `change`, which is given their numbers; the trace's path.
fn trace(
    workspace: &Workspace,
    name: &str,
    change: impl Fn(usize, &mut Vec<u8>),
) -> anyhow::Result<String> {
    let path = workspace.dir.join(format!("{name}.pcap")).to_string_lossy().into_owned();
    let flows = small_network(SEED);
    let frames = drawn(&flows, PACKETS, SEED).map(packet).enumerate().map(|(number, frame)| {
        let mut frame = frame.to_vec();
        change(number, &mut frame);
        frame
    });
    write_frames(&path, frames)?;
    Ok(path)
}

/// Stations talk in pairs over a learning switch, from one side to the other and back, so that all
/// of them are known soon.
fn learning(workspace: &Workspace, name: &str, count: u8) -> anyhow::Result<String> {
    let mut text = String::from("s :: EtherSwitch; s[0] -> out :: Discard; s[1] -> out;\n");
    for side in 0..2 {
        let path = trace(workspace, &format!("switch-{name}-{side}"), |number, frame| {
            let pair = (number % usize::from(count)) as u8;
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 1 - side, pair]);
            frame[6..12].copy_from_slice(&[2, 0, 0, 0, side, pair]);
        })?;
        let _ = writeln!(
            text,
            "FromDump({path}) -> source{side} :: ReplayUnqueue(STOP -1, BURST 64) -> [{side}] s;"
        );
    }
    Ok(text)
}

/// A switch gives each packet another label.
fn labels(workspace: &Workspace, name: &str, count: u8) -> anyhow::Result<String> {
    let path = trace(workspace, &format!("mpls-{name}"), |number, frame| {
        let label = LABEL + (number % usize::from(count)) as u32;
        // The label's entry: 20 bits, the bottom of the stack, a time-to-live.
        let entry = label << 12 | 1 << 8 | 64;
        frame[12..14].copy_from_slice(&[0x88, 0x47]);
        frame.splice(14..14, entry.to_be_bytes());
        frame.truncate(64);
    })?;
    let mut text = format!(
        "FromDump({path}) -> source :: ReplayUnqueue(STOP -1, BURST 64)
         -> MPLSSwitch(MAC 02:00:00:00:00:09"
    );
    for label in LABEL..LABEL + u32::from(count) {
        let _ = write!(text, ", {label} swap {} 0 02:00:00:00:00:02", label + 1000);
    }
    Ok(text + ") -> out :: Discard;")
}
