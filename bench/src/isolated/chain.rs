//! The configurations.

use crate::child::beside;

/// The image of virtual machines, as `scripts/guest-image` makes it.
pub const IMAGE: &str = "target/guest/image";

/// How the functions of a chain are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As elements of the host's process.
    Inside,
    /// Elements in a process each, by Isolate.
    Isolate,
    /// The same in a trust group.
    Group,
    /// Programs of the function library, by Nf.
    Nf,
    /// The same in a trust group.
    NfGroup,
    /// The same programs, in a virtual machine each.
    Machine,
}

impl Mode {
    /// All that isolate.
    pub const APART: [Mode; 4] = [Mode::Isolate, Mode::Group, Mode::Nf, Mode::NfGroup];

    fn name(self) -> &'static str {
        match self {
            Mode::Inside => "inside",
            Mode::Isolate => "isolate",
            Mode::Group => "isolate-group",
            Mode::Nf => "nf",
            Mode::NfGroup => "nf-group",
            Mode::Machine => "vm",
        }
    }
}

/// Which cores the functions run on; the host has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// The cores that the host has not, one each as far as they go.
    Apart,
    /// The host's core.
    Together,
    /// Host and functions are where the system puts them.
    Anywhere,
}

/// How a function waits for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps: the default.
    Sleeping,
    /// It looks again and again.
    Polling,
}

/// A chain of functions.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    pub mode: Mode,
    pub count: usize,
    /// Bytes of a packet.
    pub len: usize,
    pub placement: Where,
    pub wait: Wait,
}

impl Chain {
    /// A chain with functions that wait by the default mode.
    pub const fn sleeping(mode: Mode, count: usize, len: usize, placement: Where) -> Chain {
        Chain { mode, count, len, placement, wait: Wait::Sleeping }
    }

    /// Name of the case.
    pub fn name(&self) -> String {
        let placement = match self.placement {
            Where::Apart => "",
            Where::Together => "/one-core",
            Where::Anywhere => "/unbound",
        };
        let wait = match self.wait {
            Wait::Sleeping => "",
            Wait::Polling => "/polling",
        };
        format!("{}/{}/{}{placement}{wait}", self.mode.name(), self.count, self.len)
    }

    /// The elements that have the functions' handlers, if they are apart from the host.
    pub fn functions(&self) -> Vec<String> {
        let suffix = match self.mode {
            Mode::Inside => return Vec::new(),
            Mode::Isolate | Mode::Group => "/nf",
            Mode::Nf | Mode::NfGroup | Mode::Machine => "",
        };
        (1..=self.count).map(|nth| format!("c{nth}{suffix}")).collect()
    }

    /// The configuration: packets begin at `s` when its limit is set, and end in `d`. `cores`:
    /// those that the program may use, of which the host has the last.
    pub fn text(&self, cores: &[usize]) -> anyhow::Result<String> {
        let source = format!(
            "s :: InfiniteSource(LENGTH {}, BURST 32, LIMIT 0, STOP true); d :: Counter;\n",
            self.len
        );
        self.text_between(cores, &source, ["s", "d -> Discard"])
    }

    /// The functions between two ends that `text` declares.
    pub fn text_between(
        &self,
        cores: &[usize],
        text: &str,
        [before, behind]: [&str; 2],
    ) -> anyhow::Result<String> {
        let mut text = text.to_owned();
        if matches!(self.mode, Mode::Group | Mode::NfGroup) {
            text += "TrustGroup(tenant, FRAMES 16384);\n";
        }
        for nth in 1..=self.count {
            text += &self.function(nth, &self.more(nth, cores))?;
        }
        let chain: String = (1..=self.count).map(|nth| format!(" -> c{nth}")).collect();
        Ok(format!("{text}{before}{chain} -> {behind};\n"))
    }

    /// Arguments of the `nth` isolated function.
    fn more(&self, nth: usize, cores: &[usize]) -> String {
        let others = cores.len().saturating_sub(1);
        let cpus = match (self.placement, cores.last()) {
            (Where::Apart, _) if others > 0 => cores[(nth - 1) % others].to_string(),
            (Where::Apart | Where::Together, Some(own)) => own.to_string(),
            _ => cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        };
        let group = match self.mode {
            Mode::Group | Mode::NfGroup => ", MODE group, GROUP tenant",
            _ => "",
        };
        let machine = match self.mode {
            Mode::Machine => format!(", VM \"{IMAGE}\", STANDBY false"),
            _ => String::new(),
        };
        let wait = match self.wait {
            Wait::Sleeping => "",
            Wait::Polling => ", WAIT poll",
        };
        format!(", CPUS \"{cpus}\", ISOLATION relaxed{wait}{group}{machine}")
    }

    fn function(&self, nth: usize, more: &str) -> anyhow::Result<String> {
        Ok(match self.mode {
            Mode::Inside => format!("c{nth} :: Counter;\n"),
            Mode::Isolate | Mode::Group => format!("c{nth} :: Counter; Isolate(c{nth}{more});\n"),
            Mode::Nf | Mode::NfGroup | Mode::Machine => {
                format!(
                    "c{nth} :: Nf(EXEC \"{}\"{more});\n",
                    beside("thruway-bench-count-function")?.display()
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_where_the_case_says() {
        let on = |placement, cores: &[usize]| {
            let chain = Chain::sleeping(Mode::Isolate, 3, 60, placement);
            let text = chain.text(cores).expect("a text");
            let parts = text.split("CPUS \"").skip(1);
            parts.map(|part| part.split('"').next().unwrap_or_default().to_owned()).collect()
        };
        let on: [Vec<String>; 4] = [
            on(Where::Apart, &[4, 5, 6]),
            on(Where::Together, &[4, 5, 6]),
            on(Where::Anywhere, &[4, 5, 6]),
            on(Where::Apart, &[4]),
        ];
        assert_eq!(on[0], ["4", "5", "4"]);
        assert_eq!(on[1], ["6", "6", "6"]);
        assert_eq!(on[2], ["4 5 6", "4 5 6", "4 5 6"]);
        assert_eq!(on[3], ["4", "4", "4"]);
    }
}
