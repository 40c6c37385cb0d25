//! Balance: sessions spread over replicas of a function, by their load.

use std::any::Any;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Changes, Cx, Element, Ended, Entry, HandlerError, Handlers,
    HotSwap, Nanos, Operation, PerSession, Replicas, SessionFunction, Spec, Topic, Ty, Wants,
};
use thruway_packet::Batch;
use zerocopy::FromBytes;

use super::pool::{Member, Method, Pool, Standing, WEIGHT_MAX};
use assigned::Assigned;
use lost::Lost;
use moves::{Move, Mover};
use spread::{Replica, Spread};

mod assigned;
mod carry;
mod hash;
mod held;
mod lost;
mod moves;
mod spread;
#[cfg(test)]
mod tests;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Balance>(
    Spec {
        name: "Balance",
        topic: Topic::Sessions,
        summary: "spreads sessions over replicas of a function, by their load",
        docs: "Sends each session to one of several replicas of a function, and all its packets to \
               that one, in both directions: a replica has the state of its sessions. With one \
               input, output N leads to replica N. With two inputs (one for each direction) and R \
               replicas, packets of input 0 leave by the outputs 0 to R - 1 and those of input 1 \
               by R to 2R - 1.\n\n\
               METHOD selects how a new session gets its replica: least-queue (the one for which \
               the fewest packets wait: in the rings of its Nf, its Queue, or whatever keeps \
               packets nearest behind its output; of several the one with the fewest sessions), \
               least-sessions, weighted (round robin), or consistent-hash (rendezvous hashing of \
               addresses and ports, so that all threads and hosts choose alike). WEIGHTS are the \
               replicas' shares, from 1 on, in order. DRAINED names replicas that get no new \
               sessions at first, or from a hot swap on.\n\n\
               A replica with a full queue, or with a function that does not run, gets no new \
               sessions as long as others can have them. When it has been so for FAILOVER without \
               a break, its sessions go to others; with FAILOVER 0 they wait for it. Handlers \
               change replicas at run time: drain (no new sessions, open ones go on; with now they \
               move, with anew they begin again at other replicas, with their next packet), \
               resume, weight, move. When all are drained, packets of new sessions are dropped. A \
               new configuration that takes over keeps the sessions of replicas that it has, \
               too.\n\n\
               Sessions that move take with them what their function keeps of them, if the first \
               element behind each output that keeps packets is an Nf with SESSION: packets that \
               come meanwhile wait here until the old replica has given back those that it has, \
               and go on as the new one takes them, so that none is overtaken or lost. The \
               function there may be a newer version that keeps more of a session; it finds zeros \
               there. Behind other elements sessions begin anew, with their next packet.\n\n\
               A packet without a session (ARP, fragments) goes to the first replica that takes \
               sessions. FlowClassifier finds the sessions, so it must be upstream, in both \
               directions.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> b :: Balance(METHOD weighted, WEIGHTS 3 1); \
                  b[0] -> Counter -> d :: Discard; b[1] -> Counter -> d",
        ports: "1-2/-",
        processing: "h/h",
        straight: true,
        args: &[
            Arg::keyword("METHOD", Ty::Choice(METHODS), "how a replica is chosen")
                .or("least-queue"),
            Arg::keyword("WEIGHTS", Ty::Rule("WEIGHT..."), "of each replica; all 1 if not given"),
            Arg::keyword("DRAINED", Ty::Rule("REPLICA..."), "replicas that get no new sessions"),
            Arg::keyword(
                "FAILOVER",
                Ty::Time,
                "until sessions leave a replica that fails; 0: never",
            )
            .or("1s"),
        ],
        drops: Lost::DROPS,
        wants: Wants { shared_words: 1, ..Wants::session::<Assigned>("connection") },
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once()],
        replicas: Replicas::Apart(
            "each spreads the sessions that begin in its thread, by the queues of its thread",
        ),
        ..Spec::DEFAULT
    },
    build,
)
.with_session_function::<Balance>()
.with_hot_swap::<Balance>();

/// The words for the methods.
const METHODS: &[&str] = &["least-queue", "least-sessions", "weighted", "consistent-hash"];

/// The method of one of [`METHODS`].
fn method(word: &str) -> Option<Method> {
    use Method::{ConsistentHash, LeastQueue, LeastSessions, Weighted};
    let at = METHODS.iter().position(|known| *known == word)?;
    [LeastQueue, LeastSessions, Weighted, ConsistentHash].get(at).copied()
}

/// The treatment of the sessions of a drained replica.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// They stay until they end.
    Stay,
    /// They move with their state.
    Move,
    /// They begin anew at another replica.
    Anew,
}

#[derive(Handlers)]
#[handler(
    read, name = "replicas", "a line per replica: number, weight, up, drained or failed",
    get = self.lines(cx, |of| format!("{} {} {}", of.id, of.weight, standing(of)))
)]
#[handler(
    sum, name = "counts", "a line per replica: number, sessions now and so far, packets, bytes",
    get = self.counts(cx)
)]
#[handler(
    sum, name = "queues", "a line per replica: number, packets that wait for it",
    get = self.lines(cx, |of| format!("{} {}", of.id, of.queue))
)]
#[handler(
    sum, name = "moved", "sessions that went from one replica to another",
    get = self.looked(cx).moved
)]
#[handler(
    read, concat, name = "moving", "moves in progress: a line `FROM TO MOVED LEFT_BEHIND`",
    get = self.mover(cx).describe()
)]
#[handler(
    sum, name = "pauses", "parts that moved by their packets' wait: a line `<LIMIT COUNT`",
    get = self.mover(cx).pauses()
)]
#[handler(
    read, lines, name = "pause_max", "longest wait of packets for a move, in nanoseconds",
    get = self.mover(cx).pause_max()
)]
#[handler(
    write, name = "drain", "REPLICA [now | anew]: no new sessions; now: those it has move",
    write = self.write(cx, name, value)
)]
#[handler(
    write, name = "resume", "REPLICA: new sessions again", write = self.write(cx, name, value)
)]
#[handler(
    write, name = "weight", "REPLICA WEIGHT: another weight for new sessions",
    write = self.write(cx, name, value)
)]
#[handler(
    write, name = "move", "FROM [TO [COUNT | all]]: sessions go to TO, or to others",
    write = self.write(cx, name, value)
)]
struct Balance {
    spread: Spread,
    mover: Mover,
}

/// How many replicas the ports are for.
fn replicas(args: &Args<'_>) -> Result<usize, ArgErrors> {
    let (inputs, outputs) = (args.env().inputs.max(1), args.env().outputs);
    match outputs.checked_rem(inputs) {
        Some(0) if outputs > 0 => Ok(outputs / inputs),
        _ => Err(ArgErrors::whole(format!(
            "has {inputs} inputs and {outputs} outputs: connect {inputs} outputs for each replica"
        ))),
    }
}

fn weights(args: &Args<'_>, replicas: usize) -> Result<Vec<u32>, ArgError> {
    let Some(text) = args.text("WEIGHTS") else { return Ok(vec![1; replicas]) };
    let weights: Vec<u32> = text
        .split_whitespace()
        .map(|word| word.parse().map_err(|_| format!("'{word}' is no weight; 1 to {WEIGHT_MAX}")))
        .collect::<Result<_, String>>()
        .map_err(|message| args.error("WEIGHTS", message))?;
    if weights.len() != replicas {
        let message =
            format!("{} weights for {replicas} replicas: give one for each", weights.len());
        return Err(args.error("WEIGHTS", message));
    }
    Ok(weights)
}

/// The replicas that get no new sessions.
fn drained(args: &Args<'_>, replicas: usize) -> Result<Vec<Replica>, ArgError> {
    let number = |word: &str| {
        let number = word.parse().ok().filter(|number| (*number as usize) < replicas);
        let last = replicas - 1;
        number.map(Replica).ok_or_else(|| format!("'{word}' is no replica; 0 to {last}"))
    };
    let words = args.text("DRAINED").unwrap_or_default().split_whitespace();
    words.map(number).collect::<Result<_, _>>().map_err(|message| args.error("DRAINED", message))
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let word: String = args.get("METHOD")?;
    let method = method(&word).ok_or_else(|| {
        args.error("METHOD", format!("'{word}' is none of {}", METHODS.join(", ")))
    })?;
    let Nanos(failover) = args.get("FAILOVER")?;
    let replicas = replicas(args)?;
    let mut pool = Pool::new(method);
    for (at, weight) in weights(args, replicas)?.into_iter().enumerate() {
        pool.add(Replica(at as u32), weight).map_err(|why| args.error("WEIGHTS", why))?;
    }
    for replica in drained(args, replicas)? {
        pool.named(replica).map_err(|why| args.error("DRAINED", why))?.standing = Standing::Drained;
    }
    Ok(Box::new(Balance { spread: Spread::new(pool, replicas, failover), mover: Mover::new() }))
}

impl Element for Balance {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.spread.find_buffers(cx);
        self.mover.start(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.spread.look(cx);
        if let Some(failed) = self.spread.take_failed() {
            self.mover.begin_or_queue(cx, &mut self.spread, Move::all(failed));
        }
        // Moves go on in the timer alone. Packets that this element sent earlier in the same round
        // may not have reached their function yet, which then would not count them.
        if self.mover.is_busy() {
            self.mover.hold(cx, port, batch);
        }
        self.spread.input = port;
        cx.per_session(&mut self.spread, batch);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.spread.look(cx);
        self.mover.advance(cx, &mut self.spread);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.count_drops(Lost::Unfinished, self.mover.forget());
        Ok(())
    }
}

impl Balance {
    fn change(&mut self, cx: &mut Cx<'_>, what: &str, value: &str) -> Result<(), String> {
        if what == "move" {
            let asked = Move::parse(value)?;
            return self.mover.ask(cx, &mut self.spread, asked);
        }
        let (value, leave) = match value.trim().rsplit_once(' ') {
            Some((replica, "now")) if what == "drain" => (replica, Leave::Move),
            Some((replica, "anew")) if what == "drain" => (replica, Leave::Anew),
            _ => (value, Leave::Stay),
        };
        let (replica, rest) = value.trim().split_once(char::is_whitespace).unwrap_or((value, ""));
        let (replica, rest) = (replica.trim(), rest.trim());
        let number =
            replica.parse().map_err(|_| format!("'{replica}' is no number of a replica"))?;
        let id = Replica(number);
        match what {
            "weight" => {
                let weight = rest.parse().map_err(|_| format!("'{rest}' is no weight"))?;
                self.spread.pool.set_weight(id, weight)
            }
            _ if !rest.is_empty() => Err(format!("takes the number of a replica, not '{value}'")),
            _ => {
                let standing = if what == "drain" { Standing::Drained } else { Standing::Up };
                self.spread.pool.named(id)?.standing = standing;
                match leave {
                    Leave::Stay => Ok(()),
                    Leave::Move => self.mover.ask(cx, &mut self.spread, Move::all(id)),
                    Leave::Anew => self.spread.pool.let_go(id),
                }
            }
        }
    }
}

/// Description of the handler for whether a replica takes sessions.
fn standing(replica: &Member<Replica>) -> String {
    match replica.standing {
        Standing::Up if replica.is_passed_over => "failed".to_owned(),
        standing => standing.to_string(),
    }
}

impl Balance {
    /// How things stand now.
    fn looked(&mut self, cx: &mut Cx<'_>) -> &Spread {
        self.spread.look(cx);
        &self.spread
    }

    fn mover(&mut self, cx: &mut Cx<'_>) -> &Mover {
        self.spread.look(cx);
        &self.mover
    }

    /// A line for each replica.
    fn lines(&mut self, cx: &mut Cx<'_>, line: fn(&Member<Replica>) -> String) -> String {
        self.looked(cx).pool.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn counts(&mut self, cx: &mut Cx<'_>) -> String {
        self.lines(cx, |of| {
            format!("{} {} {} {} {}", of.id, of.sessions, of.total, of.packets, of.bytes)
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let refused = |message| HandlerError::refused(format!("{name}: {message}"));
        self.change(cx, name, value).map_err(refused)
    }
}

impl SessionFunction for Balance {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        if let Ok(state) = Assigned::read_from_bytes(state) {
            self.spread.close(&state, why);
        }
    }
}

impl HotSwap for Balance {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.spread.pool.hand_over(), self.mover.hand_over())))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(state) = state.downcast::<(Vec<Member<Replica>>, Mover)>() {
            let (members, mover) = *state;
            self.spread.take_over(members);
            self.mover = mover;
        }
    }
}
