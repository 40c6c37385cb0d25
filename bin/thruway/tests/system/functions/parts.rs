//! Isolated functions, played by the test program itself: a copy of it is the function's process,
//! and its command line says which part it plays.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use thruway_exchange::attach;
use thruway_nf::{Batch, Config, Counter, Cx, Function, Start, Timer, Verdict};
use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::{Hello, Wake};

use crate::streams::isolated;

/// What marks the word that names the part: as an option of the test harness it does nothing.
const MARK: &str = "part=";

/// In front of the name of a mode of misbehaviour: see `verify/hostile`.
pub const HOSTILE: &str = "hostile-";

/// What distinguishes versions of the program: a test writes another last byte into a copy.
pub static LABEL: [u8; 24] = *b"label of this program: 1";

/// EXEC of a function that plays a part.
pub fn exec(part: &str) -> String {
    let program = std::env::current_exe().expect("a program");
    let program = program.to_str().expect("plain text");
    format!("EXEC \"{program} {}\"", arguments(part))
}

/// Arguments of this program with which it plays a part.
pub fn arguments(part: &str) -> String {
    let test = "functions::parts::plays_its_part";
    let options = "--exact --nocapture --test-threads=1";
    format!("{test} {options} --skip {MARK}{part}")
}

/// Not a test of its own: where a copy of this program becomes a function.
#[test]
fn plays_its_part() {
    let part = std::env::args().find_map(|word| word.strip_prefix(MARK).map(str::to_owned));
    if let Some(part) = part {
        let done = play(&part);
        std::process::exit(i32::from(done != ExitCode::SUCCESS));
    }
}

fn play(part: &str) -> ExitCode {
    if let Some(mode) = part.strip_prefix(HOSTILE) {
        let mode = if mode == "stopped" { "mute" } else { mode };
        let done = thruway_hostile::modes::play(mode);
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (part, number) = part.split_once(':').unwrap_or((part, "0"));
    let number: u64 = number.parse().expect("a number");
    match part {
        "exits" => {
            eprintln!("the rule file is missing");
            return ExitCode::FAILURE;
        }
        "mute" => loop {
            std::thread::sleep(Duration::from_secs(1000));
        },
        "lies" => return break_protocol(number),
        "replaces" => return isolated::replace(number),
        "holds" => return isolated::hold_back(),
        "lies-of-streams" => return isolated::break_protocol(number),
        "stamps" | "checks" | "stamps-2" => return super::moves::play(part),
        "numbers" => return crate::replication::functions::play(number),
        "counts" => return super::sessions::play(number != 0),
        "workers-of-streams" => return super::workers::play_streams(),
        "workers" => return super::workers::play(number),
        _ => {}
    }
    let outputs = match part {
        "steers" | "suspects" => 2,
        "echoes" => 4,
        "cable" | "cable-thirds" => 2,
        _ => 1,
    };
    let config = Config { name: "player", outputs, ..Config::DEFAULT };
    let part = part.to_owned();
    thruway_nf::run(&config, |start| Player::new(&part, number, start))
}

/// Breaks the protocol at the packet of this number: the library would not let it.
fn break_protocol(number: u64) -> ExitCode {
    let (offer, name) = (Offer::ONE_WORKER, Hello::name_from("liar"));
    let hello = Hello { wake: Wake::Futex, outputs: 1, scratch_len: 0, stream: 0, offer, name };
    let mut attached = attach(&hello).expect("a host");
    attached.ready().expect("a host");
    let link = attached.links.first_mut().expect("a link");
    let mut seen = 0;
    loop {
        if link.worker.waiting() == 0 {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        seen += 1;
        let mut head = link.worker.head(0);
        if seen == number {
            head.len = 0;
        }
        link.worker.set_head(0, head);
        link.worker.advance(1);
        link.flush();
    }
}

struct Player {
    part: String,
    number: u64,
    seen: Counter,
}

impl Player {
    fn new(part: &str, number: u64, start: &mut Start<'_>) -> Result<Player, String> {
        if part == "refuses" {
            return Err("there is no rule 7".into());
        }
        let number = if part == "suspects" { start.role("scrubber").into() } else { number };
        if part == "ticks" {
            start.every(Duration::from_millis(5));
        }
        Ok(Player { part: part.to_owned(), number, seen: start.counter("seen") })
    }
}

impl Function for Player {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let (part, number, seen) = (self.part.as_str(), self.number, &self.seen);
        batch.each(|packet| {
            seen.add(1);
            match part {
                "dies" if seen.get() == number => std::process::abort(),
                "hangs" if seen.get() == number => loop {
                    std::thread::sleep(Duration::from_secs(1));
                },
                "idles" => {
                    let end = Instant::now() + Duration::from_nanos(number);
                    while Instant::now() < end {
                        std::hint::spin_loop();
                    }
                }
                "thirds" | "cable-thirds" if seen.get() % 3 == 0 => return Verdict::Drop,
                "doubles" => packet.emit_copy(0).expect("room"),
                // What has no room is lost: the host counts it.
                "adds" => (0..number).for_each(|_| {
                    let _ = packet.emit_copy(0);
                }),
                "works" => {
                    // As a function that looks at each byte for long: so many microseconds.
                    let begin = std::time::Instant::now();
                    while begin.elapsed() < Duration::from_micros(number) {}
                }
                "echoes" | "cable" | "cable-thirds" => return Verdict::Next(packet.input() as u8),
                "suspects" => return Verdict::Next(number as u8),
                "steers" => return Verdict::Next(packet.bytes()[0] & 1),
                "tags-doubles" => {
                    packet.push(4).expect("head room").copy_from_slice(b"tag!");
                    packet.emit_copy(0).expect("room");
                }
                "tags" => {
                    packet.push(4).expect("head room").copy_from_slice(b"tag!");
                }
                _ => {}
            }
            Verdict::Next(0)
        });
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _timer: Timer) {
        // A full ring is no failure: the next tick is as good.
        let _ = cx.inject(0, b"tick");
    }

    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, String> {
        match handler {
            "part" => Ok(format!("{} {parameter}", self.part)),
            "label" => {
                let label = std::hint::black_box(&LABEL).last().copied().unwrap_or_default();
                Ok(char::from(label).to_string())
            }
            _ => Err(format!("no handler '{handler}'")),
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        match handler {
            "part" => value.clone_into(&mut self.part),
            _ => return Err(format!("no handler '{handler}'")),
        }
        Ok(())
    }
}
