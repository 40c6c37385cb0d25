//! Which of machines that are alike serves, and which stands still, as a machine without threads.
//!
//! | event | what follows |
//! |---|---|
//! | a machine is ready | it serves if it is its turn or the one whose turn it is does not work; else it stands still |
//! | the one that serves ends | it is the turn of another one that is ready, which goes on |
//! | nobody was to serve, and now one is | one that stands still goes on |
//!
//! Where none is ready, the turn stays where it was: packets are dropped there and counted.

use super::shared::{Change, Next};

/// Whose turn it is.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    is_wanted: bool,
    /// Per machine: whether it is ready.
    ready: Vec<bool>,
    serving: usize,
    takeovers: u64,
}

impl Turns {
    /// Without machines; one of them is to serve, or none for now.
    pub fn new(is_wanted: bool) -> Turns {
        Turns { is_wanted, ready: Vec::new(), serving: 0, takeovers: 0 }
    }

    /// One more, which is not ready. Gives its number.
    pub fn add(&mut self) -> usize {
        self.ready.push(false);
        self.ready.len() - 1
    }

    /// The number of the machine whose turn it is.
    pub fn serving(&self) -> usize {
        self.serving
    }

    /// Times that a machine went on in the place of one that ended.
    pub fn takeovers(&self) -> u64 {
        self.takeovers
    }

    /// Whether a machine is to serve.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// A machine changed. Gives what it does next, and which other one goes on.
    pub fn on(&mut self, at: usize, change: Change) -> (Next, Option<usize>) {
        match change {
            Change::Up => (self.up(at), None),
            Change::Down => (Next::GoOn, self.down(at)),
        }
    }

    fn up(&mut self, at: usize) -> Next {
        self.ready[at] = true;
        if !self.is_wanted {
            return Next::StandStill;
        }
        if !self.ready[self.serving] {
            self.serving = at;
        }
        if self.serving == at { Next::GoOn } else { Next::StandStill }
    }

    fn down(&mut self, at: usize) -> Option<usize> {
        self.ready[at] = false;
        if !self.is_wanted || at != self.serving {
            return None;
        }
        let next = self.hand_on();
        self.takeovers += u64::from(next.is_some());
        next
    }

    /// From now on one is to serve. Gives the one that goes on.
    pub fn want(&mut self) -> Option<usize> {
        self.is_wanted = true;
        if self.ready.get(self.serving) == Some(&true) {
            return Some(self.serving);
        }
        self.hand_on()
    }

    fn hand_on(&mut self) -> Option<usize> {
        let next = self.ready.iter().position(|is_ready| *is_ready)?;
        self.serving = next;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Up(usize),
        Down(usize),
        Want,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let machine = 0..2_usize;
        let event = prop_oneof![
            machine.clone().prop_map(Event::Up),
            machine.prop_map(Event::Down),
            Just(Event::Want)
        ];
        prop::collection::vec(event, 0..40)
    }

    proptest! {
        /// Of the machines that are ready exactly one runs, if one is to serve, and it is the one
        /// whose turn it is; else none runs.
        #[test]
        fn one_machine_runs(wanted: bool, events in events()) {
            let mut turns = Turns::new(wanted);
            prop_assert_eq!((turns.add(), turns.add()), (0, 1));
            let (mut wanted, mut ready, mut runs) = (wanted, [false; 2], [false; 2]);
            for event in events {
                match event {
                    // A supervisor says each of them after the other.
                    Event::Up(at) if !ready[at] => {
                        ready[at] = true;
                        runs[at] = turns.on(at, Change::Up).0 == Next::GoOn;
                    }
                    Event::Down(at) if ready[at] => {
                        (ready[at], runs[at]) = (false, false);
                        if let (_, Some(next)) = turns.on(at, Change::Down) {
                            runs[next] = true;
                        }
                    }
                    Event::Want => {
                        wanted = true;
                        if let Some(next) = turns.want() {
                            runs[next] = true;
                        }
                    }
                    _ => {}
                }
                let is_up = ready.iter().any(|is_ready| *is_ready);
                let running = runs.iter().filter(|runs| **runs).count();
                prop_assert_eq!(running, usize::from(wanted && is_up));
                prop_assert!(running == 0 || runs[turns.serving()]);
                prop_assert!(runs.iter().zip(ready).all(|(runs, is_ready)| is_ready || !runs));
            }
        }
    }
}
