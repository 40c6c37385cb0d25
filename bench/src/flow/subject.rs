//! What is measured: a configuration with its sessions open, or the opening of sessions.

use thruway_engine::{Options, Router};

use super::order::Order;
use crate::case::Subject;
use crate::measure::Meter;
use crate::registry;

/// A configuration that packets of so many sessions go through.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What stands between `SessionSource` and `Discard`.
    pub middle: String,
    /// Elements and connections beside it.
    pub beside: String,
    /// How many sessions.
    pub sessions: u32,
    /// Whether packets are in flight in other processes when the source has sent all.
    pub is_isolated: bool,
}

impl Setting {
    /// The whole configuration.
    pub fn text(&self) -> String {
        let Setting { middle, beside, sessions, .. } = self;
        let middle = if middle.is_empty() { String::new() } else { format!("{middle} -> ") };
        format!("source :: SessionSource({sessions});\n{beside}\nsource -> {middle}out :: Discard;")
    }

    /// Built and ready; no packet was sent yet.
    pub fn build(&self) -> anyhow::Result<Running> {
        let options = Options { drain: self.is_isolated, ..Options::default() };
        let router = registry::router("flow", self.text(), &options)?;
        Ok(Running { router, sessions: self.sessions })
    }
}

/// A configuration that runs from time to time.
pub struct Running {
    /// The engine.
    pub router: Router,
    sessions: u32,
}

impl Running {
    /// Has the source send packets in this order from now on.
    pub fn order(&mut self, order: Order) -> anyhow::Result<()> {
        let word = match order {
            Order::Once => "once",
            Order::Uniform => "uniform",
            Order::Zipf => "zipf",
        };
        Ok(self.router.write("source.order", word)?)
    }

    /// Sends so many packets; all must arrive.
    pub fn send(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let before = self.count("out.packets")?;
        self.router.write("source.left", &packets.to_string())?;
        meter.time(|| self.router.run_threads());
        let arrived = self.count("out.packets")? - before;
        anyhow::ensure!(arrived == packets, "{arrived} of {packets} packets arrived");
        Ok(packets)
    }

    /// Sends a packet of each session.
    pub fn open(&mut self, meter: &mut Meter) -> anyhow::Result<u64> {
        self.order(Order::Once)?;
        self.send(u64::from(self.sessions), meter)
    }

    /// A number that a handler reports.
    pub fn count(&mut self, handler: &str) -> anyhow::Result<u64> {
        Ok(self.router.read(handler)?.trim().parse()?)
    }

    /// Sessions of the first classifier's table; there must be as many as were opened.
    fn check(&mut self) -> anyhow::Result<()> {
        if self.router.flows().plan.entries.is_empty() {
            return Ok(());
        }
        let now = self.count("fc.sessions")?;
        let expected = u64::from(self.sessions);
        anyhow::ensure!(now == expected, "{now} sessions are open, not {expected}");
        Ok(())
    }
}

/// Packets of sessions that are open.
pub struct Known(Running);

impl Known {
    /// All sessions are opened, and then come in this order.
    pub fn new(setting: &Setting, order: Order) -> anyhow::Result<Known> {
        let mut running = setting.build()?;
        running.open(&mut Meter::new())?;
        running.order(order)?;
        Ok(Known(running))
    }
}

impl Subject for Known {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let sent = self.0.send(packets, meter)?;
        self.0.check()?;
        Ok(sent)
    }
}

/// The opening of sessions: a configuration without any each time.
pub struct Opening(pub Setting);

impl Subject for Opening {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let mut done = 0;
        while done < packets.min(u64::from(self.0.sessions) * 64) {
            let mut running = self.0.build()?;
            done += running.open(meter)?;
            running.check()?;
        }
        Ok(done)
    }
}
