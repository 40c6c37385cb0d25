//! The shim's functions and structures; see `shim/dpdk.h`, with which this file changes.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;

/// Bytes from one mbuf to the next, and from the start of their memory to the first.
pub const MBUF_STRIDE: usize = 192;
pub const MBUF_FIRST: usize = 64;
/// `RTE_MBUF_F_EXTERNAL`: its buffer is not part of it.
pub const EXTERNAL: u64 = 1 << 61;
/// `RTE_MBUF_F_RX_FDIR_ID`: a rule marked the packet.
pub const MARKED: u64 = 1 << 13;

/// The part of DPDK's `struct rte_mbuf` that is used here; the shim checks the places.
#[repr(C, align(64))]
pub struct Mbuf {
    pub buf_addr: *mut u8,
    pub buf_iova: u64,
    pub data_off: u16,
    pub refcnt: u16,
    pub nb_segs: u16,
    pub port: u16,
    pub ol_flags: u64,
    pub packet_type: u32,
    pub pkt_len: u32,
    pub data_len: u16,
    pub vlan_tci: u16,
    pub hash: u32,
    /// With [`MARKED`]: the mark of a rule.
    pub mark: u32,
}

const _: () = assert!(std::mem::offset_of!(Mbuf, data_len) == 40);
const _: () = assert!(std::mem::offset_of!(Mbuf, mark) == 48);

#[repr(C)]
pub struct Text {
    pub at: *mut c_char,
    pub size: usize,
}

#[repr(C)]
pub struct FrameCalls {
    pub take: extern "C" fn(*mut NonNull<Mbuf>, c_uint) -> c_int,
    pub give: extern "C" fn(*const NonNull<Mbuf>, c_uint),
}

#[repr(C)]
pub struct Memory {
    pub region: *mut u8,
    pub region_len: usize,
    pub page_len: usize,
    pub first: usize,
    pub stride: usize,
    pub count: u32,
    pub mbufs: *mut u8,
    pub mbufs_len: usize,
}

#[repr(C)]
#[derive(Clone)]
pub struct PortInfo {
    pub name: [c_char; 64],
    pub driver: [c_char; 64],
    pub mac: [u8; 6],
    pub can_check: u8,
    pub rx_queues_max: u16,
    pub tx_queues_max: u16,
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub mtu: u16,
    pub mtu_max: u16,
    pub reta_size: u16,
    pub hashes: u8,
    pub node: i16,
}

#[repr(C)]
pub struct PortConf {
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub rx_slots: u16,
    pub tx_slots: u16,
    pub mtu: u16,
    pub promiscuous: u8,
    pub checks: u8,
}

#[repr(C)]
#[derive(Default)]
pub struct LinkState {
    pub mbps: u32,
    pub is_up: u8,
    pub is_full_duplex: u8,
}

#[repr(C)]
#[derive(Default)]
pub struct Counts {
    pub received: u64,
    pub sent: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub missed: u64,
    pub receive_errors: u64,
    pub send_errors: u64,
    pub no_mbuf: u64,
}

#[repr(C)]
#[derive(Clone)]
pub struct Xstat {
    pub name: [c_char; 64],
    pub value: u64,
}

/// Bytes of the longest header of an item.
pub const HEADER_LEN_MAX: usize = 40;
/// Most headers of a rule.
pub const ITEMS_MAX: usize = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FlowItem {
    pub header: u8,
    pub is_alone: u8,
    pub spec: [u8; HEADER_LEN_MAX],
    pub mask: [u8; HEADER_LEN_MAX],
}

#[repr(C)]
pub struct FlowRule {
    pub priority: u32,
    pub mark: u32,
    pub queues: u16,
    pub drops: u8,
    pub counts: u8,
    pub marks: u8,
    pub count: u8,
    pub items: [FlowItem; ITEMS_MAX],
}

unsafe extern "C" {
    pub fn tw_version() -> *const c_char;
    pub fn tw_eal_start(argc: c_int, argv: *mut *mut c_char, text: Text) -> c_int;
    pub fn tw_log_take(text: Text);
    pub fn tw_log_show(show: c_int);
    pub fn tw_iova_is_va() -> c_int;
    pub fn tw_thread_register() -> c_int;
    pub fn tw_cache_flush(pool: *mut c_void);
    pub fn tw_thread_unregister();
    pub fn tw_frames_pool(memory: *const Memory, frames: FrameCalls, text: Text) -> *mut c_void;
    pub fn tw_port_find(name: *const c_char) -> c_int;
    pub fn tw_port_is_valid(port: u16) -> c_int;
    pub fn tw_port_probe(device: *const c_char) -> c_int;
    pub fn tw_port_info(port: u16, info: *mut PortInfo) -> c_int;
    pub fn tw_port_start(
        port: u16,
        conf: *const PortConf,
        pool: *mut c_void,
        memory: *const Memory,
        text: Text,
    ) -> c_int;
    pub fn tw_port_restart(port: u16) -> c_int;
    pub fn tw_port_stop(port: u16);
    pub fn tw_port_close(port: u16, remove: c_int);
    pub fn tw_port_link(port: u16, link: *mut LinkState);
    pub fn tw_port_counts(port: u16, counts: *mut Counts);
    pub fn tw_port_xstats(port: u16, stats: *mut Xstat, max: c_uint) -> c_int;
    pub fn tw_flow_check(port: u16, rule: *const FlowRule, text: Text) -> c_int;
    pub fn tw_flow_make(port: u16, rule: *const FlowRule, text: Text) -> *mut c_void;
    pub fn tw_flow_end(port: u16, flow: *mut c_void) -> c_int;
    pub fn tw_flow_count(port: u16, flow: *mut c_void, packets: *mut u64) -> c_int;
    pub fn tw_rx(port: u16, queue: u16, mbufs: *mut NonNull<Mbuf>, max: u16) -> u16;
    pub fn tw_tx(port: u16, queue: u16, mbufs: *mut NonNull<Mbuf>, count: u16) -> u16;
    pub fn tw_free(mbuf: NonNull<Mbuf>);
    pub fn tw_copy(mbuf: NonNull<Mbuf>, to: *mut u8, size: u32) -> u32;
}

/// Room for a text that the shim writes.
pub struct TextBuffer(Vec<c_char>);

impl TextBuffer {
    pub fn new() -> TextBuffer {
        TextBuffer(vec![0; 16 * 1024])
    }

    pub fn text(&mut self) -> Text {
        Text { at: self.0.as_mut_ptr(), size: self.0.len() }
    }

    /// What was written, up to the NUL.
    pub fn into_string(self) -> String {
        string(&self.0)
    }
}

/// The text in an array of C's characters, up to the NUL.
pub fn string(chars: &[c_char]) -> String {
    let bytes: Vec<u8> =
        chars.iter().map(|&char| char.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
