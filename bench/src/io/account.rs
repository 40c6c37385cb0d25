//! Where packets went that did not arrive.

use std::time::Duration;

use super::cases::Kind;
use super::system::System;
use super::turn::Load;

/// The kernel's drops are asked for so often by FromDevice.
const STEADY_AFTER: Duration = Duration::from_millis(1500);

/// Waits until everything is counted.
pub fn wait_until_counted() {
    std::thread::sleep(STEADY_AFTER);
}

/// All packets of a row, over all its turns.
#[derive(Debug, Clone)]
pub struct Account {
    /// Made by the generator.
    pub made: u64,
    /// Counted at the far end.
    pub arrived: u64,
    /// Those of them that came after a later one of their flow.
    pub disordered: u64,
    /// Lost, and where.
    pub lost: Vec<(String, u64)>,
}

impl Account {
    /// Asks everyone.
    pub fn take(kind: Kind, load: &Load, system: &System) -> anyhow::Result<Account> {
        let [made, arrived, disordered] = load.totals()?;
        let [wan, far] = system.site.no_room()?;
        let mut lost = vec![("no room at wan".to_owned(), wan)];
        if !matches!(kind, Kind::Packet | Kind::TestpmdPacket) {
            // A packet socket gets an error, and ToDevice tries again.
            lost.push(("no room at the far end".to_owned(), far));
        }
        if kind == Kind::Kernel {
            lost.push(("backlog full".to_owned(), system.site.not_taken()?));
        }
        lost.extend(system.drops()?);
        if kind.is_testpmd() {
            // It reports neither the fate of a packet nor a full queue.
            let known = arrived + lost.iter().map(|(_, count)| count).sum::<u64>();
            lost.push(("testpmd, or in front of it".to_owned(), made.saturating_sub(known)));
        }
        lost.retain(|(_, count)| *count > 0);
        Ok(Account { made, arrived, disordered, lost })
    }

    /// Uncounted packets; below 0, packets counted twice.
    pub fn unexplained(&self) -> i64 {
        let lost: u64 = self.lost.iter().map(|(_, count)| count).sum();
        self.made.cast_signed() - self.arrived.cast_signed() - lost.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_explained_or_not() {
        let lost = vec![("here".to_owned(), 3), ("there".to_owned(), 2)];
        let account = Account { made: 10, arrived: 4, disordered: 0, lost };
        assert_eq!(account.unexplained(), 1);
        assert_eq!(Account { arrived: 6, ..account }.unexplained(), -1);
    }
}
