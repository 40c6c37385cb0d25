//! The options that hosts agree on (RFC 2018, RFC 7323, RFC 3168).

use std::net::{IpAddr, TcpListener};

use rustix::net::{AddressFamily, SocketType, connect, socket};

use super::path::{Path, SERVERS};
use super::talks::{Talk, hold, set_receive_buffer};

/// Parameters of both hosts, then of the server alone.
type Settings = (&'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const TIMESTAMPS: &str = "ipv4/tcp_timestamps";
const SACK: &str = "ipv4/tcp_sack";
const DSACK: &str = "ipv4/tcp_dsack";
const SCALING: &str = "ipv4/tcp_window_scaling";
const ECN: &str = "ipv4/tcp_ecn";
const CONTROL: &str = "ipv4/tcp_congestion_control";

/// What a host has where nobody changes it.
const USUAL: [(&str, &str); 5] =
    [(TIMESTAMPS, "1"), (SACK, "1"), (DSACK, "1"), (SCALING, "1"), (ECN, "2")];

const SORTS: &[Settings] = &[
    (&[(TIMESTAMPS, "0")], &[]),
    (&[(SACK, "0")], &[]),
    (&[(SACK, "0"), (TIMESTAMPS, "0")], &[]),
    (&[], &[(SACK, "0"), (SCALING, "0")]),
    (&[(DSACK, "0")], &[(TIMESTAMPS, "0")]),
    (&[(SCALING, "0")], &[]),
    (&[(ECN, "1")], &[]),
    // From here on another algorithm than the usual one, which some hosts do not let one choose.
    (&[(ECN, "1"), (CONTROL, "reno"), (SACK, "0")], &[]),
    (&[(CONTROL, "reno")], &[]),
];

/// Hosts with options switched off and on.
pub fn options(path: &Path) {
    for (both, server) in SORTS {
        USUAL.iter().chain(*both).for_each(|(name, value)| path.set(name, value));
        server.iter().for_each(|(name, value)| path.server().set(name, value));
        println!("  {both:?}, server {server:?}");
        for is_ip6 in [false, true] {
            let mut talks = vec![Talk { is_ip6, ..Talk::of(1, 300_000) }];
            talks[0].server.gap = 150;
            talks.push(Talk { seed: 2, ..talks[0].clone() });
            hold(path, talks, 2);
        }
    }
    USUAL.iter().for_each(|(name, value)| path.set(name, value));
}

/// All combinations of timestamps, selective acknowledgements, congestion notification, and
/// windows.
pub fn combinations(path: &Path) {
    const CHOICES: [(&str, [&str; 2]); 4] =
        [(TIMESTAMPS, ["1", "0"]), (SACK, ["1", "0"]), (ECN, ["1", "0"]), (SCALING, ["1", "0"])];
    for combination in 0..1_usize << CHOICES.len() {
        for (bit, (name, values)) in CHOICES.iter().enumerate() {
            path.set(name, values[combination >> bit & 1]);
        }
        println!("  combination {combination:04b}");
        let talk = |seed| Talk { is_ip6: seed % 2 == 1, ..Talk::of(seed, 300_000) };
        hold(path, (0..4).map(talk).collect(), 4);
    }
    USUAL.iter().for_each(|(name, value)| path.set(name, value));
    windows(path);
}

/// Largest window scale (RFC 7323, section 2.3).
const SCALE_MAX: usize = 14;

/// All window scales.
pub fn windows(path: &Path) {
    for scale in 0..=SCALE_MAX {
        let other = SCALE_MAX - scale;
        let buffers = [scale, other].map(buffer_of_scale);
        assert_eq!(scales(path, buffers), [other, scale], "as the client sees it");
        let mut talk = Talk { is_ip6: scale % 2 == 1, ..Talk::of(scale as u64, 400_000) };
        (talk.client.buffer, talk.server.buffer) = (Some(buffers[0]), Some(buffers[1]));
        hold(path, vec![talk], 1);
    }
}

/// The receive buffer for which Linux offers windows of this scale: the least by which all of the
/// buffer can be offered.
fn buffer_of_scale(scale: usize) -> usize {
    48 << (10 + scale)
}

/// The window scales of a connection, server's and client's, as the client's kernel shows them.
fn scales(path: &Path, buffers: [usize; 2]) -> [usize; 2] {
    let address: IpAddr = SERVERS[0].parse().expect("an address");
    let listener = path.server().within(|| TcpListener::bind((address, 0))).expect("a free port");
    set_receive_buffer(&listener, buffers[1]);
    let to = listener.local_addr().expect("it is bound");
    let socket = path.client().within(|| socket(AddressFamily::INET, SocketType::STREAM, None));
    let socket = socket.expect("a socket");
    set_receive_buffer(&socket, buffers[0]);
    connect(&socket, &to).expect("a server that listens");
    let told = path.client().succeed(&format!("ss -Htin dst {to}"));
    let found = told.split_whitespace().find_map(|word| word.strip_prefix("wscale:"));
    let (one, other) = found.and_then(|pair| pair.split_once(',')).expect("a window scale");
    [one, other].map(|scale| scale.parse().expect("a number"))
}
