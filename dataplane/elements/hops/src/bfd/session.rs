//! One session of BFD in asynchronous mode (RFC 5880 section 6.8): pure, with the time as an
//! argument.

use thruway_wire::bfd::{BfdHeader, BfdState, diagnostic, flag};

/// Nanoseconds in a microsecond.
const US: i64 = 1_000;
/// Least time between packets while the session is not up (RFC 5880 section 6.8.3).
const SLOW_US: u32 = 1_000_000;
/// Most times that are a detection time, of a packet that has the right multiplier: keeps sums in
/// range.
const TIME_MAX_NS: i64 = 1 << 55;

/// The operator's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    /// Time between packets that this side wants to send, microseconds.
    pub(super) desired_min_tx_us: u32,
    /// Least time between packets that this side takes, microseconds.
    pub(super) required_min_rx_us: u32,
    /// Missed packets after which this side is taken for gone.
    pub(super) multiplier: u8,
}

/// The effect of a packet or of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that others care for.
    None,
    /// The session is up now.
    Up,
    /// It is no longer.
    Down,
}

/// Why a packet is ignored (RFC 5880 section 6.8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    /// A field has a value that none may have.
    Field,
    /// Its number of the session is not this one's.
    Discriminator,
    /// It has an authentication section, and this side has none.
    Authenticated,
    /// This side is held down by the operator.
    AdminDown,
}

/// A session; names as in RFC 5880 section 6.8.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) config: Config,
    pub(super) state: BfdState,
    pub(super) remote_state: BfdState,
    pub(super) diagnostic: u8,
    local_discriminator: u32,
    remote_discriminator: u32,
    remote_min_rx_us: u32,
    remote_desired_us: u32,
    remote_multiplier: u8,
    /// A poll sequence is in progress: the other side has not confirmed this side's times.
    is_polling: bool,
    /// When it was last heard; while it is up or coming up.
    heard_at: Option<i64>,
    sent_at: i64,
    next_at: i64,
    pub(super) ups: u64,
    pub(super) downs: u64,
}

impl Session {
    /// One that is down, and sends its first packet at `now`. The number is not zero.
    pub(super) fn new(config: Config, local_discriminator: u32, now: i64) -> Session {
        Session {
            config,
            state: BfdState::Down,
            remote_state: BfdState::Down,
            diagnostic: diagnostic::NONE,
            local_discriminator: local_discriminator.max(1),
            remote_discriminator: 0,
            // RFC 5880 section 6.8.1.
            remote_min_rx_us: 1,
            remote_desired_us: 0,
            remote_multiplier: 0,
            is_polling: false,
            heard_at: None,
            sent_at: now,
            next_at: now,
            ups: 0,
            downs: 0,
        }
    }

    /// The same with other times, which the other side has to confirm.
    pub(super) fn with(self, config: Config) -> Session {
        let is_other = config != self.config;
        let is_polling = self.is_polling || is_other && self.state == BfdState::Up;
        Session { config, is_polling, ..self }
    }

    /// Time between packets that this side announces.
    fn announced_us(&self) -> u32 {
        match self.state {
            BfdState::Up => self.config.desired_min_tx_us,
            _ => self.config.desired_min_tx_us.max(SLOW_US),
        }
    }

    /// Time between packets, nanoseconds, before jitter; `None`: the other side wants none.
    fn interval_ns(&self) -> Option<i64> {
        let wanted = self.announced_us().max(self.remote_min_rx_us);
        (self.remote_min_rx_us > 0).then(|| i64::from(wanted) * US)
    }

    /// After so long without a packet the other side is taken for gone; 0 while it was not heard.
    pub(super) fn detection_ns(&self) -> i64 {
        let interval = self.config.required_min_rx_us.max(self.remote_desired_us);
        (i64::from(self.remote_multiplier) * i64::from(interval) * US).min(TIME_MAX_NS)
    }

    fn expires_at(&self) -> Option<i64> {
        self.heard_at.map(|at| at.saturating_add(self.detection_ns()))
    }

    /// When [`Session::act`] is next due.
    pub(super) fn due_at(&self) -> i64 {
        self.expires_at().map_or(self.next_at, |at| at.min(self.next_at))
    }

    /// Takes a packet; and the answer that is due at once.
    pub(super) fn receive(
        &mut self,
        packet: &BfdHeader,
        now: i64,
    ) -> Result<(Change, Option<BfdHeader>), Ignored> {
        self.check(packet)?;
        self.remote_discriminator = packet.my_discriminator();
        self.remote_state = packet.state();
        self.remote_min_rx_us = packet.required_min_rx_us();
        self.remote_desired_us = packet.desired_min_tx_us();
        self.remote_multiplier = packet.multiplier();
        if packet.has(flag::FINAL) {
            self.is_polling = false;
        }
        self.heard_at = Some(now);
        let change = self.follow(packet.state());
        if !matches!(self.state, BfdState::Init | BfdState::Up) {
            self.heard_at = None;
        }
        self.hasten(now, change);
        let answer = packet.has(flag::POLL).then(|| self.packet(flag::FINAL));
        Ok((change, answer))
    }

    fn check(&self, packet: &BfdHeader) -> Result<(), Ignored> {
        if packet.multiplier() == 0 || packet.has(flag::MULTIPOINT) {
            return Err(Ignored::Field);
        }
        if packet.my_discriminator() == 0 {
            return Err(Ignored::Discriminator);
        }
        let is_down = matches!(packet.state(), BfdState::Down | BfdState::AdminDown);
        match packet.your_discriminator() {
            0 if !is_down => return Err(Ignored::Discriminator),
            0 => {}
            yours if yours != self.local_discriminator => return Err(Ignored::Discriminator),
            _ => {}
        }
        if packet.has(flag::AUTHENTICATED) {
            return Err(Ignored::Authenticated);
        }
        match self.state {
            BfdState::AdminDown => Err(Ignored::AdminDown),
            _ => Ok(()),
        }
    }

    /// The state machine (RFC 5880 section 6.8.6).
    fn follow(&mut self, remote: BfdState) -> Change {
        use BfdState::{AdminDown, Down, Init, Up};
        match (self.state, remote) {
            (Down, Down) => self.enter(Init, diagnostic::NONE),
            (Down, Init) | (Init, Init | Up) => self.enter(Up, diagnostic::NONE),
            (Init | Up, AdminDown) | (Up, Down) => self.enter(Down, diagnostic::NEIGHBOR_DOWN),
            _ => Change::None,
        }
    }

    fn enter(&mut self, state: BfdState, diagnostic: u8) -> Change {
        let was_up = self.state == BfdState::Up;
        self.state = state;
        if diagnostic != diagnostic::NONE {
            self.diagnostic = diagnostic;
        }
        match (was_up, state == BfdState::Up) {
            (false, true) => {
                self.ups += 1;
                // The times announced so far were slow ones (RFC 5880 section 6.8.3).
                self.is_polling = true;
                Change::Up
            }
            (true, false) => {
                self.downs += 1;
                self.is_polling = false;
                Change::Down
            }
            _ => Change::None,
        }
    }

    /// Has the next packet sent sooner where the time between packets has become less, and at once
    /// after a change: the other side learns of it in time.
    fn hasten(&mut self, now: i64, change: Change) {
        if change != Change::None {
            self.next_at = now;
        } else if let Some(interval) = self.interval_ns() {
            self.next_at = self.next_at.min(self.sent_at.saturating_add(interval).max(now));
        }
    }

    /// What is due: the other side may be gone, and a packet may have to leave. `jitter` is a
    /// random number.
    pub(super) fn act(&mut self, now: i64, jitter: u64) -> (Change, Option<BfdHeader>) {
        let mut change = Change::None;
        if self.expires_at().is_some_and(|at| at <= now) {
            self.heard_at = None;
            self.remote_discriminator = 0;
            self.remote_state = BfdState::Down;
            change = self.enter(BfdState::Down, diagnostic::TIME_EXPIRED);
            self.hasten(now, change);
        }
        if self.next_at > now {
            return (change, None);
        }
        let Some(interval) = self.interval_ns() else {
            // It is asked again when the other side says something else.
            self.next_at = now.saturating_add(i64::from(SLOW_US) * US);
            return (change, None);
        };
        self.sent_at = now;
        self.next_at = now.saturating_add(jittered(interval, self.config.multiplier, jitter));
        let flags = if self.is_polling { flag::POLL } else { 0 };
        (change, Some(self.packet(flags)))
    }

    /// The operator holds it down, or lets it go.
    pub(super) fn set_enabled(&mut self, enabled: bool, now: i64) -> Change {
        let change = match (enabled, self.state) {
            (false, BfdState::AdminDown) => Change::None,
            (false, _) => self.enter(BfdState::AdminDown, diagnostic::ADMINISTRATIVELY_DOWN),
            (true, BfdState::AdminDown) => self.enter(BfdState::Down, diagnostic::NONE),
            (true, _) => Change::None,
        };
        self.heard_at = self.heard_at.filter(|_| enabled);
        self.next_at = now;
        change
    }

    fn packet(&self, flags: u8) -> BfdHeader {
        let diagnostic = match self.state {
            BfdState::Up => diagnostic::NONE,
            _ => self.diagnostic,
        };
        let mut header = BfdHeader::new(self.state, diagnostic, self.config.multiplier);
        header.set_flags(flags);
        header.set_my_discriminator(self.local_discriminator);
        header.set_your_discriminator(self.remote_discriminator);
        header.set_desired_min_tx_us(self.announced_us());
        header.set_required_min_rx_us(self.config.required_min_rx_us);
        header
    }
}

/// The time less up to a quarter of it; where one missed packet is too much, between 10 and 25 %
/// of it (RFC 5880 section 6.8.7).
fn jittered(interval_ns: i64, multiplier: u8, random: u64) -> i64 {
    let (least, most) = if multiplier == 1 { (750, 900) } else { (750, 1000) };
    let thousandths = least + (random % (most - least + 1) as u64) as i64;
    interval_ns / 1000 * thousandths
}

#[cfg(test)]
mod tests;
