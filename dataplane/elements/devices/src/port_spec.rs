//! What a port is: an interface, a capture in its place, or nothing; and what the capture ports of
//! a configuration know of each other.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{ArgErrors, Args};
use thruway_port::interface;
use thruway_sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::in_order::Timeline;
use super::mode::{Large, Method, PortRequest};

/// What stands at one direction of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortSpec {
    /// A network interface.
    Interface(String),
    /// A capture file.
    Capture(String),
    /// Nothing: no packet comes, and those sent are dropped.
    Nothing,
}

/// The two directions of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

impl PortSpec {
    /// The port written `text`, seen from one direction.
    pub(super) fn parse(text: &str, direction: Direction) -> Result<PortSpec, String> {
        let Some(files) = text.strip_prefix("pcap:") else {
            return match text {
                "none" => Ok(PortSpec::Nothing),
                "" => Err("a port has a name: an interface, pcap:FILE or none".to_owned()),
                name => Ok(PortSpec::Interface(name.to_owned())),
            };
        };
        let file = match (files.split_once('>'), direction) {
            (Some((file, _)), Direction::In) | (Some((_, file)), Direction::Out) => file,
            (None, _) if files.is_empty() => {
                return Err("no file behind pcap:; write pcap:FILE or pcap:IN>OUT".to_owned());
            }
            (None, _) => files,
        };
        Ok(match file.trim() {
            "" => PortSpec::Nothing,
            file => PortSpec::Capture(file.to_owned()),
        })
    }

    /// The port that argument DEVNAME means.
    pub(super) fn of(args: &Args<'_>, direction: Direction) -> Result<PortSpec, ArgErrors> {
        let text: String = args.get("DEVNAME")?;
        PortSpec::parse(&text, direction).map_err(|message| args.error("DEVNAME", message).into())
    }
}

/// Why packet sockets are used where TCP packets of up to 64 kB pass.
const FOR_LARGE: &str =
    "TCP packets of up to 64 kB pass whole, for which AF_XDP has no room; METHOD XDP has them cut";

/// An element that reads an interface.
struct Reader {
    element: String,
    interface: String,
    request: PortRequest,
}

/// What all ports of a configuration share.
#[derive(Default)]
pub(super) struct Ports {
    /// Inputs that have more to give: captures not read to their end, and every interface.
    open_inputs: AtomicUsize,
    /// Packets that went out by capture ports and into nothing.
    sent: AtomicU64,
    /// Captures that inputs read.
    inputs: Mutex<Vec<String>>,
    /// When captures have their next packets.
    pub(super) timeline: Arc<Timeline>,
    /// Interfaces that outputs write, and how.
    outputs: Mutex<Vec<(String, Method)>>,
    /// Interfaces that inputs read, and how.
    interfaces: Mutex<Vec<Reader>>,
    /// The last reports of outputs, by element.
    reported: Mutex<Vec<(String, String)>>,
}

impl Ports {
    /// Those of the configuration that is being built.
    pub(super) fn of(args: &Args<'_>) -> Arc<Ports> {
        // Elements have names; the empty one is free for what belongs to none.
        args.env().shared.get("", "ports", Ports::default).expect("one type per key")
    }

    /// Notes that a capture is read, so that no output writes over it.
    pub(super) fn reads(&self, path: &str) {
        self.inputs.lock().push(path.to_owned());
    }

    /// Whether some input reads this file.
    pub(super) fn is_read(&self, path: &str) -> bool {
        let same = |other: &String| {
            let place = |path: &str| std::fs::canonicalize(path).ok();
            path == other || place(path).is_some_and(|path| Some(path) == place(other))
        };
        path != "-" && self.inputs.lock().iter().any(same)
    }

    /// Notes that an output writes an interface, and how.
    pub(super) fn writes(&self, interface: &str, method: Method) {
        let mut all = self.outputs.lock();
        all.push((interface.to_owned(), method));
    }

    /// Whether large packets may leave, by whichever output.
    fn outputs_take_large(&self) -> bool {
        let outputs = self.outputs.lock();
        let inputs = self.interfaces.lock();
        // What its input takes an interface by its output does, too.
        let is_by_xdp = |name: &str| {
            let mut readers = inputs.iter().filter(|reader| reader.interface == name);
            readers.any(|reader| reader.request.may_be_xdp())
        };
        let takes = |(name, method): &(String, Method)| {
            *method != Method::Xdp && !is_by_xdp(name) && interface::is_for_large_packets(name)
        };
        !outputs.is_empty() && outputs.iter().all(takes)
    }

    /// Whether some output writes this interface.
    pub(super) fn is_written(&self, interface: &str) -> bool {
        let all = self.outputs.lock();
        all.iter().any(|(name, _)| name == interface)
    }

    /// Notes that an element reads an interface, and how.
    pub(super) fn receives(&self, element: &str, interface: &str, request: &PortRequest) {
        let mut all = self.interfaces.lock();
        // An element may have a replica in another thread.
        if !all.iter().any(|reader| reader.element == element) {
            let (element, interface) = (element.to_owned(), interface.to_owned());
            all.push(Reader { element, interface, request: request.clone() });
        }
    }

    /// How many elements read an interface, or queues of it.
    pub(super) fn readers(&self, interface: &str) -> usize {
        let all = self.interfaces.lock();
        all.iter().filter(|reader| reader.interface == interface).count()
    }

    /// How an input uses an interface: where several read all of it each is to see every packet,
    /// which packet sockets do; and so are packets that AF_XDP has no room for.
    pub(super) fn apply(&self, interface: &str, own: &PortRequest) -> PortRequest {
        let readers_of_all = {
            let all = self.interfaces.lock();
            let whole =
                |reader: &&Reader| reader.interface == interface && reader.request.queue.is_none();
            all.iter().filter(whole).count()
        };
        let mut request = own.clone();
        if request.method == Method::Best && readers_of_all > 1 {
            request.method = Method::Packet("more than one FromDevice reads it");
        }
        if request.large == Large::IfPossible {
            let can = interface::is_for_large_packets(interface) && self.outputs_take_large();
            request.large = if can { Large::Yes } else { Large::No };
        }
        if request.method == Method::Best && request.large == Large::Yes {
            request.method = Method::Packet(FOR_LARGE);
        }
        request
    }

    /// Whether large packets come by some input.
    fn has_large(&self) -> bool {
        let all: Vec<(String, PortRequest)> = {
            let all = self.interfaces.lock();
            all.iter().map(|reader| (reader.interface.clone(), reader.request.clone())).collect()
        };
        all.iter().any(|(name, request)| self.apply(name, request).large == Large::Yes)
    }

    /// How an output uses an interface: as its inputs do, if it has any and the output's own wish
    /// allows it, so that they share its sockets.
    pub(super) fn request_of(&self, interface: &str, own: &PortRequest) -> PortRequest {
        let input = {
            let all = self.interfaces.lock();
            all.iter()
                .find(|reader| reader.interface == interface)
                .map(|reader| reader.request.clone())
        };
        let input = input.map(|request| self.apply(interface, &request));
        match (&own.method, input) {
            (Method::Best, None) if self.has_large() => {
                PortRequest { method: Method::Packet(FOR_LARGE), ..own.clone() }
            }
            (Method::Packet(_), _) | (_, None) => own.clone(),
            (Method::Xdp, Some(input)) if matches!(input.method, Method::Packet(_)) => own.clone(),
            (Method::Xdp, Some(input)) => {
                PortRequest { method: Method::Xdp, queue: own.queue, ..input }
            }
            (Method::Best, Some(input)) => PortRequest { queue: own.queue, ..input },
        }
    }

    /// Whether an output, which may have a replica in another thread, has a report other than its
    /// last one.
    pub(super) fn is_news(&self, element: &str, line: &str) -> bool {
        let mut all = self.reported.lock();
        let is_old = all.iter().any(|(name, reported)| name == element && reported == line);
        all.retain(|(name, _)| name != element);
        all.push((element.to_owned(), line.to_owned()));
        !is_old
    }

    /// Clears an output's report.
    pub(super) fn is_over(&self, element: &str) {
        let mut all = self.reported.lock();
        all.retain(|(name, _)| name != element);
    }

    /// An input has something to give.
    pub(super) fn open_input(&self) {
        self.open_inputs.fetch_add(1, Ordering::Relaxed);
    }

    /// An input is at its end; true when it was the last.
    pub(super) fn close_input(&self) -> bool {
        self.open_inputs.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Packets went out.
    pub(super) fn count_sent(&self, packets: usize) {
        // Relaxed: the number only has to change while packets are in flight.
        self.sent.fetch_add(packets as u64, Ordering::Relaxed);
    }

    /// Packets that went out so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_an_interface_a_capture_or_nothing() {
        let both =
            |text| (PortSpec::parse(text, Direction::In), PortSpec::parse(text, Direction::Out));
        let file = |name: &str| Ok(PortSpec::Capture(name.to_owned()));
        let nothing = Ok(PortSpec::Nothing);
        let eth = Ok(PortSpec::Interface("eth0".to_owned()));
        assert_eq!(both("eth0"), (eth.clone(), eth));
        assert_eq!(both("pcap:a.pcap"), (file("a.pcap"), file("a.pcap")));
        assert_eq!(both("pcap:a>b"), (file("a"), file("b")));
        assert_eq!(both("pcap:a>"), (file("a"), nothing.clone()));
        assert_eq!(both("pcap:>b"), (nothing.clone(), file("b")));
        assert_eq!(both("none"), (nothing.clone(), nothing));
        assert!(both("pcap:").0.is_err() && both("").1.is_err());
    }

    #[test]
    fn ports_of_an_interface_go_the_same_way() {
        use thruway_port::af_xdp::XdpOptions;
        let xdp = XdpOptions::default();
        let request =
            |method, queue| PortRequest { method, xdp, queue, large: Large::No, exclusive: false };
        let (best, xdp) = (request(Method::Best, None), request(Method::Xdp, None));
        let packet = request(Method::Packet("as METHOD says"), None);
        let ports = Ports::default();
        assert_eq!(ports.request_of("eth0", &best), best);
        ports.receives("in", "eth0", &xdp);
        assert_eq!(ports.request_of("eth0", &best), xdp);
        assert_eq!(
            ports.request_of("eth0", &request(Method::Best, Some(1))),
            request(Method::Xdp, Some(1))
        );
        assert_eq!(ports.request_of("eth0", &packet), packet);
        assert_eq!(ports.request_of("eth1", &best), best);
        // Replicas of an element are one; two elements are each to see every packet.
        ports.receives("a", "eth1", &best);
        ports.receives("a", "eth1", &best);
        assert_eq!(ports.apply("eth1", &best), best);
        ports.receives("b", "eth1", &best);
        assert!(matches!(ports.apply("eth1", &best).method, Method::Packet(_)));
        assert_eq!(ports.apply("eth1", &xdp), xdp);
        assert!(matches!(ports.request_of("eth1", &best).method, Method::Packet(_)));
        // Each with a queue of its own they do not meet.
        let one = request(Method::Best, Some(0));
        ports.receives("c", "eth2", &one);
        ports.receives("d", "eth2", &request(Method::Best, Some(1)));
        assert_eq!(ports.apply("eth2", &one), one);
    }

    #[test]
    fn replicas_of_an_output_tell_once() {
        let ports = Ports::default();
        assert!(ports.is_news("out", "by AF_XDP") && !ports.is_news("out", "by AF_XDP"));
        assert!(ports.is_news("other", "by AF_XDP"));
        assert!(ports.is_news("out", "down") && !ports.is_news("out", "down"));
        ports.is_over("out");
        assert!(ports.is_news("out", "down") && !ports.is_news("other", "by AF_XDP"));
    }

    #[test]
    fn the_last_input_to_end_is_told_so() {
        let ports = Ports::default();
        ports.open_input();
        ports.open_input();
        assert!(!ports.close_input());
        assert!(ports.close_input());
    }
}
