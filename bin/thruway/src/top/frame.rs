//! One view: what happened between two samples, as text.

use super::sample::{Element, Sample, Thread, Work};
use crate::table::{Table, thousands};

/// Elements that are shown at least, however small the screen.
const ELEMENTS_MIN: usize = 3;

/// What happened between two samples; elements as many as fit into so many rows.
pub fn text(address: &str, between: (&Sample, &Sample), rows: Option<usize>) -> String {
    let (before, now) = between;
    let seconds = span(before.nanoseconds, now.nanoseconds) as f64 / 1e9;
    let view = View { before, now, seconds };
    let made = |sample: &Sample| sample.threads.iter().map(|thread| thread.made).sum();
    let head = format!(
        "{address}: {} packets/s taken in, {} elements, over {seconds:.2} s\n",
        view.rate(made(before), made(now)),
        now.elements.len(),
    );
    let others = [
        ("Threads", view.threads()),
        ("Gaps", view.gaps()),
        ("Ports", view.ports()),
        ("Drops", view.reasons("drops", |element| &element.drops)),
        ("Not lost", view.reasons("packets", |element| &element.kept)),
        ("Functions", view.functions()),
        ("Sessions", view.sessions()),
    ];
    let sections = others.map(|(title, table)| match table.is_empty() {
        true => String::new(),
        false => format!("\n{title}\n{}", table.render()),
    });
    let [threads, gaps, ports, rest @ ..] = sections;
    let (threads, rest) = (threads + &gaps, rest.concat());
    let taken = [&head, &threads, &ports, &rest].map(|text| text.lines().count());
    // The section's own heading and head, and a line about those left out.
    let room = rows.map(|rows| rows.saturating_sub(taken.iter().sum::<usize>() + 4));
    let elements = view.elements(room.map(|room| room.max(ELEMENTS_MIN)));
    format!("{head}{threads}{ports}{elements}{rest}")
}

/// How far a counter went: one that went back began anew.
fn span(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn per(what: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.1}", what as f64 / of as f64) }
}

fn percent(part: u64, of: u64) -> String {
    let share = if of == 0 { 0.0 } else { part as f64 / of as f64 };
    format!("{:.1} %", share.min(1.0) * 100.0)
}

impl Work {
    /// What was done since.
    fn since(self, before: Work) -> Work {
        Work {
            packets: span(before.packets, self.packets),
            batches: span(before.batches, self.batches),
            cycles: span(before.cycles, self.cycles),
        }
    }
}

/// What a user wants to know of a clock: the cycle counter, or why not.
fn clock_name(phase: &str) -> &str {
    if phase == "running" { "cycle counter" } else { phase }
}

struct View<'a> {
    before: &'a Sample,
    now: &'a Sample,
    seconds: f64,
}

impl View<'_> {
    fn rate(&self, before: u64, now: u64) -> String {
        let seconds = if self.seconds > 0.0 { self.seconds } else { 1.0 };
        thousands((span(before, now) as f64 / seconds).round() as u64)
    }

    /// `-` where either is not known.
    fn rate_of(&self, before: Option<u64>, now: Option<u64>) -> String {
        before.zip(now).map_or("-".to_owned(), |(before, now)| self.rate(before, now))
    }

    fn threads(&self) -> Table {
        let head = ["thread", "busy", "packets/s", "cycles/packet", "per batch", "clock"];
        let mut table = Table::new(&head);
        let cycles = span(self.before.cycles, self.now.cycles);
        for (at, now) in self.now.threads.iter().enumerate() {
            let before = self.before.threads.get(at).copied().unwrap_or_default();
            let made = span(before.made, now.made);
            let work = now.work.since(before.work);
            table.row(vec![
                at.to_string(),
                percent(busy(&before, now, cycles), cycles),
                self.rate(before.made, now.made),
                per(work.cycles, made),
                per(work.packets, work.batches),
                self.now.clocks.get(at).map_or("-", |clock| clock_name(clock)).to_owned(),
            ]);
        }
        table
    }

    /// Threads that were away from their round for long.
    fn gaps(&self) -> Table {
        let head = ["thread", "away", "longest", "with waiting for a CPU", "cause"];
        let mut table = Table::new(&head);
        for gap in self.now.gaps.iter().filter(|gap| gap.whole > 0) {
            let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
            let (thread, when) = (gap.thread.to_string(), gap.when.clone());
            table.row(vec![thread, when, ms(gap.own), ms(gap.whole), gap.cause.clone()]);
        }
        table
    }

    fn ports(&self) -> Table {
        let mut table = Table::new(&["port", "dir", "packets/s", "Mbit/s", "packets"]);
        for now in &self.now.ports {
            let before = self.before.ports.iter().find(|port| port.name == now.name);
            let bytes = before.and_then(|port| port.bytes).zip(now.bytes);
            let megabits = bytes.map_or("-".into(), |(before, now)| {
                let seconds = if self.seconds > 0.0 { self.seconds } else { 1.0 };
                format!("{:.3}", span(before, now) as f64 * 8e-6 / seconds)
            });
            table.row(vec![
                format!("{} ({})", now.name, now.what),
                now.direction.into(),
                self.rate_of(before.and_then(|port| port.packets), now.packets),
                megabits,
                now.packets.map_or("-".into(), thousands),
            ]);
        }
        table
    }

    /// What an element was before: one of the same name and class.
    fn earlier(&self, now: &Element) -> Option<&Element> {
        let same = |one: &&Element| (&one.name, &one.class) == (&now.name, &now.class);
        self.before.elements.iter().find(same)
    }

    /// Elements that did something, those that took most cycles first.
    fn elements(&self, room: Option<usize>) -> String {
        let head =
            ["element", "class", "share", "packets/s", "cycles/packet", "per batch", "drops/s"];
        let mut table = Table::new(&head);
        let since = |element| {
            let before = self.earlier(element).map_or(Work::default(), |before| before.work);
            element.work.since(before)
        };
        let mut busy: Vec<(&Element, Work)> =
            self.now.elements.iter().map(|element| (element, since(element))).collect();
        busy.retain(|(_, work)| work.packets > 0 || work.cycles > 0);
        busy.sort_by_key(|(_, work)| std::cmp::Reverse(work.cycles));
        let cycles = busy.iter().map(|(_, work)| work.cycles).sum();
        let shown = room.map_or(busy.len(), |room| room.min(busy.len()));
        for (element, work) in &busy[..shown] {
            let dropped = |element: &Element| element.drops.iter().map(|(_, count)| count).sum();
            table.row(vec![
                element.name.clone(),
                element.class.clone(),
                percent(work.cycles, cycles),
                self.rate(0, work.packets),
                per(work.cycles, work.packets),
                per(work.packets, work.batches),
                self.rate(self.earlier(element).map_or(0, dropped), dropped(element)),
            ]);
        }
        let more = match busy.len() - shown {
            0 => String::new(),
            more => format!("  and {more} more\n"),
        };
        match table.is_empty() {
            true => "\nElements\n  none did anything\n".into(),
            false => format!("\nElements\n{}{more}", table.render()),
        }
    }

    /// What `counts` of elements, by reason, called `what`.
    fn reasons(&self, what: &str, counts: fn(&Element) -> &Vec<(String, u64)>) -> Table {
        let mut table = Table::new(&["element", "reason", &format!("{what}/s"), what]);
        for now in &self.now.elements {
            let before = self.earlier(now).map_or(&[][..], |element| counts(element));
            for (reason, count) in counts(now) {
                let earlier = before.iter().find(|(one, _)| one == reason);
                let earlier = earlier.map_or(0, |(_, count)| *count);
                let rate = self.rate(earlier, *count);
                table.row(vec![now.name.clone(), reason.clone(), rate, thousands(*count)]);
            }
        }
        table
    }

    fn functions(&self) -> Table {
        let head =
            ["function", "state", "pid", "restarts", "in/s", "out/s", "wake-ups/s", "slots", "CPU"];
        let mut table = Table::new(&head);
        for now in &self.now.functions {
            let before = self.before.functions.iter().find(|one| one.name == now.name);
            let cpu = before.and_then(|one| one.cpu_seconds).zip(now.cpu_seconds);
            let cpu = cpu.filter(|_| self.seconds > 0.0).map_or("-".into(), |(before, now)| {
                format!("{:.1} %", ((now - before) / self.seconds * 100.0).max(0.0))
            });
            table.row(vec![
                now.name.clone(),
                now.state.clone(),
                now.pid.clone(),
                now.restarts.clone(),
                self.rate_of(before.and_then(|one| one.packets_in), now.packets_in),
                self.rate_of(before.and_then(|one| one.packets_out), now.packets_out),
                self.rate_of(before.and_then(|one| one.wake_ups), now.wake_ups),
                now.occupancy.map_or("-".into(), thousands),
                cpu,
            ]);
        }
        table
    }

    fn sessions(&self) -> Table {
        let mut table =
            Table::new(&["sessions", "begun/s", "timed out/s", "closed/s", "refused packets/s"]);
        if let Some(now) = self.now.sessions {
            let before = self.before.sessions.unwrap_or_default();
            table.row(vec![
                thousands(now.now),
                self.rate(before.created, now.created),
                self.rate(before.expired, now.expired),
                self.rate(before.closed, now.closed),
                self.rate(before.refused, now.refused),
            ]);
        }
        table
    }
}

/// Cycles in which a thread had something to do.
fn busy(before: &Thread, now: &Thread, cycles: u64) -> u64 {
    cycles.saturating_sub(span(before.idle_cycles, now.idle_cycles))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(name: &str, work: (u64, u64, u64), drops: u64) -> Element {
        let (packets, batches, cycles) = work;
        let drops = if drops > 0 { vec![("bad".to_owned(), drops)] } else { vec![] };
        Element {
            name: name.into(),
            class: "Null".into(),
            work: Work { packets, batches, cycles },
            drops,
            kept: Vec::new(),
        }
    }

    fn sample(seconds: u64, elements: Vec<Element>) -> Sample {
        let work = Work { packets: 100 * seconds, batches: 10 * seconds, cycles: 5000 * seconds };
        Sample {
            cycles: 10_000 * seconds,
            nanoseconds: 1_000_000_000 * seconds,
            threads: vec![Thread { idle_cycles: 4000 * seconds, made: 50 * seconds, work }],
            elements,
            ..Sample::default()
        }
    }

    #[test]
    fn rates_are_what_was_done_between() {
        let before = sample(1, vec![element("a", (10, 5, 100), 4), element("b", (0, 0, 0), 0)]);
        let now = sample(3, vec![element("a", (30, 10, 400), 8), element("b", (2, 1, 100), 0)]);
        let text = text("here", (&before, &now), None);
        let expected = "here: 50 packets/s taken in, 2 elements, over 2.00 s

Threads
  thread    busy  packets/s  cycles/packet  per batch  clock
       0  60.0 %         50          100.0       10.0      -

Elements
  element  class   share  packets/s  cycles/packet  per batch  drops/s
  a        Null   75.0 %         10           15.0        4.0        2
  b        Null   25.0 %          1           50.0        2.0        0

Drops
  element  reason  drops/s  drops
  a        bad           2      8
";
        assert_eq!(text, expected);
    }

    #[test]
    fn after_a_hot_swap_counters_begin_anew() {
        let before = sample(1, vec![element("a", (1000, 5, 100), 0)]);
        let now = sample(2, vec![element("a", (7, 1, 70), 0), element("new", (3, 1, 30), 0)]);
        let text = text("here", (&before, &now), None);
        assert!(text.contains("a        Null   70.0 %          7"), "{text}");
        assert!(text.contains("new      Null   30.0 %          3"), "{text}");
    }

    #[test]
    fn a_small_screen_shows_the_busiest_elements() {
        let many = |n: u64| (1..=30).map(move |at| element(&format!("e{at}"), (n, 1, n * at), 0));
        let text = text("here", (&sample(1, vec![]), &sample(2, many(9).collect())), Some(16));
        assert_eq!(text.lines().count(), 16, "{text}");
        assert!(text.contains("e30") && !text.contains("e1 ") && text.contains("more\n"), "{text}");
    }
}
