//! Figures are read while the threads of their elements do not answer.

mod support;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use support::ELEMENTS;
use support::router::router_of;
use thruway_element::{
    Cx, Element, Entry, Facts, Handler, HandlerError, Handlers, Publisher, Registry, Run, Spec,
    Threading,
};
use thruway_engine::{Control, Options, Router};
use thruway_packet::{Batch, Packet};

const DEADLINE: Duration = Duration::from_secs(20);

static REGISTRY: Registry = Registry(&[ELEMENTS, &[&FEED, &GAUGE]]);

/// Where threads are held: how many are to be, and how many are.
static GATE: Mutex<(bool, usize)> = Mutex::new((false, 0));
static CHANGED: Condvar = Condvar::new();

static FEED: Entry = Entry::new(
    Spec { name: "Feed", ports: "0/1", threading: Threading::Task, ..Spec::DEFAULT },
    |_args| Ok(Box::new(Feed(3))),
);

/// So many packets; then its thread is held while the gate is closed.
struct Feed(u8);

impl Element for Feed {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.0 > 0 {
            self.0 -= 1;
            cx.emit(0, Packet::new(&[self.0]).expect("memory"));
            return Run::Again;
        }
        let mut gate = GATE.lock();
        if gate.0 {
            gate.1 += 1;
            CHANGED.notify_all();
            CHANGED.wait_while(&mut gate, |gate| gate.0);
        }
        Run::Again
    }
}

static GAUGE: Entry = Entry::new(
    Spec {
        name: "Gauge",
        ports: "1/0",
        handlers: &[Handler::sum("seen", ""), Handler::read("limit", "")],
        ..Spec::DEFAULT
    },
    |_args| Ok(Box::new(Gauge(0))),
)
.with_handlers::<Gauge>()
.with_publisher::<Gauge>();

/// Counts packets, and says so.
struct Gauge(u64);

impl Element for Gauge {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.0 += batch.len() as u64;
    }
}

impl Handlers for Gauge {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.0.to_string())
    }
}

impl Publisher for Gauge {
    fn figures(&self) -> &'static [&'static str] {
        &["seen", "limit"]
    }

    fn publish(&self, _cx: &mut Cx<'_>, values: &mut [u64]) {
        values.copy_from_slice(&[self.0, 10]);
    }

    fn facts(&self) -> Option<Arc<dyn Facts>> {
        Some(Arc::new(Mood))
    }
}

struct Mood;

impl Facts for Mood {
    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("mood", "good,\tas\nalways\n".to_owned())]
    }
}

fn router(text: &str) -> Router {
    router_of(&REGISTRY, text, &Options { threads: 2, ..Options::default() })
}

/// Figures as soon as they have this line.
fn wait_for(control: &Control, line: &str) -> String {
    let begun = Instant::now();
    loop {
        let text = control.read("figures").unwrap_or_default();
        if text.lines().any(|one| one == line) {
            return text;
        }
        assert!(begun.elapsed() < DEADLINE, "no '{line}': {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn close_gate() {
    let mut gate = GATE.lock();
    gate.0 = true;
    let late = CHANGED.wait_while_for(&mut gate, |gate| gate.1 < 2, DEADLINE);
    assert!(!late.timed_out(), "both threads are held");
}

fn open_gate() {
    GATE.lock().0 = false;
    CHANGED.notify_all();
}

#[test]
fn figures_are_read_while_all_threads_are_held() {
    let mut router = router("a :: Feed -> g :: Gauge; b :: Feed -> g; StaticThreadSched(a 0, b 1)");
    let control = Arc::clone(router.control());
    std::thread::scope(|scope| {
        let run = scope.spawn(move || router.run());
        // Of both threads; of what is no sum, of the first.
        let before = wait_for(&control, "figure\tg\tseen\t6");
        assert_eq!(
            before,
            "figure\tg\tseen\t6\nfigure\tg\tlimit\t10\nfact\tg\tmood\tgood, as always\n"
        );
        close_gate();
        let held = control.read("figures").expect("figures");
        // A handler of the element itself waits for its threads.
        let (answered, answer) = channel();
        let asker = Arc::clone(&control);
        scope.spawn(move || answered.send(asker.read("g.seen").expect("an answer")));
        let early = answer.recv_timeout(Duration::from_millis(300));
        open_gate();
        assert_eq!((held, early), (before, Err(RecvTimeoutError::Timeout)));
        assert_eq!(answer.recv_timeout(DEADLINE).as_deref(), Ok("6"));
        control.halt();
        assert!(run.join().expect("it ends").errors.is_empty());
    });
}
