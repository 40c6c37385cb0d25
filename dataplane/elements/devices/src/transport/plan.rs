//! What kind of socket, from where, to where.

use std::net::{Ipv4Addr, SocketAddrV4};

use thruway_element::{ArgError, ArgErrors, Args, UdpPort};
use thruway_port::socket::{Address, SocketOptions, UNIX_NAME_MAX};

/// Kinds of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TCP, or a Unix stream.
    Stream,
    /// UDP, or Unix datagrams.
    Datagram,
    /// IPv4 packets of a protocol, and the port that is held meanwhile.
    Raw(u8, Option<u16>),
}

/// What a socket is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub kind: Kind,
    /// Whether it connects or sends to `remote`, rather than being bound there.
    pub client: bool,
    pub remote: Address,
    /// Of a client: where it is bound.
    pub local: Option<Address>,
    pub options: SocketOptions,
    pub verbose: bool,
}

impl Plan {
    /// Of the arguments of Socket.
    pub(crate) fn of(args: &Args<'_>) -> Result<Plan, ArgErrors> {
        let text: String = args.get("TYPE")?;
        let (kind, is_unix) = match text.to_ascii_uppercase().as_str() {
            "TCP" => (Kind::Stream, false),
            "UDP" => (Kind::Datagram, false),
            "UNIX" => (Kind::Stream, true),
            "UNIX_DGRAM" => (Kind::Datagram, true),
            _ => {
                let why = format!("unknown socket type '{text}'; write TCP, UDP, UNIX, UNIX_DGRAM");
                return Err(args.error("TYPE", why).into());
            }
        };
        let (remote, local) = if is_unix { unix(args)? } else { inet(args, kind)? };
        let client = match args.opt("CLIENT")? {
            Some(client) => client,
            None if args.class() == "ToSocket" => true,
            None => args.env().outputs == 0 || local.is_some(),
        };
        let size = |name| args.opt::<u32>(name).map(|size| size.map(|size| size as usize));
        let options = SocketOptions {
            send_buffer: size("SNDBUF")?,
            receive_buffer: size("RCVBUF")?,
            no_delay: args.get("NODELAY")?,
            ..SocketOptions::default()
        };
        let local = local.filter(|_| client);
        Ok(Plan { kind, client, remote, local, options, verbose: args.get("VERBOSE")? })
    }

    /// Of a raw socket.
    pub(crate) fn raw(protocol: u8, port: Option<u16>) -> Plan {
        Plan {
            kind: Kind::Raw(protocol, port),
            client: true,
            remote: Address::ANY,
            local: None,
            options: SocketOptions::default(),
            verbose: false,
        }
    }
}

/// ADDR and PORT, and LOCAL_ADDR and LOCAL_PORT if one of them is given.
fn inet(args: &Args<'_>, kind: Kind) -> Result<(Address, Option<Address>), ArgErrors> {
    for name in ["FILENAME", "LOCAL_FILENAME"] {
        if args.given(name) {
            return Err(args.error(name, "only Unix sockets have one").into());
        }
    }
    for name in ["ADDR", "PORT"] {
        if args.text(name).is_none() {
            return Err(args.error(name, "missing; TCP and UDP take ADDR, PORT").into());
        }
    }
    let remote = SocketAddrV4::new(args.get("ADDR")?, port(args, "PORT", kind)?);
    let given = args.given("LOCAL_ADDR") || args.given("LOCAL_PORT");
    let local = match given {
        false => None,
        true => {
            let address: Option<Ipv4Addr> = args.opt("LOCAL_ADDR")?;
            let port = if args.given("LOCAL_PORT") { port(args, "LOCAL_PORT", kind)? } else { 0 };
            Some(SocketAddrV4::new(address.unwrap_or(Ipv4Addr::UNSPECIFIED), port))
        }
    };
    Ok((Address::Inet(remote), local.map(Address::Inet)))
}

/// A port by number, or by a name that PortInfo gives.
fn port(args: &Args<'_>, name: &str, kind: Kind) -> Result<u16, ArgError> {
    if kind == Kind::Datagram {
        return args.get::<UdpPort>(name).map(|port| port.0);
    }
    let text = args.text(name).unwrap_or("");
    let env = args.env();
    let named = env.addresses.look_up(env.name, text, |named| named.tcp);
    named.map_or_else(|| args.get(name), Ok)
}

/// FILENAME and LOCAL_FILENAME, or what stands in their places.
fn unix(args: &Args<'_>) -> Result<(Address, Option<Address>), ArgErrors> {
    let file = |named: &str, place: &str| -> Result<Option<Address>, ArgError> {
        let name = if args.given(named) { named } else { place };
        let Some(bytes) = args.opt::<Vec<u8>>(name)? else { return Ok(None) };
        if bytes.is_empty() || bytes.len() > UNIX_NAME_MAX {
            let why = format!("a file name has from 1 to {UNIX_NAME_MAX} bytes");
            return Err(args.error(name, why));
        }
        Ok(Some(Address::Unix(bytes)))
    };
    for name in ["LOCAL_ADDR", "LOCAL_PORT"] {
        if args.given(name) {
            let why = "too many arguments; Unix sockets take FILENAME, LOCAL_FILENAME";
            return Err(args.error(name, why).into());
        }
    }
    let remote = file("FILENAME", "ADDR")?;
    let remote = remote.ok_or_else(|| args.error("FILENAME", "missing; the socket's file"))?;
    Ok((remote, file("LOCAL_FILENAME", "PORT")?))
}
