//! Filters of packet sockets, in classic BPF: one for each class. Each frame satisfies one of them,
//! and only one.

use super::{
    Class, DISCOVERY, ETHERNET_LEN, FLAGS_AT, FRAGMENT, IPV4_LEN, IPV6_LEN, NOT_FORWARDED,
    PROTOCOL_ICMPV6, PROTOCOL_TCP, SYN, SYN_AND_ACK, VLAN_LEN,
};
use crate::error::PortError;
use crate::system;
use libc::{
    BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP,
    BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_MISC, BPF_MSH, BPF_RET, BPF_TAX, BPF_TXA, BPF_W,
    BPF_X, sock_filter,
};
use std::os::fd::AsFd;

/// Has a socket take no frame.
pub(crate) fn refuse_all(socket: &impl AsFd, name: &str) -> Result<(), PortError> {
    attach(socket, name, &mut [instruction(BPF_RET | BPF_K, 0)])
}

/// Has a socket take frames of this class and no others.
pub(crate) fn accept(
    socket: &impl AsFd,
    name: &str,
    class: Class,
    is_ethernet: bool,
) -> Result<(), PortError> {
    attach(socket, name, &mut filter(class, is_ethernet))
}

fn attach(socket: &impl AsFd, name: &str, program: &mut [sock_filter]) -> Result<(), PortError> {
    // Lossless: the programs here have less than a hundred instructions.
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    system::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
        .map_err(|e| PortError::system(name, "setsockopt(SO_ATTACH_FILTER)", e))
}

/// Where a program goes on.
#[derive(Clone, Copy)]
enum To {
    Next,
    /// Behind that many instructions.
    Skip(usize),
    /// The frame is of that class.
    End(Class),
}

/// An instruction. One that does not jump goes on with the next.
#[derive(Clone, Copy)]
struct Step {
    code: u32,
    operand: u32,
    yes: To,
    no: To,
}

const OTHER: To = To::End(Class::Other);
const PREFERRED: To = To::End(Class::Preferred);

fn step(code: u32, operand: u32) -> Step {
    Step { code, operand, yes: To::Next, no: To::Next }
}

fn jump(condition: u32, operand: u32, yes: To, no: To) -> Step {
    Step { code: BPF_JMP | condition, operand, yes, no }
}

fn load(width: u32, at: u32) -> Step {
    step(BPF_LD | width | BPF_ABS, at)
}

/// Ends with frames that are shorter: a load beyond the end would end the program, and each class's
/// would refuse the frame.
fn at_least(len: u32) -> [Step; 2] {
    [step(BPF_LD | BPF_W | BPF_LEN, 0), jump(BPF_JGE | BPF_K, len, To::Next, OTHER)]
}

/// With the byte of TCP's flags loaded.
fn by_flags() -> [Step; 2] {
    [step(BPF_ALU | BPF_AND | BPF_K, SYN_AND_ACK), jump(BPF_JEQ | BPF_K, SYN, OTHER, PREFERRED)]
}

/// For IPv4 packets with the header at that offset.
fn ipv4(at: u32) -> Vec<Step> {
    let header_len = step(BPF_LDX | BPF_B | BPF_MSH, at);
    let tcp = [
        load(BPF_B, at + 9),
        jump(BPF_JEQ | BPF_K, PROTOCOL_TCP, To::Next, OTHER),
        load(BPF_H, at + 6),
        jump(BPF_JSET | BPF_K, FRAGMENT, OTHER, To::Next),
    ];
    let has_flags = [
        header_len,
        step(BPF_MISC | BPF_TXA, 0),
        step(BPF_ALU | BPF_ADD | BPF_K, at + FLAGS_AT + 1),
        step(BPF_MISC | BPF_TAX, 0),
        step(BPF_LD | BPF_W | BPF_LEN, 0),
        jump(BPF_JGE | BPF_X, 0, To::Next, OTHER),
    ];
    let flags = [header_len, step(BPF_LD | BPF_B | BPF_IND, at + FLAGS_AT)];
    [&at_least(at + IPV4_LEN)[..], &tcp, &has_flags, &flags, &by_flags()].concat()
}

/// For IPv6 packets with the header at that offset: extension headers are not skipped.
fn ipv6(at: u32) -> Vec<Step> {
    let (next_header, hop_limit) = (at + 6, at + 7);
    let flags = load(BPF_B, at + IPV6_LEN + FLAGS_AT);
    let has_flags = at_least(at + IPV6_LEN + FLAGS_AT + 1);
    let tcp = [&has_flags[..], &[flags], &by_flags()].concat();
    let discovery = [
        load(BPF_B, hop_limit),
        jump(BPF_JEQ | BPF_K, NOT_FORWARDED, To::Next, OTHER),
        load(BPF_B, at + IPV6_LEN),
        jump(BPF_JGE | BPF_K, *DISCOVERY.start(), To::Next, OTHER),
        jump(BPF_JGT | BPF_K, *DISCOVERY.end(), OTHER, PREFERRED),
    ];
    let protocol = [
        load(BPF_B, next_header),
        jump(BPF_JEQ | BPF_K, PROTOCOL_ICMPV6, To::Skip(1 + tcp.len()), To::Next),
        jump(BPF_JEQ | BPF_K, PROTOCOL_TCP, To::Next, OTHER),
    ];
    [&at_least(at + IPV6_LEN + 1)[..], &protocol, &tcp, &discovery].concat()
}

/// For frames with a loaded type in front of the header at that offset.
fn by_type(at: u32) -> Vec<Step> {
    let ipv4 = ipv4(at);
    let kind = [
        jump(BPF_JEQ | BPF_K, libc::ETH_P_ARP as u32, PREFERRED, To::Next),
        jump(BPF_JEQ | BPF_K, libc::ETH_P_IPV6 as u32, To::Skip(1 + ipv4.len()), To::Next),
        jump(BPF_JEQ | BPF_K, libc::ETH_P_IP as u32, To::Next, OTHER),
    ];
    [&kind[..], &ipv4, &ipv6(at)].concat()
}

/// Of Ethernet frames, with a tag at most (beside one that the kernel took out).
fn ethernet() -> Vec<Step> {
    let plain = by_type(ETHERNET_LEN);
    let tagged_at = ETHERNET_LEN + VLAN_LEN;
    let kind = [
        load(BPF_H, ETHERNET_LEN - 2),
        jump(BPF_JEQ | BPF_K, libc::ETH_P_8021Q as u32, To::Skip(1 + plain.len()), To::Next),
        jump(BPF_JEQ | BPF_K, libc::ETH_P_8021AD as u32, To::Skip(plain.len()), To::Next),
    ];
    let tagged = [&at_least(tagged_at)[..], &[load(BPF_H, tagged_at - 2)], &by_type(tagged_at)];
    [&at_least(ETHERNET_LEN)[..], &kind, &plain, &tagged.concat()].concat()
}

/// Of packets without a link header.
fn raw() -> Vec<Step> {
    let ipv4 = ipv4(0);
    let version = [
        load(BPF_B, 0),
        step(BPF_ALU | BPF_AND | BPF_K, 0xF0),
        jump(BPF_JEQ | BPF_K, 0x60, To::Skip(1 + ipv4.len()), To::Next),
        jump(BPF_JEQ | BPF_K, 0x40, To::Next, OTHER),
    ];
    [&at_least(1)[..], &version, &ipv4, &ipv6(0)].concat()
}

/// The program that takes whole frames of a class, and nothing of others.
pub(super) fn filter(class: Class, is_ethernet: bool) -> Vec<sock_filter> {
    let steps = if is_ethernet { ethernet() } else { raw() };
    let count = steps.len();
    let distance = |from: usize, to: To| {
        let to = match to {
            To::Next => from + 1,
            To::Skip(skipped) => from + 1 + skipped,
            To::End(Class::Other) => count,
            To::End(Class::Preferred) => count + 1,
        };
        u8::try_from(to - from - 1).expect("the programs here are shorter than a jump")
    };
    let assembled = steps.iter().enumerate().map(|(at, step)| sock_filter {
        jt: distance(at, step.yes),
        jf: distance(at, step.no),
        ..instruction(step.code, step.operand)
    });
    let ends = [Class::Other, Class::Preferred].map(|end| {
        // Bytes of the frame that are taken.
        instruction(BPF_RET | BPF_K, if end == class { u32::MAX } else { 0 })
    });
    assembled.chain(ends).collect()
}

/// One that does not jump. Lossless: codes have 16 bits.
fn instruction(code: u32, operand: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: operand }
}
