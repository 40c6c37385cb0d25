//! What is measured: a chain between clients and servers, with its connections open.

use thruway_engine::{Options, Router};

use crate::case::Subject;
use crate::measure::Meter;
use crate::registry;

/// How many connections.
const CONNECTIONS: u32 = 1_000;

/// A chain and what goes through it.
pub struct Setting {
    /// From the clients to the servers. In reverse, blocks are in reverse order, and elements
    /// of a block, such as those of a context, in the same.
    pub blocks: Vec<Vec<String>>,
    /// Bytes in a segment.
    pub payload: u32,
    /// One of so many runs of segments is out of order; 0: none.
    pub disorder: u32,
    /// Whether the text is of the same syllables as words.
    pub alike: bool,
}

impl Setting {
    /// The whole configuration.
    fn text(&self) -> String {
        let Setting { blocks, payload, disorder, alike } = self;
        let n = CONNECTIONS;
        let sessions = format!("FlowClassifier(SESSIONS_MAX {n}, EMBRYONIC_MAX {n})");
        let mut text = format!(
            "clients :: StreamClients({n}, {payload}, {disorder}, {alike}); servers :: StreamServers;\n\
             out :: Discard;\n"
        );
        let name = |block: usize, at: usize| format!("f{block}_{at}");
        let (mut there, mut back) = (format!("there :: {sessions}"), format!("back :: {sessions}"));
        for (block, elements) in blocks.iter().enumerate() {
            for (at, element) in elements.iter().enumerate() {
                text += &format!("{} :: {element};\n", name(block, at));
                there += &format!(" -> {}", name(block, at));
            }
        }
        for (block, elements) in blocks.iter().enumerate().rev() {
            for at in 0..elements.len() {
                let name = name(block, at);
                back += &format!(" -> [1]{name}; {name}[1]");
            }
        }
        text + &format!("clients -> {there} -> servers;\nservers -> {back} -> out;\n")
    }
}

/// Connections that are open.
pub struct Connections {
    router: Router,
}

impl Connections {
    /// Opens all of them.
    pub fn new(setting: &Setting) -> anyhow::Result<Connections> {
        let router = registry::router("stream", setting.text(), &Options::default())?;
        let mut connections = Connections { router };
        // A SYN and an acknowledgement of each.
        connections.send(2 * u64::from(CONNECTIONS), &mut Meter::new())?;
        anyhow::ensure!(connections.count("clients.count")? == 0, "a connection is open already");
        anyhow::ensure!(connections.count("out.count")? > 0, "no server answered");
        Ok(connections)
    }

    fn send(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<()> {
        self.router.write("clients.left", &packets.to_string())?;
        meter.time(|| self.router.run_threads());
        Ok(())
    }

    /// A number that a handler reports.
    fn count(&mut self, handler: &str) -> anyhow::Result<u64> {
        Ok(self.router.read(handler)?.trim().parse()?)
    }
}

impl Subject for Connections {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let answered = self.count("out.count")?;
        let before = self.count("clients.count")?;
        // Two of three have payload.
        self.send(packets * 2 / 3, meter)?;
        let sent = self.count("clients.count")?;
        let arrived = self.count("servers.segments")?;
        let early = self.count("servers.early")?;
        anyhow::ensure!(arrived >= sent, "{arrived} of {sent} segments arrived");
        anyhow::ensure!(early == 0, "{early} segments came too early");
        Ok(sent - before + self.count("out.count")? - answered)
    }
}
