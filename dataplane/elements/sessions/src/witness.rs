//! Witness: grants leases to the hosts of a pair, so that no two serve at once.

use std::net::SocketAddr;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Spec,
    Topic, Ty,
};
use thruway_replication::{Key, WitnessState};
use thruway_sync::atomic::Ordering;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Witness>(
    Spec {
        name: "Witness",
        topic: Topic::Sessions,
        summary: "has at most one host of a pair serve while they are cut off from each other",
        docs: "Runs on a third host. The two hosts of a pair (Replicate with WITNESS) ask it for \
               leases: the host that serves renews its own, and the backup asks for the next one \
               before it takes over, which is granted when the other host's has ended. A host that \
               can neither reach its backup nor renew its lease serves no traffic.\n\n\
               KEY is the file of the pair. A Witness is for one pair; write one for each, with \
               ports of their own. It forgets what it granted when it ends: it then grants \
               nothing for the time of a lease. Traffic does not depend on it while the two hosts reach \
               each other.",
        example: "Witness(LISTEN 198.51.100.3:7071, KEY /etc/thruway/key)",
        ports: "0/0",
        args: &[
            Arg::required_keyword("LISTEN", Ty::Any, "where it listens: IP address and TCP port"),
            Arg::required_keyword("KEY", Ty::File, "file with the secret of the pair"),
        ],
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::OneThread("there is one witness of a pair"),
        ..Spec::DEFAULT
    },
    build,
);

/// Time between two looks for lines to log, nanoseconds.
const TICK_NS: i64 = 100_000_000;

#[derive(Handlers)]
#[handler(
    read, name = "term", "the last term granted, and whether it still is; - if there is none",
    get = self.term()
)]
#[handler(
    read, name = "granted", "leases granted",
    get = self.state.granted.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "denied", "claims that another host's lease stood against",
    get = self.state.denied.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "refused", "connections without the key, or that sent something else than claims",
    get = self.state.refused.load(Ordering::Relaxed)
)]
struct Witness {
    listen: SocketAddr,
    key: String,
    state: Arc<WitnessState>,
    /// Its threads.
    witness: Option<thruway_replication::Witness>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let text = args.text("LISTEN").unwrap_or_default().trim();
    let Ok(listen) = text.parse() else {
        let why = format!("'{text}': expected IP:PORT, as 192.0.2.1:7071");
        return Err(args.error("LISTEN", why).into());
    };
    let (key, state) = (args.get("KEY")?, Arc::default());
    Ok(Box::new(Witness { listen, key, state, witness: None }))
}

impl Witness {
    fn term(&self) -> String {
        self.state.term().map_or("-".to_owned(), |(term, is_granted)| {
            format!("{} {}", term.number(), if is_granted { "granted" } else { "over" })
        })
    }
}

impl Element for Witness {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let key = Key::of_file(&self.key).map_err(|error| error.to_string())?;
        let begun = thruway_replication::Witness::begin(&self.state, self.listen, key)?;
        self.witness = Some(begun);
        cx.set_timer(0, cx.now().saturating_add(TICK_NS));
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        while let Some(line) = self.state.line() {
            cx.log(&format!("Witness: {line}"));
        }
        cx.set_timer(0, cx.now().saturating_add(TICK_NS));
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.witness = None;
        Ok(())
    }
}
