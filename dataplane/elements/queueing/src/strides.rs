//! Stride scheduling (Waldspurger and Weihl, "Stride Scheduling: Deterministic Proportional-Share
//! Resource Management", 1995): ports that get their turns in proportion to their tickets.

use thruway_element::{Arg, ArgErrors, Args, HandlerError, Handlers, Ty, handler_value};

/// Stride of a port with one ticket.
const STRIDE_ONE: u32 = 1 << 16;
/// A port has at most so many tickets, as in Click.
pub(super) const TICKETS_MAX: u32 = 1 << 15;

/// The argument of elements that schedule by strides.
pub(super) const TICKETS: Arg =
    Arg::rest("TICKETS", Ty::UInt, "tickets of a port, one argument each; 0 shuts it");

#[derive(Debug, Clone, Copy)]
struct Client {
    tickets: u32,
    stride: u32,
    /// Virtual time of its next turn; wraps around.
    pass: u32,
}

impl Client {
    fn new(tickets: u32) -> Client {
        let stride = STRIDE_ONE.checked_div(tickets).unwrap_or(0);
        Client { tickets, stride, pass: stride }
    }
}

/// Ports and their turns.
#[derive(Debug, Clone, Handlers)]
pub(super) struct Strides {
    #[handler(
        both, numbered, name = "tickets0", "tickets of port 0; likewise tickets1 and so on",
        get = self.clients[index].tickets,
        write = self.write_tickets(index, (name, value))
    )]
    #[handler(read, name = "config", "tickets of all ports", get = self.config())]
    clients: Vec<Client>,
    /// Ports with tickets, the next first.
    order: Vec<usize>,
}

impl Strides {
    pub(super) fn new(tickets: impl Iterator<Item = u32>) -> Strides {
        let clients: Vec<Client> = tickets.map(Client::new).collect();
        let mut strides = Strides { order: Vec::with_capacity(clients.len()), clients };
        // In reverse, since of equal ports the one that comes in last goes first.
        for port in (0..strides.clients.len()).rev() {
            if strides.clients[port].tickets > 0 {
                strides.insert(0, port);
            }
        }
        strides
    }

    /// The arguments TICKETS, as many as there are `ports`.
    pub(super) fn from_args(args: &Args<'_>, ports: usize) -> Result<Strides, ArgErrors> {
        if args.rest().len() != ports {
            let given = args.rest().len();
            let message = format!("{given} numbers of tickets; give {ports}, one for each port");
            return Err(ArgErrors::whole(message));
        }
        let mut tickets = Vec::new();
        for (index, text) in args.rest() {
            let parsed = args.parse::<u32>(text).and_then(in_range);
            tickets.push(parsed.map_err(|why| args.rest_error(index, format!("TICKETS: {why}")))?);
        }
        Ok(Strides::new(tickets.into_iter()))
    }

    /// Puts a port in its place in the order, looking from place `from` on.
    fn insert(&mut self, from: usize, port: usize) {
        let pass = self.clients[port].pass;
        let later = |other: &usize| pass.wrapping_sub(self.clients[*other].pass) as i32 <= 0;
        let at = self.order[from..].iter().position(later);
        self.order.insert(at.map_or(self.order.len(), |at| from + at), port);
    }

    /// Offers turns to ports in order until one takes its turn (`take` says so); each that was
    /// asked has had its turn. Says whether one took it.
    pub(super) fn turn(&mut self, mut take: impl FnMut(usize) -> bool) -> bool {
        let (mut asked, mut taken) = (0, false);
        while asked < self.order.len() && !taken {
            let port = self.order[asked];
            taken = take(port);
            let client = &mut self.clients[port];
            client.pass = client.pass.wrapping_add(client.stride);
            asked += 1;
        }
        // The ports that were asked go back, in order, behind the others.
        for left in (1..=asked).rev() {
            let port = self.order.remove(0);
            self.insert(left - 1, port);
        }
        taken
    }

    fn set_tickets(&mut self, port: usize, tickets: u32) {
        let before = self.clients[port];
        let mut client = Client { pass: before.pass, ..Client::new(tickets) };
        if tickets == 0 {
            self.order.retain(|other| *other != port);
        } else if before.tickets == 0 {
            let first = self.order.first().map(|first| self.clients[*first].pass);
            client.pass = first.map_or(0, |pass| pass.wrapping_add(client.stride));
        }
        self.clients[port] = client;
        if tickets > 0 && before.tickets == 0 {
            self.insert(0, port);
        }
    }

    fn config(&self) -> String {
        let tickets = self.clients.iter().map(|client| client.tickets.to_string());
        tickets.collect::<Vec<String>>().join(", ")
    }

    fn write_tickets(
        &mut self,
        port: usize,
        (name, value): (&str, &str),
    ) -> Result<(), HandlerError> {
        let refused = |why| HandlerError::refused(format!("{name}: {why}"));
        let tickets = in_range(handler_value::<u32>(name, value)?).map_err(refused)?;
        self.set_tickets(port, tickets);
        Ok(())
    }
}

fn in_range(tickets: u32) -> Result<u32, String> {
    if tickets > TICKETS_MAX {
        return Err(format!("at most {TICKETS_MAX}"));
    }
    Ok(tickets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_element::declared::numbered;

    #[test]
    fn turns_go_as_in_click() {
        let mut strides = Strides::new([4, 2, 1].into_iter());
        let mut turns = Vec::new();
        for _ in 0..14 {
            strides.turn(|port| {
                turns.push(port);
                true
            });
        }
        assert_eq!(turns, [0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 0, 0, 1, 2]);
    }

    #[test]
    fn an_empty_port_loses_its_turn() {
        let mut strides = Strides::new([2, 0, 1].into_iter());
        let mut asked = Vec::new();
        assert!(!strides.turn(|port| {
            asked.push(port);
            false
        }));
        assert_eq!(asked, [0, 2]);
        assert!(!Strides::new([0].into_iter()).turn(|_| unreachable!()));
    }

    #[test]
    fn tickets_change() {
        let mut strides = Strides::new([1, 1].into_iter());
        strides.write_tickets(0, ("tickets0", "0")).unwrap();
        assert!(strides.turn(|port| port == 1));
        strides.write_tickets(0, ("tickets0", "3")).unwrap();
        assert_eq!((strides.config(), strides.order.len()), ("3, 1".into(), 2));
        assert!(strides.write_tickets(0, ("tickets0", "40000")).is_err());
        for name in ["tickets2", "tickets"] {
            assert_eq!(numbered(name, "tickets0", 2), None);
        }
    }

    proptest! {
        /// Over many turns each port has its share, give or take a turn or two.
        #[test]
        fn shares_are_as_tickets(tickets in prop::collection::vec(1u32..50, 1..6)) {
            let mut strides = Strides::new(tickets.iter().copied());
            let total: u32 = tickets.iter().sum();
            let turns = 20 * total;
            let mut had = vec![0u32; tickets.len()];
            for _ in 0..turns {
                strides.turn(|port| {
                    had[port] += 1;
                    true
                });
            }
            for (had, tickets) in had.iter().zip(&tickets) {
                // Strides are whole numbers: up to 50 in 65,536 off.
                prop_assert!(had.abs_diff(20 * tickets) <= 3, "{had} {tickets}");
            }
        }

        /// However ports give and refuse, the order stays one of all ports.
        #[test]
        fn no_port_is_lost(n in 1usize..6, gives in prop::collection::vec(any::<u8>(), 1..100)) {
            let mut strides = Strides::new((0..n).map(|port| port as u32 + 1));
            for give in gives {
                let mut asked = Vec::new();
                let taken = strides.turn(|port| {
                    asked.push(port);
                    give >> port & 1 == 1
                });
                prop_assert_eq!(taken, (0..n).any(|port| give >> port & 1 == 1));
                let mut all = strides.order.clone();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..n));
                asked.sort_unstable();
                asked.dedup();
                prop_assert!(taken || asked.len() == n);
            }
        }
    }
}
