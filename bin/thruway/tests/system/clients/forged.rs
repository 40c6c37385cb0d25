//! Segments that somebody invents for a connection that is open: the firewall's session lives on,
//! and ends as its ends say.

use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use thruway_wire::checksum::Sum;

use super::at;
use super::lab::{INSIDE, Lab, OUTSIDE};
use super::sockets::{ACK, RST, Raw, SYN, packet};
use crate::process::{privileged, thruway, wait_for};

const FIN: u8 = 1;
const PORT: u16 = 9000;

/// The server's and the client's end of a connection.
fn connect(lab: &Lab) -> (TcpStream, TcpStream) {
    let server = at(OUTSIDE[0], PORT);
    let listener = lab.outside[0].within(|| TcpListener::bind(server)).expect("a free port");
    let client = lab.inside[0].within(|| TcpStream::connect(server)).expect("a way");
    let (served, _) = listener.accept().expect("a client");
    for end in [&served, &client] {
        end.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    }
    (served, client)
}

/// Both ends say something, and hear it.
fn talk(ends: &mut (TcpStream, TcpStream)) {
    let (server, client) = ends;
    let mut heard = [0; 5];
    client.write_all(b"hello").expect("it is open");
    server.read_exact(&mut heard).expect("it is open");
    server.write_all(b"world").expect("it is open");
    client.read_exact(&mut heard).expect("it is open");
    assert_eq!(&heard, b"world");
}

/// The state of the session of a client's port, as the firewall's FlowClassifier tells.
fn state(socket: &Path, port: u16) -> String {
    let asked = thruway()
        .arg("ctl")
        .arg(socket)
        .args(["flows", "--element", "from_lan", "sport", &port.to_string()])
        .output()
        .expect("thruway ctl");
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    text.split_whitespace().nth(1).unwrap_or("none").to_owned()
}

/// A segment of no data; its checksum is right, or not.
fn forged(from: SocketAddrV4, to: SocketAddrV4, flags: u8, seq: u32, is_right: bool) -> Vec<u8> {
    let mut tcp = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    tcp.extend(seq.to_be_bytes());
    tcp.extend(seq.rotate_left(9).to_be_bytes());
    tcp.extend([5 << 4, flags, 0x20, 0, 0, 0, 0, 0]);
    let pseudo = Sum::pseudo_v4(from.ip().to_bits(), to.ip().to_bits(), 6, tcp.len());
    let sum = pseudo.with(&tcp).checksum() ^ if is_right { 0 } else { 0x0101 };
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    packet(6, *from.ip(), *to.ip(), &tcp)
}

/// Everything that may end or begin a connection, with numbers from all over, towards both ends.
fn attack(lab: &Lab, client: SocketAddrV4) {
    let server = at(OUTSIDE[0], PORT);
    // Neighbours of the ends: what they send comes the same way.
    let outside = (Raw::new(&lab.outside[1]), server, client);
    let inside = (Raw::new(&lab.inside[1]), client, server);
    for (sender, from, to) in [outside, inside] {
        for flags in [RST, RST | ACK, FIN | ACK, FIN, SYN, SYN | ACK, SYN | RST, SYN | FIN, 0] {
            for guess in 0..24u32 {
                let seq = guess.wrapping_mul(0x0aab_cdef) ^ 0x5bd1_e995;
                sender.send(&forged(from, to, flags, seq, guess % 3 > 0));
            }
        }
    }
}

fn port_of(end: &TcpStream) -> u16 {
    end.local_addr().expect("an address").port()
}

fn client_of(end: &TcpStream) -> SocketAddrV4 {
    match end.local_addr().expect("an address") {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address}"),
    }
}

fn expect_state(socket: &Path, port: u16, wanted: &str) {
    wait_for(&format!("the session of {port} to be {wanted}"), || {
        (state(socket, port) == wanted).then_some(())
    });
}

fn undergo(options: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let name = socket.display().to_string();
    let mut lab = Lab::new();
    lab.route_inside();
    lab.example(&[&["click", "-u", &name], options].concat(), "firewall.click", &[]);

    let mut ends = connect(&lab);
    talk(&mut ends);
    let port = port_of(&ends.1);
    expect_state(&socket, port, "open");
    let client = client_of(&ends.1);
    assert_eq!(client.ip().to_string(), INSIDE[0]);
    attack(&lab, client);
    talk(&mut ends);
    assert_eq!(state(&socket, port), "open");

    // One side says that it has finished, then the other does.
    drop(ends.1);
    expect_state(&socket, port, "closing");
    drop(ends.0);
    expect_state(&socket, port, "closed");

    // Without lingering an end resets.
    let mut ends = connect(&lab);
    talk(&mut ends);
    let port = port_of(&ends.1);
    attack(&lab, client_of(&ends.1));
    assert_eq!(state(&socket, port), "open");
    set_socket_linger(&ends.0, Some(Duration::ZERO)).expect("an option");
    drop(ends.0);
    expect_state(&socket, port, "closed");

    // Nobody listens.
    let refused = lab.inside[0].within(|| TcpStream::connect(at(OUTSIDE[0], PORT + 1)));
    assert!(refused.is_err());
    lab.stop();
}

#[test]
fn forged_segments_end_no_session() {
    if privileged("forged_segments_end_no_session") {
        undergo(&[]);
    }
}

#[test]
fn forged_segments_end_no_session_of_two_threads() {
    if privileged("forged_segments_end_no_session_of_two_threads") {
        undergo(&["-j", "2"]);
    }
}
