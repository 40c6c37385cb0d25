//! Languages of rules for packets: what is compiled says what walking through the rules says.

use thruway_flow::{
    IpProgram, Key, NoNames, PacketView, PatternProgram, evaluate_naive, parse_classifier_rules,
    parse_filter_rules,
};

use crate::input::{halves, text};

/// Outputs of a filter.
const OUTPUTS: u32 = 3;

/// IPClassifier's and IPFilter's: rules, one a line, then packets, each behind its length.
pub fn expressions(bytes: &[u8]) {
    let (rules, packets) = halves(bytes);
    let rules = text(rules);
    let lines: Vec<&str> = rules.lines().collect();
    for parsed in
        [parse_classifier_rules(&lines, &NoNames), parse_filter_rules(&lines, OUTPUTS, &NoNames)]
    {
        let rules = match parsed {
            Ok(rules) => rules,
            Err(errors) => {
                for error in errors {
                    assert!(lines.iter().any(|line| line.get(error.span.clone()).is_some()));
                }
                continue;
            }
        };
        let Ok(program) = IpProgram::compile(&rules) else { continue };
        for packet in lengths(packets) {
            let view = PacketView::from_ip(packet);
            let naive = evaluate_naive(&rules, &view);
            assert_eq!(program.classify(&view), naive, "{lines:?} on {packet:02x?}");
            let mut verdicts = [0];
            program.classify_batch(
                &[Key::from_ip(packet)],
                |_| PacketView::from_ip(packet),
                &mut verdicts,
            );
            assert_eq!(verdicts, [naive], "{lines:?} on {packet:02x?}, as a batch");
        }
    }
}

/// Classifier's.
pub fn patterns(bytes: &[u8]) {
    let (rules, packets) = halves(bytes);
    let rules = text(rules);
    let lines: Vec<&str> = rules.lines().collect();
    let Ok(rules) = PatternProgram::parse(&lines) else { return };
    let Ok(program) = PatternProgram::compile(&rules) else { return };
    for packet in lengths(packets) {
        let naive = evaluate_naive(&rules, &PacketView::from_frame(packet));
        assert_eq!(program.classify(packet), naive, "{lines:?} on {packet:02x?}");
    }
}

/// Pieces, each behind a byte with its length.
fn lengths(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (len, behind) = rest.split_first()?;
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = behind;
        Some(piece)
    })
}
