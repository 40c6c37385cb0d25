//! What a configuration wants of each port of DPDK, all its elements together: a port is started
//! once, with all its queues.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{ArgError, Args};
use thruway_port::dpdk::{self, Device, PortConfig, Receiver, Sender};

use super::part;

/// A device's name without its arguments: so elements of one port know each other if only one of
/// them gives these.
fn short(port: &str) -> &str {
    port.split(',').next().unwrap_or(port)
}

/// What an element that receives wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Input {
    pub(in super::super) element: String,
    pub(in super::super) port: String,
    /// The first queue, if it matters.
    pub(in super::super) first: Option<u16>,
    /// Of all its replicas.
    pub(in super::super) queues: u16,
    /// Threads that read it, and how many of them come before this replica's.
    pub(in super::super) threads: usize,
    pub(in super::super) rank: usize,
    pub(in super::super) promiscuous: bool,
    pub(in super::super) checks: bool,
    pub(in super::super) mtu: Option<u16>,
    pub(in super::super) slots: u16,
}

/// What a replica of an element that sends wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Output {
    pub(in super::super) port: String,
    /// How many of the element's replicas come before this one.
    pub(in super::super) rank: usize,
    /// Its index among all senders.
    pub(in super::super) element: String,
    pub(in super::super) queue: Option<u16>,
    pub(in super::super) mtu: Option<u16>,
    pub(in super::super) slots: u16,
}

#[derive(Default)]
struct PortState {
    /// The element that gave the EAL's arguments, and these.
    arguments: Option<(String, Vec<String>)>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Of the configuration that this one replaces, so that they go on running.
    kept: Vec<Arc<Device>>,
}

/// See the module's description.
#[derive(Default)]
pub(in super::super) struct Ports(Mutex<PortState>);

impl Ports {
    /// Those of the configuration that is being built.
    pub(in super::super) fn of(args: &Args<'_>) -> Arc<Ports> {
        // Elements have names; the empty one is free for what belongs to none.
        args.env().shared.get("", "dpdk", Ports::default).expect("one type per key")
    }

    /// The EAL's arguments, which one element gives.
    pub(in super::super) fn set_arguments(
        &self,
        args: &Args<'_>,
        arguments: Vec<String>,
    ) -> Result<(), ArgError> {
        let mut state = self.0.lock();
        match &state.arguments {
            Some((other, _)) if other != args.name() => {
                let why = format!(
                    "'{other}' gives DPDK's arguments already: write all of them into one element"
                );
                Err(ArgError { index: None, message: why })
            }
            _ => {
                state.arguments = Some((args.name().to_owned(), arguments));
                Ok(())
            }
        }
    }

    /// Notes an element that receives.
    pub(in super::super) fn receives(&self, input: Input) {
        let mut state = self.0.lock();
        // A replica of one that is there has its part of the same queues.
        if !state.inputs.iter().any(|other| other.element == input.element) {
            state.inputs.push(input);
        }
    }

    /// Notes a replica of an element that sends.
    pub(in super::super) fn sends(&self, output: Output) {
        self.0.lock().outputs.push(output);
    }

    /// Starts DPDK with the configuration's arguments; how it runs.
    pub(in super::super) fn start(&self) -> Result<String, String> {
        let arguments = self.0.lock().arguments.clone().map_or(Vec::new(), |(_, all)| all);
        dpdk::start(&arguments).map_err(|error| error.to_string())
    }

    /// Opens a port with all that the configuration wants of it.
    fn open(&self, port: &str) -> Result<Arc<Device>, String> {
        self.start()?;
        let (request, port) = {
            let state = self.0.lock();
            (state.request(port), state.whole_name(port))
        };
        let port = port.as_str();
        let error = match Device::open(port, &request) {
            Ok(device) => return Ok(device),
            Err(error) => error,
        };
        // Perhaps only the configuration that is being replaced wanted it otherwise.
        if std::mem::take(&mut self.0.lock().kept).is_empty() {
            return Err(error.to_string());
        }
        Device::open(port, &request).map_err(|error| error.to_string())
    }

    /// All queues that an element receives by.
    pub(in super::super) fn queues(&self, input: &Input) -> Range<u16> {
        self.0.lock().queues_of(&input.element)
    }

    /// How many elements read a port.
    pub(in super::super) fn readers(&self, port: &str) -> usize {
        let state = self.0.lock();
        state.inputs.iter().filter(|input| short(&input.port) == short(port)).count()
    }

    /// The end of a port that this replica of an element receives by.
    pub(in super::super) fn receiver(&self, input: &Input) -> Result<Receiver, String> {
        let device = self.open(&input.port)?;
        let queues = part(self.queues(input), input.rank, input.threads);
        device.receiver(queues).map_err(|error| error.to_string())
    }

    /// A port, and an end of it to send by, unless it has too few for this replica of an element.
    pub(in super::super) fn sender(
        &self,
        output: &Output,
    ) -> Result<(Arc<Device>, Option<Sender>), String> {
        let device = self.open(&output.port)?;
        if !self.0.lock().has_queue(output, device.about().tx_queues) {
            return Ok((device, None));
        }
        let sender = device.sender(output.queue).map_err(|error| error.to_string())?;
        Ok((device, Some(sender)))
    }

    /// Keeps a port running that the configuration before this one used.
    pub(in super::super) fn keep(&self, device: Arc<Device>) {
        self.0.lock().kept.push(device);
    }

    /// The configuration runs: what it does not use itself is closed.
    pub(in super::super) fn let_go(&self) {
        // Not under the lock: closing a port takes its time.
        let kept = std::mem::take(&mut self.0.lock().kept);
        drop(kept);
    }
}

impl PortState {
    /// A port's name with the arguments that some element gives.
    fn whole_name(&self, port: &str) -> String {
        let inputs = self.inputs.iter().map(|input| input.port.as_str());
        let all = inputs.chain(self.outputs.iter().map(|output| output.port.as_str()));
        let same = all.filter(|other| short(other) == short(port));
        same.max_by_key(|name| name.len()).unwrap_or(port).to_owned()
    }

    /// All that is wanted of a port.
    fn request(&self, port: &str) -> PortConfig {
        let mut request = PortConfig { promiscuous: false, ..PortConfig::default() };
        for (input, queues) in self.layout(port) {
            request.rx_queues = request.rx_queues.max(queues.end);
            request.promiscuous |= input.promiscuous;
            request.checks |= input.checks;
            request.rx_slots = request.rx_slots.max(input.slots);
            request.mtu = request.mtu.max(input.mtu);
        }
        let (mut all, mut first) = (0, 0);
        for output in self.outputs_of(port) {
            all += 1;
            first += u16::from(output.rank == 0);
            request.tx_queues_min =
                request.tx_queues_min.max(output.queue.map_or(0, |queue| queue + 1));
            request.tx_slots = request.tx_slots.max(output.slots);
            request.mtu = request.mtu.max(output.mtu);
        }
        request.tx_queues_min = request.tx_queues_min.max(first);
        request.tx_queues = request.tx_queues_min.max(all);
        request
    }

    /// The replicas of elements that send by a port.
    fn outputs_of(&self, port: &str) -> impl Iterator<Item = &Output> {
        self.outputs.iter().filter(move |output| short(&output.port) == short(port))
    }

    /// Whether a replica that sends has one of a port's queues: first of all have those that are
    /// the first of their element.
    fn has_queue(&self, output: &Output, queues: u16) -> bool {
        let is_before = |other: &&Output| other.rank == 0 && output.rank != 0;
        let first = self.outputs_of(&output.port).filter(is_before).count();
        let alike = |other: &&Output| (other.rank == 0) == (output.rank == 0);
        let mut alike = self.outputs_of(&output.port).filter(alike);
        let place = alike.position(|other| other == output);
        place.is_some_and(|place| first + place < usize::from(queues))
    }

    /// The receivers of a port's queues: those that want certain ones, and the others in the
    /// room that is left, in order.
    fn layout(&self, port: &str) -> Vec<(&Input, Range<u16>)> {
        let all = || self.inputs.iter().filter(|input| short(&input.port) == short(port));
        let mut taken: Vec<(&Input, Range<u16>)> = Vec::new();
        for input in all() {
            if let Some(first) = input.first {
                taken.push((input, first..first.saturating_add(input.queues)));
            }
        }
        for input in all().filter(|input| input.first.is_none()) {
            let mut first = 0_u16;
            let hits = |first: u16, other: &Range<u16>| {
                first < other.end && other.start < first.saturating_add(input.queues)
            };
            while let Some((_, other)) = taken.iter().find(|(_, other)| hits(first, other)) {
                first = other.end;
            }
            taken.push((input, first..first.saturating_add(input.queues)));
        }
        taken
    }

    fn queues_of(&self, element: &str) -> Range<u16> {
        let input = self.inputs.iter().find(|input| input.element == element);
        let layout = input.map(|input| self.layout(&input.port)).unwrap_or_default();
        let own = layout.into_iter().find(|(input, _)| input.element == element);
        own.map_or(0..0, |(_, queues)| queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(element: &str, first: Option<u16>, queues: u16) -> Input {
        Input {
            element: element.to_owned(),
            port: "p".to_owned(),
            first,
            queues,
            threads: 1,
            rank: 0,
            promiscuous: element == "a",
            checks: false,
            mtu: None,
            slots: 0,
        }
    }

    fn output(element: &str, rank: usize, queue: Option<u16>) -> Output {
        let (port, element) = ("p".to_owned(), element.to_owned());
        Output { port, rank, element, queue, mtu: Some(1400), slots: 512 }
    }

    #[test]
    fn queues_are_dealt_out() {
        let inputs = vec![
            input("a", None, 1),
            input("b", Some(0), 2),
            input("c", None, 2),
            input("d", Some(3), 1),
        ];
        let state = PortState { inputs, ..PortState::default() };
        let of = |name| state.queues_of(name);
        assert_eq!((of("a"), of("b"), of("c"), of("d")), (2..3, 0..2, 4..6, 3..4));
        let request = state.request("p");
        assert_eq!((request.rx_queues, request.tx_queues, request.promiscuous), (6, 0, true));
        assert_eq!(state.request("q"), PortConfig { promiscuous: false, ..PortConfig::default() });
    }

    #[test]
    fn every_replica_that_sends_has_a_queue_if_there_are_enough() {
        let outputs = vec![output("a", 0, None), output("a", 1, None), output("b", 0, Some(0))];
        let mut state = PortState { outputs: outputs.clone(), ..PortState::default() };
        let request = state.request("p");
        assert_eq!((request.tx_queues, request.tx_queues_min), (3, 2));
        assert_eq!((request.mtu, request.tx_slots), (Some(1400), 512));
        let have = |queues| outputs.iter().map(|one| state.has_queue(one, queues)).collect();
        let all: [Vec<bool>; 2] = [have(2), have(3)];
        assert_eq!(all, [vec![true, false, true], vec![true, true, true]]);
        let with_arguments = Output { port: "p,x=1".to_owned(), ..output("c", 0, Some(7)) };
        state.outputs.push(with_arguments);
        assert_eq!(state.whole_name("p"), "p,x=1");
        assert_eq!((state.request("p").tx_queues, state.request("p").tx_queues_min), (8, 8));
    }
}
