//! A filter of nftables that keeps the host's own stack from what an interface receives: a chain of
//! the netdev family, without rules, whose policy is to drop. Packet sockets and AF_XDP are in
//! front of it. (nfnetlink; linux/netfilter/nf_tables.h)

use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;
use thruway_netlink::{ACK, CREATE, Message, REQUEST, Result, Socket};

/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`.
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// `NFNL_SUBSYS_NFTABLES`, in the upper byte of types.
const NFTABLES: u16 = 10;
const NEW_TABLE: u16 = NFTABLES << 8;
const DEL_TABLE: u16 = NFTABLES << 8 | 2;
const NEW_CHAIN: u16 = NFTABLES << 8 | 3;
const GET_CHAIN: u16 = NFTABLES << 8 | 4;
/// `NFPROTO_NETDEV`.
const NETDEV: u8 = 5;
/// `NFTA_...`.
const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_DEVICE: u16 = 3;
/// `NF_NETDEV_INGRESS`, `NF_DROP`.
const INGRESS: u32 = 0;
const DROP: u32 = 0;
/// Name of the chain.
const CHAIN: &str = "ingress";

/// `struct nfgenmsg`; the subsystem is in network byte order.
fn message(kind: u16, flags: u16, family: u8) -> Message {
    let [high, low] = if kind < NEW_TABLE { NFTABLES.to_be_bytes() } else { [0; 2] };
    Message::new(kind, REQUEST | flags, &[family, 0, high, low])
}

fn batch() -> (Message, Message) {
    (message(BATCH_BEGIN, 0, 0), message(BATCH_END, 0, 0))
}

/// The table of an interface.
fn table_of(interface: &str) -> String {
    format!("thruway-cni-{interface}")
}

fn table(kind: u16, flags: u16, interface: &str) -> Message {
    message(kind, flags, NETDEV).with_text(TABLE_NAME, &table_of(interface))
}

/// Has the host's stack see nothing of what an interface receives. May be called again.
///
/// # Errors
/// The kernel has no such filters, or no interface of that name.
pub fn shut(interface: &str) -> Result<()> {
    let chain = message(NEW_CHAIN, CREATE | ACK, NETDEV)
        .with_text(CHAIN_TABLE, &table_of(interface))
        .with_text(CHAIN_NAME, CHAIN)
        .with_nested(CHAIN_HOOK, |hook| {
            hook.with(HOOK_NUMBER, &INGRESS.to_be_bytes())
                .with(HOOK_PRIORITY, &0_u32.to_be_bytes())
                .with_text(HOOK_DEVICE, interface)
        })
        .with(CHAIN_POLICY, &DROP.to_be_bytes())
        .with_text(CHAIN_TYPE, "filter");
    // What is there goes first: a kernel may have kept it for an interface that is gone.
    let all = vec![
        table(NEW_TABLE, CREATE, interface),
        table(DEL_TABLE, 0, interface),
        table(NEW_TABLE, CREATE, interface),
        chain,
    ];
    Socket::open(Some(NETFILTER))?.ask_batch(batch(), all)
}

/// Takes that back; no error where it is not so.
///
/// # Errors
/// The kernel refused it.
pub fn open(interface: &str) -> Result<()> {
    let all = vec![table(DEL_TABLE, ACK, interface)];
    match Socket::open(Some(NETFILTER))?.ask_batch(batch(), all) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Whether it is so.
///
/// # Errors
/// The kernel refused the question.
pub fn is_shut(interface: &str) -> Result<bool> {
    let request = message(GET_CHAIN, ACK, NETDEV)
        .with_text(CHAIN_TABLE, &table_of(interface))
        .with_text(CHAIN_NAME, CHAIN);
    match Socket::open(Some(NETFILTER))?.ask(request) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
