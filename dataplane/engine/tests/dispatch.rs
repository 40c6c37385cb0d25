//! The engine's guarantees: order, merging, pull, timers, threads, statistics.

mod support;

use parking_lot::Mutex;
use support::LOG;
use support::router::router;
use thruway_engine::{ClockKind, Options, Router};

/// The recorders' log is shared: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn run(text: &str, options: &Options) -> (Vec<(String, u8)>, Router) {
    LOG.lock().clear();
    let mut router = router(text, options);
    let outcome = router.run();
    assert!(outcome.errors.is_empty());
    (std::mem::take(&mut *LOG.lock()), router)
}

fn names(log: &[(String, u8)]) -> Vec<String> {
    log.iter().map(|(name, byte)| format!("{name}{byte}")).collect()
}

const DIAMOND: &str = "s :: Source(4, BURST); t :: Copy; s -> t;
    t[0] -> a :: Record -> c :: Record; t[1] -> b :: Record -> c -> Sink;";

#[test]
fn one_packet_goes_depth_first_in_order_of_outputs() {
    let _turn = TURN.lock();
    let (log, _) = run(&DIAMOND.replace("BURST", "1"), &Options::default());
    assert_eq!(names(&log)[..8], ["a0", "c0", "b0", "c0", "a1", "c1", "b1", "c1"]);
}

#[test]
fn vectors_go_in_topological_order_and_merge_where_paths_join() {
    let _turn = TURN.lock();
    let (log, router) = run(&DIAMOND.replace("BURST", "4"), &Options::default());
    let expected = ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "c0", "c1", "c2", "c3"];
    assert_eq!(names(&log)[..12], expected);
    let node = router.layout().find("c").unwrap();
    let stats = &router.stats()[0][node];
    assert_eq!((stats.packets.get(), stats.batches.get()), (8, 1));
}

#[test]
fn order_on_every_connection_is_kept() {
    let _turn = TURN.lock();
    for burst in [1, 3, 256] {
        let text = format!(
            "Source(100, {burst}) -> s :: Split; s[0] -> even :: Record -> Sink; s[1] -> odd :: Record -> Sink;"
        );
        let (log, _) = run(&text, &Options::default());
        for (name, rest) in [("even", 0), ("odd", 1)] {
            let seen: Vec<u8> = log.iter().filter(|(n, _)| n == name).map(|(_, b)| *b).collect();
            assert_eq!(seen, (0..100).filter(|n| n % 2 == rest).collect::<Vec<u8>>());
        }
    }
}

#[test]
fn batches_beyond_the_limit_are_cut_and_nothing_is_lost() {
    let _turn = TURN.lock();
    let (log, router) =
        run("Source(32, 32) -> Multiply -> r :: Record -> Sink;", &Options::default());
    assert_eq!(log.len(), 32 * 40);
    let node = router.layout().find("r").unwrap();
    assert_eq!(router.stats()[0][node].batches.get(), 1280_u64.div_ceil(256));
}

#[test]
fn pull_paths_run_through_agnostic_elements() {
    let _turn = TURN.lock();
    let (log, mut router) = run(
        "s :: Source(20, 5, STOP false) -> Store -> f :: Split -> r :: Record -> u :: Puller
            -> Sink; f[1] -> odd :: Record -> Sink; Tick -> Sink;",
        &Options { clock: ClockKind::Simulated(0), ..Options::default() },
    );
    let count = |name: &str| log.iter().filter(|(n, _)| n == name).count();
    assert_eq!((count("r"), count("odd")), (10, 10));
    assert_eq!(router.read("s.count").unwrap(), "20");
    assert_eq!(router.read("u.packets").unwrap(), "10");
}

#[test]
fn simulated_time_jumps_from_timer_to_timer() {
    let _turn = TURN.lock();
    let begin = std::time::Instant::now();
    let (log, _) = run(
        "Tick -> t :: Record -> Sink;",
        &Options { clock: ClockKind::Simulated(5), ..Options::default() },
    );
    assert_eq!(names(&log), ["t1", "t2", "t3"]);
    assert!(begin.elapsed().as_secs() < 2, "three simulated seconds take no time");
}

#[test]
fn a_loop_of_the_graph_ends_at_a_halt() {
    let _turn = TURN.lock();
    for burst in [1, 2] {
        let mut router = router(
            &format!(
                "Source(2, {burst}) -> a :: Split -> b :: Split -> a; a[1] -> Sink; b[1] -> Sink;"
            ),
            &Options::default(),
        );
        let control = std::sync::Arc::clone(router.control());
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            control.halt();
        });
        router.run();
    }
}

#[test]
fn threads_have_replicas_and_handlers_add_up() {
    let _turn = TURN.lock();
    let (log, mut router) = run(
        "s1 :: Source(1000, 10) -> q :: Store -> p :: Puller -> r :: Record -> Sink;
         s2 :: Source(1000, 10, STOP false) -> q; s1b :: Source(500, 7, STOP false) -> r;
         StaticThreadSched(s1 0, s2 1, p 1, s1b 0);",
        &Options { threads: 2, ..Options::default() },
    );
    let layout = router.layout();
    let threads = |name: &str| layout.threads[layout.find(name).unwrap()].clone();
    assert_eq!(threads("q"), [0, 1]);
    assert_eq!(threads("r"), [0, 1]);
    assert_eq!(threads("s1"), [0]);
    let seen: u64 = router.read("r.packets").unwrap().trim().parse().unwrap();
    assert_eq!(seen, log.len() as u64, "both replicas' counts are in the answer");
    assert!(seen > 0);
}

#[test]
fn handlers_are_found_by_name_and_number_and_refused_clearly() {
    let _turn = TURN.lock();
    let (_, mut router) = run("s :: Source(3) -> r :: Record -> Sink;", &Options::default());
    assert_eq!(router.read("r.class").unwrap(), "Record");
    assert_eq!(router.read("2.name").unwrap(), "r");
    assert_eq!(router.read("s.packets").unwrap(), "3");
    assert!(router.read("list").unwrap().starts_with("3\ns\nr\n"));
    assert!(router.read("r.ports").unwrap().contains("push~\t-\ts [0]"));
    assert_eq!(router.read("x.class").unwrap_err().to_string(), "no element named 'x'");
    assert_eq!(
        router.read("r.nothing").unwrap_err().to_string(),
        "no read handler named 'nothing'"
    );
    assert_eq!(
        router.write("r.count", "1").unwrap_err().to_string(),
        "no write handler named 'count'"
    );
}

#[test]
fn a_stop_drains_queues_where_that_is_asked_for() {
    let _turn = TURN.lock();
    let text = "Source(2000, 256) -> Store -> Puller -> r :: Record -> Sink;";
    for threads in [1, 2] {
        let options = Options { drain: true, threads, spread: true, ..Options::default() };
        let begin = std::time::Instant::now();
        assert_eq!(run(text, &options).0.len(), 2000);
        assert!(begin.elapsed().as_millis() < 900, "an idle router need not wait out the limit");
    }
    assert!(run(text, &Options::default()).0.len() < 2000, "without, it stops at once");
}

#[test]
fn a_source_that_is_pulled_does_not_run_by_itself() {
    let _turn = TURN.lock();
    let (log, _) = run("Either(9) -> Puller -> r :: Record -> Sink;", &Options::default());
    assert_eq!(log.len(), 9);
}

#[test]
fn statistics_report_all_counters_at_once() {
    let _turn = TURN.lock();
    let text = "s :: Source(6, 3) -> a :: Record -> Sink";
    let (_, mut router) = run(text, &Options { threads: 2, ..Options::default() });
    let text = router.read("statistics").unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines[0][0], lines[0].len()), ("time", 3));
    let of = |word: &str| lines.iter().filter(|line| line[0] == word).collect::<Vec<_>>();
    let threads = of("thread");
    assert_eq!(threads.len(), 2);
    // The first thread has it all: 6 packets made, by the source's 2 batches; 3 elements saw them.
    assert_eq!(threads[0][3..6], ["6", "18", "6"]);
    assert_eq!(threads[1][3..6], ["0", "0", "0"]);
    assert!(threads.iter().all(|thread| thread[2].parse::<u64>().is_ok()), "{text}");
    // Each thread's clock: the system's, the default.
    let clocks = of("clock");
    assert!(clocks.len() == 2 && clocks.iter().all(|clock| clock[2] == "system"), "{text}");
    let element = of("element").into_iter().find(|line| line[1] == "a").unwrap();
    assert_eq!(element[2..5], ["Record", "6", "2"]);
    assert_eq!((element.len(), element[6]), (7, "0"), "it made none of its own");
}

#[test]
fn the_graph_is_reported_for_drawing() {
    let _turn = TURN.lock();
    let text = "s :: Source(6, 3) -> a :: Record -> Sink; Either(9) -> p :: Puller -> Sink";
    let (_, mut router) = run(text, &Options { threads: 2, ..Options::default() });
    let graph = router.read("graph").unwrap();
    let lines: Vec<Vec<&str>> = graph.lines().map(|line| line.split('\t').collect()).collect();
    let names: Vec<&str> =
        lines.iter().filter(|line| line[0] == "element").map(|line| line[1]).collect();
    let list = router.read("list").unwrap();
    assert_eq!(names, list.lines().skip(1).collect::<Vec<_>>());
    let at = |name: &str| names.iter().position(|one| *one == name).unwrap().to_string();
    let edges: Vec<&[&str]> =
        lines.iter().filter(|line| line[0] == "edge").map(|line| &line[1..]).collect();
    let (s, a, p) = (at("s"), at("a"), at("p"));
    assert!(edges.contains(&&[s.as_str(), "0", &a, "0", "push", "packet"][..]), "{graph}");
    assert!(edges.iter().any(|edge| edge[2] == p && edge[4] == "pull"), "{graph}");
    assert_eq!(edges.len(), 4, "{graph}");
    let element = &lines[a.parse::<usize>().unwrap()];
    assert_eq!(element[2], "Record");
    assert!(element.len() == 5 && !element[3].is_empty(), "{graph}");
}

#[test]
fn a_run_leaves_its_caller_the_cores_that_it_had() {
    let _turn = TURN.lock();
    let cores = || {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect::<Vec<_>>()
    };
    let before = cores();
    // What a hot swap brings is run by the same caller, with threads that inherit these.
    let (log, _) =
        run("Source(5, 5) -> Record -> Sink", &Options { threads: 2, ..Options::default() });
    assert_eq!((log.len(), cores()), (5, before));
}

#[test]
fn a_thread_that_dies_ends_the_run_and_is_named() {
    let _turn = TURN.lock();
    for (bomb, other) in [(0, 1), (1, 0)] {
        let text = format!(
            "Tick -> Record -> Sink; s :: Source(100, 10, STOP false) -> b :: Bomb -> Sink;
             StaticThreadSched(s {bomb}, Tick@1 {other})"
        );
        let mut router = router(&text, &Options { threads: 2, ..Options::default() });
        let outcome = router.run();
        let [death] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert_eq!(death.node, router.layout().find("b"));
        let start = format!("thread {bomb} died: a panic, 'boom' (in b); all threads were stopped");
        assert!(death.message.starts_with(&start), "{}", death.message);
        assert!(router.read("s.count").is_ok(), "the others can still be asked");
    }
    // A panic in a pull names the puller, too.
    let text = "Source(9, 9) -> Store -> b :: Bomb -> p :: Puller -> Sink";
    let mut router = router(text, &Options::default());
    let outcome = router.run();
    assert!(outcome.errors[0].message.contains("(in b, called by p)"), "{:?}", outcome.errors);
}

#[test]
fn a_signal_reaches_all_waiters_though_the_first_stops_the_driver() {
    let _turn = TURN.lock();
    let text = "a :: Await; b :: Await; c :: Await;";
    let placed = format!("{text} StaticThreadSched(b 1)");
    for (threads, text) in [(1, text), (2, &placed)] {
        // The order of the first and the others is a race.
        for _ in 0..300 {
            LOG.lock().clear();
            let options = Options { threads, ..Options::default() };
            let mut router = router(text, &options);
            let control = std::sync::Arc::clone(router.control());
            let sender = std::thread::spawn(move || {
                while !control.running() {
                    std::thread::yield_now();
                }
                assert!(control.signal(support::SIGNAL));
            });
            assert!(router.run().errors.is_empty());
            sender.join().unwrap();
            let mut ended = names(&LOG.lock());
            ended.sort_unstable();
            assert_eq!(ended, ["a0", "b0", "c0"], "{threads} threads");
        }
    }
}

#[test]
fn an_element_for_one_thread_is_refused_with_the_paths_of_others() {
    let _turn = TURN.lock();
    let refusal = |text: &str| {
        let loaded = thruway_lang::load(
            thruway_lang::Source::new("test", text),
            &support::REGISTRY,
            &thruway_lang::Variables::new(),
            &thruway_lang::NoLibraries,
        );
        let loaded = loaded.unwrap_or_else(|wrong| panic!("{}", wrong.render(false)));
        let options = Options { threads: 3, ..Options::default() };
        let made = Router::new(loaded.graph, loaded.checked, &support::REGISTRY, &options);
        made.err().map(|errors| errors[0].message.clone())
    };
    let text = "a :: Source(1) -> b :: Record -> one :: Single -> Sink; c :: Source(1) -> one;
                d :: Source(1) -> b;";
    assert_eq!(refusal(text), None);
    let remedy = "put a Pipeliner in front, or place what is before it in one thread \
                  (StaticThreadSched, THREADS of FromDevice)";
    let expected = format!(
        "one thread only can use it (it is a test), and 3 reach it: thread 0 comes from \
         a -> b -> one, thread 1 from c -> one, thread 2 from d -> b -> one; {remedy}"
    );
    assert_eq!(refusal(&format!("{text} StaticThreadSched(c 1, d 2)")), Some(expected));
    // Pulls go against the packets.
    let text = "a :: Source(1) -> q :: Store -> one :: Single -> p :: Puller -> Sink;
                b :: Source(1) -> x :: Record -> Sink; StaticThreadSched(p 1, one 2)";
    let expected = format!(
        "one thread only can use it (it is a test), and 2 reach it: thread 1 comes from \
         p <- one, thread 2 runs it itself; {remedy}"
    );
    assert_eq!(refusal(text), Some(expected));
}
