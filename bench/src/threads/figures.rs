//! The figures of the thesis (section 4.1): which points each has.

use super::placement::{Approach, Placement, Work};

/// A figure.
pub struct Figure {
    /// As on the command line.
    pub name: &'static str,
    pub title: &'static str,
    /// What the horizontal axis shows, and whether by its logarithm.
    pub across: &'static str,
    pub is_log: bool,
    /// What is shown of a group.
    pub shows: Shows,
    groups: fn(Extent) -> Vec<Group>,
}

/// What a figure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Rates of each placement, and the time that packets take.
    Rates,
    /// How much faster parallel is than returning, in percent.
    Relative,
}

/// How many points there are to be.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub cores_max: usize,
    pub is_quick: bool,
}

impl Extent {
    /// All, or of a quick run every second or third.
    fn some<T: Copy>(self, all: &[T]) -> Vec<T> {
        let step = if self.is_quick { all.len().div_ceil(3) } else { 1 };
        all.iter().step_by(step).copied().collect()
    }
}

/// Placements that are compared, turn by turn: a place on the axis.
pub struct Group {
    /// Which of a figure's curves it belongs to, where these are not the placements.
    pub series: String,
    pub x: f64,
    pub placements: Vec<Placement>,
    /// Whether the time that packets take is also measured at half the rate of the slowest.
    pub is_paced: bool,
}

/// Only numbers are drawn.
const DRAWN: Work = Work { draws: 0, reads: 0, of_packet: 0, array: 0.0 };
/// The most favourable to a pipeline in the thesis.
const READ: Work = Work { draws: 1, reads: 100, of_packet: 0, array: 2.0 };

const DRAWS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const READS: [u32; 7] = [1, 5, 20, 100, 200, 500, 2000];
const ARRAYS: [f64; 8] = [0.0625, 0.25, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0];
const OF_PACKET: [u32; 6] = [0, 20, 40, 60, 80, 100];
/// Stages and cores where both grow together.
const STAGES: [usize; 9] = [1, 2, 3, 4, 6, 8, 10, 12, 16];
/// Stages that are spread over fewer cores (figure 4.13).
const SPREAD: [usize; 6] = [2, 3, 4, 5, 6, 8];

/// Every figure.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "4.4",
        title: "two stages on two cores, x numbers drawn by each stage",
        across: "log2 of numbers drawn by each stage",
        is_log: true,
        shows: Shows::Rates,
        groups: by_draws,
    },
    Figure {
        name: "4.6",
        title: "x stages that draw 32 numbers each, on as many cores or up to two more",
        across: "stages",
        is_log: false,
        shows: Shows::Rates,
        groups: by_stages,
    },
    Figure {
        name: "4.8",
        title: "two stages on two cores, x reads of an array: parallel against returning",
        across: "log2 of reads by each stage",
        is_log: true,
        shows: Shows::Relative,
        groups: by_reads,
    },
    Figure {
        name: "4.9",
        title: "as many stages as cores, 100 reads, x percent of them of the packet",
        across: "percent of reads of the packet",
        is_log: false,
        shows: Shows::Relative,
        groups: by_share,
    },
    Figure {
        name: "4.10",
        title: "x stages on as many cores, 100 reads of an array",
        across: "stages and cores",
        is_log: false,
        shows: Shows::Relative,
        groups: by_cores,
    },
    Figure {
        name: "4.13",
        title: "stages with 100 reads of 2 MB, on x cores",
        across: "cores",
        is_log: false,
        shows: Shows::Relative,
        groups: by_spread,
    },
];

impl Figure {
    /// Its groups; those that want more cores than there are, too.
    pub fn groups(&self, extent: Extent) -> Vec<Group> {
        (self.groups)(extent)
    }
}

fn placement(approach: Approach, stages: usize, cores: usize, work: Work) -> Placement {
    Placement { approach, stages, cores, is_batched: true, work }
}

/// Parallel and returning, as many stages as cores unless said otherwise.
fn pair(series: String, x: f64, (stages, cores): (usize, usize), work: Work) -> Group {
    let placements = [Approach::Parallel, Approach::Returning];
    let placements = placements.map(|approach| placement(approach, stages, cores, work)).to_vec();
    Group { series, x, placements, is_paced: false }
}

fn by_draws(extent: Extent) -> Vec<Group> {
    let group = |draws: u32| {
        let work = Work { draws, ..DRAWN };
        let approaches = [Approach::Parallel, Approach::Pipeline, Approach::Returning];
        let batched = approaches.map(|approach| placement(approach, 2, 2, work));
        let single = batched.map(|placement| Placement { is_batched: false, ..placement });
        let placements = batched.into_iter().chain(single).collect();
        Group { series: String::new(), x: f64::from(draws), placements, is_paced: true }
    };
    extent.some(&DRAWS).into_iter().map(group).collect()
}

fn by_stages(extent: Extent) -> Vec<Group> {
    let work = Work { draws: 32, ..DRAWN };
    let group = |stages: usize| {
        let placements = vec![
            placement(Approach::Parallel, stages, stages, work),
            placement(Approach::Returning, stages, stages, work),
            placement(Approach::Parallel, stages, stages + 1, work),
            placement(Approach::OneForIo, stages, stages + 1, work),
            placement(Approach::Parallel, stages, stages + 2, work),
            placement(Approach::TwoForIo, stages, stages + 2, work),
        ];
        Group { series: String::new(), x: stages as f64, placements, is_paced: false }
    };
    extent.some(&STAGES).into_iter().map(group).collect()
}

fn by_reads(extent: Extent) -> Vec<Group> {
    let of = |array: f64| {
        extent.some(&READS).into_iter().map(move |reads| {
            let work = Work { reads, array, ..READ };
            pair(format!("S {array} MB"), f64::from(reads), (2, 2), work)
        })
    };
    extent.some(&ARRAYS).into_iter().flat_map(of).collect()
}

fn by_share(extent: Extent) -> Vec<Group> {
    // The thesis has four, and in its appendix two and eight.
    let stages = [8, 4, 2].into_iter().find(|stages| *stages <= extent.cores_max).unwrap_or(2);
    let of = |array: f64| {
        extent.some(&OF_PACKET).into_iter().map(move |of_packet| {
            let work = Work { of_packet, array, ..READ };
            pair(format!("S {array} MB"), f64::from(of_packet), (stages, stages), work)
        })
    };
    extent.some(&ARRAYS[2..7]).into_iter().flat_map(of).collect()
}

fn by_cores(extent: Extent) -> Vec<Group> {
    let of = |array: f64| {
        STAGES.into_iter().map(move |cores| {
            let work = Work { array, ..READ };
            pair(format!("S {array} MB"), cores as f64, (cores, cores), work)
        })
    };
    extent.some(&ARRAYS).into_iter().flat_map(of).collect()
}

fn by_spread(extent: Extent) -> Vec<Group> {
    let of = |stages: usize| {
        let cores = 1..=stages;
        cores
            .map(move |cores| pair(format!("{stages} stages"), cores as f64, (stages, cores), READ))
    };
    extent.some(&SPREAD).into_iter().flat_map(of).collect()
}
