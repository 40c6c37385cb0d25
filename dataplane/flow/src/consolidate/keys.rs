//! Levels of sessions and the keys that find them.

use std::collections::{BTreeSet, HashMap};

use super::known::Known;
use crate::ast::{Base, Word};
use crate::chain::{Chain, Demand};
use crate::explain::protocol_name;
use crate::plan::{Family, KeyPlan, LEVELS_MAX, Leaf, LevelId, Orientation};
use crate::session::{KeyField, SessionDef};

/// Most classes that are compared with each other; where more share a definition, they are taken
/// to share sessions.
pub(super) const COMPARED_MAX: usize = 64;
pub(super) const FAMILIES: [Family; 3] = [Family::V4, Family::V6, Family::Other];

/// A definition of sessions with their version of IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub session: SessionDef,
    pub family: Family,
}

fn is_of_ip(field: &KeyField) -> bool {
    !matches!(field, KeyField::Word(word) if word.base == Base::Frame)
}

impl Sort {
    /// The sessions that packets of this version have under a definition.
    fn of(session: &SessionDef, family: Family) -> Option<Sort> {
        let of_ip = session.fields.iter().any(is_of_ip);
        let family = match family {
            Family::Other if of_ip => return None,
            family if of_ip => family,
            _ => Family::Other,
        };
        Some(Sort { session: session.clone(), family })
    }
}

/// Whether a session of the one definition always belongs to one session of the other.
fn reaches(fine: &SessionDef, coarse: &SessionDef) -> bool {
    let fields = coarse.fields.iter().all(|field| fine.fields.contains(field));
    fields && (!fine.bidirectional || coarse.bidirectional || is_symmetric(coarse))
}

fn is_symmetric(session: &SessionDef) -> bool {
    session.fields.iter().all(|field| field.mirrored().as_ref() == Some(field))
}

/// The coarsest definition that reaches all of these.
fn union(sessions: &[&SessionDef]) -> SessionDef {
    let mut fields: Vec<KeyField> = sessions.iter().flat_map(|s| s.fields.clone()).collect();
    fields.sort();
    fields.dedup();
    let bidirectional = sessions.iter().any(|session| session.bidirectional)
        && sessions.iter().all(|session| session.bidirectional || is_symmetric(session));
    SessionDef { fields, bidirectional }
}

/// A table of sessions: one level.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub sort: usize,
    /// Classes with packets that find or open its records.
    pub leaves: BTreeSet<usize>,
    /// Of those: sets that share no session with the others.
    pub groups: Vec<Vec<usize>>,
    pub fields: Vec<KeyField>,
    /// Leaves with packets in the opposite direction, if fields that imply the direction were left
    /// out.
    orientation: Orientations,
    /// Sorts that its records link to.
    pub links: BTreeSet<usize>,
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Orientations {
    Same(Orientation),
    /// Leaves that are exchanged; the others are as they are.
    Exchanged(BTreeSet<usize>),
}

/// The finest sort of sessions of a leaf's packets, and all sorts.
type Wanted = (usize, BTreeSet<usize>);

/// The demands of the leaves.
pub(super) struct Wants {
    /// By leaf: the facts about its packets.
    pub known: Vec<Known>,
    pub sorts: Vec<Sort>,
    /// By leaf, then by family.
    pub leaves: Vec<[Option<Wanted>; 3]>,
    /// By sort: whether a function on it translates addresses.
    translates: Vec<bool>,
}

impl Wants {
    pub(super) fn of(chain: &Chain, leaves: &[Leaf], known: Vec<Known>) -> Wants {
        let none = leaves.iter().map(|_| [const { None }; 3]).collect();
        let mut wants = Wants { known, sorts: Vec::new(), leaves: none, translates: Vec::new() };
        // Many leaves come to the same functions.
        let mut found: HashMap<(&[u32], usize), Option<Wanted>> = HashMap::new();
        for (at, leaf) in leaves.iter().enumerate() {
            for family in FAMILIES {
                if leaf.functions.is_empty() || !wants.known[at].has_family(family) {
                    continue;
                }
                let of = (leaf.functions.as_slice(), family as usize);
                let wanted = found.entry(of).or_insert_with(|| {
                    let demand = |node: &u32| chain.nodes[*node as usize].demand.as_ref();
                    let demands: Vec<&Demand> = leaf.functions.iter().filter_map(demand).collect();
                    wants.finest(&demands, family)
                });
                wants.leaves[at][family as usize] = wanted.clone();
            }
        }
        wants
    }

    fn number(&mut self, sort: Sort) -> usize {
        let found = self.sorts.iter().position(|old| *old == sort);
        found.unwrap_or_else(|| {
            self.sorts.push(sort);
            self.translates.push(false);
            self.sorts.len() - 1
        })
    }

    fn finest(&mut self, demands: &[&Demand], family: Family) -> Option<Wanted> {
        let mut all = BTreeSet::new();
        let mut translates = false;
        for demand in demands {
            if let Some(sort) = Sort::of(&demand.session, family) {
                all.insert(self.number(sort));
                translates |= demand.translates;
            }
        }
        let sessions: Vec<&SessionDef> =
            all.iter().map(|sort| &self.sorts[*sort].session).collect();
        let finest = all
            .iter()
            .copied()
            .find(|sort| sessions.iter().all(|coarse| reaches(&self.sorts[*sort].session, coarse)));
        let finest = match finest {
            Some(finest) => finest,
            None if all.is_empty() => return None,
            None => {
                let sort = Sort::of(&union(&sessions), family)?;
                self.number(sort)
            }
        };
        all.insert(finest);
        if translates {
            all.iter().for_each(|sort| self.translates[*sort] = true);
        }
        Some((finest, all))
    }

    /// The sort of a function's sessions, for packets of this version.
    pub(super) fn sort_of(&self, session: &SessionDef, family: Family) -> Option<usize> {
        let sort = Sort::of(session, family)?;
        self.sorts.iter().position(|old| *old == sort)
    }

    /// Whether packets of two leaves can be of one session.
    pub(super) fn share(&self, a: usize, b: usize, sort: usize) -> bool {
        self.translates[sort] || self.agree(a, b, sort, false) || self.agree(a, b, sort, true)
    }

    /// The one value that a field has in all packets of a leaf with such a session.
    fn fixed(&self, leaf: usize, field: &KeyField, sort: usize) -> Option<u32> {
        let Sort { session, family } = &self.sorts[sort];
        self.known[leaf].fixed(field, &session.fields, *family)
    }

    fn agree(&self, a: usize, b: usize, sort: usize, exchanged: bool) -> bool {
        let Sort { session, family } = &self.sorts[sort];
        (!exchanged || session.bidirectional)
            && self.known[a].can_agree(&self.known[b], &session.fields, *family, exchanged)
    }

    /// The levels: few enough, or as few as there can be. `simple` leaves nothing out of keys that
    /// would need a level of its own.
    pub(super) fn parts(&self, simple: bool) -> Vec<Part> {
        let mut members: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.sorts.len()];
        for (leaf, families) in self.leaves.iter().enumerate() {
            for (finest, all) in families.iter().flatten() {
                members[*finest].insert(leaf);
                all.iter().for_each(|sort| {
                    members[*sort].insert(leaf);
                });
            }
        }
        loop {
            let linked: BTreeSet<usize> = self
                .leaves
                .iter()
                .flatten()
                .flatten()
                .flat_map(|(finest, all)| all.iter().copied().filter(move |sort| sort != finest))
                .collect();
            let mut parts = Vec::new();
            for (sort, leaves) in members.iter().enumerate() {
                let whole = simple || linked.contains(&sort) || self.translates[sort];
                parts.extend(self.parts_of(sort, leaves, whole));
            }
            let mut grew = false;
            for part in &mut parts {
                part.links = self.links_of(part);
                for link in &part.links {
                    for leaf in &part.leaves {
                        grew |= members[*link].insert(*leaf);
                    }
                }
            }
            // Links lead from finer to coarser sorts only, so this ends.
            if !grew {
                return parts;
            }
        }
    }

    fn links_of(&self, part: &Part) -> BTreeSet<usize> {
        let families = part.leaves.iter().flat_map(|leaf| self.leaves[*leaf].iter().flatten());
        let finest = families.filter(|(finest, _)| *finest == part.sort);
        finest.flat_map(|(_, all)| all.iter().copied()).filter(|sort| *sort != part.sort).collect()
    }

    fn parts_of(&self, sort: usize, leaves: &BTreeSet<usize>, whole: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut shared: Vec<Vec<usize>> = Vec::new();
        for group in self.groups(sort, leaves) {
            match (!whole).then(|| self.own_part(sort, &group)).flatten() {
                Some(part) => parts.push(part),
                None => shared.push(group),
            }
        }
        if !shared.is_empty() {
            parts.push(self.shared_part(sort, shared));
        }
        parts
    }

    /// Sets of leaves that can share sessions, directly or through others.
    fn groups(&self, sort: usize, leaves: &BTreeSet<usize>) -> Vec<Vec<usize>> {
        if leaves.len() > COMPARED_MAX {
            return vec![leaves.iter().copied().collect()];
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for leaf in leaves {
            let (near, mut far): (Vec<_>, Vec<_>) = groups
                .into_iter()
                .partition(|group| group.iter().any(|other| self.share(*leaf, *other, sort)));
            let mut joined: Vec<usize> = near.into_iter().flatten().collect();
            joined.push(*leaf);
            far.push(joined);
            groups = far;
        }
        groups
    }

    /// A level for leaves that fix more of the key than the protocol, alike.
    fn own_part(&self, sort: usize, group: &[usize]) -> Option<Part> {
        let session = &self.sorts[sort].session;
        let (exchanged, orientation) = if session.bidirectional {
            let exchanged = self.directions(sort, group)?;
            (exchanged.clone(), Orientations::Exchanged(exchanged))
        } else {
            (BTreeSet::new(), Orientations::Same(Orientation::Unidirectional))
        };
        let value = |leaf: usize, field: &KeyField| match field.mirrored() {
            Some(mirrored) if exchanged.contains(&leaf) => self.fixed(leaf, &mirrored, sort),
            _ => self.fixed(leaf, field, sort),
        };
        let (out, fields) = left_out(session, |field| same(group.iter().map(|l| value(*l, field))));
        let more = out.iter().any(|(field, _)| *field != KeyField::Protocol);
        more.then(|| {
            let remarks = out.iter().map(|(field, value)| remark_left_out(field, *value)).collect();
            let (leaves, groups) = (group.iter().copied().collect(), vec![group.to_vec()]);
            Part { sort, leaves, groups, fields, orientation, links: BTreeSet::new(), remarks }
        })
    }

    /// The leaves with packets against the others' direction; `None` if a class does not imply the
    /// direction.
    fn directions(&self, sort: usize, group: &[usize]) -> Option<BTreeSet<usize>> {
        let mut exchanged: Vec<Option<bool>> = vec![None; group.len()];
        let mut next = vec![0];
        *exchanged.first_mut()? = Some(false);
        while let Some(at) = next.pop() {
            for other in 0..group.len() {
                let same = self.agree(group[at], group[other], sort, false) && at != other;
                let opposite = self.agree(group[at], group[other], sort, true);
                match (same || at == other, opposite) {
                    (true, true) => return None,
                    (false, false) => continue,
                    _ => {}
                }
                let wanted = exchanged[at]? != opposite;
                match exchanged[other] {
                    None => {
                        exchanged[other] = Some(wanted);
                        next.push(other);
                    }
                    Some(already) if already != wanted => return None,
                    Some(_) => {}
                }
            }
        }
        let leaves = group.iter().zip(&exchanged);
        Some(leaves.filter(|(_, e)| **e == Some(true)).map(|(leaf, _)| *leaf).collect())
    }

    /// A level for all other leaves of a sort.
    fn shared_part(&self, sort: usize, groups: Vec<Vec<usize>>) -> Part {
        let session = &self.sorts[sort].session;
        let leaves: BTreeSet<usize> = groups.iter().flatten().copied().collect();
        let fixed =
            |field: &KeyField| same(leaves.iter().map(|leaf| self.fixed(*leaf, field, sort)));
        let moves = self.translates[sort];
        let (out, fields) = left_out(session, |field| match field.mirrored() {
            _ if moves && *field != KeyField::Protocol => None,
            Some(mirrored) if session.bidirectional => {
                fixed(field).filter(|v| fixed(&mirrored) == Some(*v))
            }
            _ => fixed(field),
        });
        let mut remarks: Vec<String> =
            out.iter().map(|(field, value)| remark_left_out(field, *value)).collect();
        for field in &fields {
            let values: Vec<Option<u32>> =
                leaves.iter().map(|leaf| self.fixed(*leaf, field, sort)).collect();
            remarks.extend(remark_kept(field, &values, session.bidirectional, moves));
        }
        let orientation = Orientations::Same(match session.bidirectional {
            true => Orientation::Compared,
            false => Orientation::Unidirectional,
        });
        Part { sort, leaves, groups, fields, orientation, links: BTreeSet::new(), remarks }
    }

    /// Leaves of a class that fixes one port and would imply a packet's direction, except for
    /// packets with this number on both sides: each with the test that finds those.
    pub(super) fn nearly_directed(&self) -> Vec<(usize, Word)> {
        let mut found = Vec::new();
        for (leaf, families) in self.leaves.iter().enumerate() {
            let finest = families.iter().flatten().map(|(finest, _)| *finest);
            let test = finest.clone().find_map(|sort| self.equal_ports(leaf, sort));
            let Some(test) = test else { continue };
            let directed = |sort: usize| {
                let Sort { session, family } = &self.sorts[sort];
                let known = self.known[leaf].after(&test, false);
                !known.can_agree(&known, &session.fields, *family, true)
            };
            if finest.clone().any(directed) {
                found.push((leaf, test));
            }
        }
        found
    }

    fn equal_ports(&self, leaf: usize, sort: usize) -> Option<Word> {
        if !self.sorts[sort].session.bidirectional
            || self.translates[sort]
            || !self.agree(leaf, leaf, sort, true)
        {
            return None;
        }
        let fixed = |field| self.fixed(leaf, &field, sort);
        let ports = [fixed(KeyField::SrcPort), fixed(KeyField::DstPort)];
        let (mask, value) = match ports {
            [Some(src), None] => (0xffff, src),
            [None, Some(dst)] => (0xffff_0000, dst << 16),
            _ => return None,
        };
        Some(Word::equal(Base::Transport, 0, mask, value))
    }

    /// Whether the path to a leaf implies the direction of its packets.
    pub(super) fn is_directed(&self, parts: &[Part], leaf: usize) -> bool {
        let of = |part: &Part| matches!(part.orientation, Orientations::Exchanged(_));
        parts.iter().any(|part| of(part) && part.leaves.contains(&leaf))
    }

    /// How packets of a leaf find the records of a sort, and those that they link to.
    pub(super) fn key(&self, parts: &[Part], sort: usize, leaf: usize) -> Option<KeyPlan> {
        let mine = |part: &Part| part.sort == sort && part.leaves.contains(&leaf);
        let level = parts.iter().position(mine)?;
        let part = &parts[level];
        let orientation = match &part.orientation {
            Orientations::Same(orientation) => *orientation,
            Orientations::Exchanged(leaves) if leaves.contains(&leaf) => Orientation::Exchanged,
            Orientations::Exchanged(_) => Orientation::AsIs,
        };
        let mirror = |field: &KeyField| match orientation {
            Orientation::Exchanged => field.mirrored().unwrap_or_else(|| field.clone()),
            _ => field.clone(),
        };
        Some(KeyPlan {
            level: level.min(LEVELS_MAX) as LevelId,
            fields: part.fields.iter().map(mirror).collect(),
            orientation,
            links: part.links.iter().filter_map(|link| self.key(parts, *link, leaf)).collect(),
        })
    }

    /// Whether a function on a path with these sessions translates addresses.
    pub(super) fn translates(&self, sort: usize) -> bool {
        self.translates[sort]
    }
}

/// The value that all have.
fn same(mut values: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = values.next()??;
    values.all(|value| value == Some(first)).then_some(first)
}

/// Fields with a fixed value, and the others, which are never none.
fn left_out(
    session: &SessionDef,
    fixed: impl Fn(&KeyField) -> Option<u32>,
) -> (Vec<(KeyField, u32)>, Vec<KeyField>) {
    let (mut out, mut kept) = (Vec::new(), Vec::new());
    for field in &session.fields {
        match fixed(field) {
            Some(value) => out.push((field.clone(), value)),
            None => kept.push(field.clone()),
        }
    }
    if kept.is_empty() { (Vec::new(), session.fields.clone()) } else { (out, kept) }
}

fn remark_left_out(field: &KeyField, value: u32) -> String {
    format!("'{field}' is left out: it is {} in every class that comes here", shown(field, value))
}

/// Why a field that some leaf fixes is in the key nevertheless.
fn remark_kept(
    field: &KeyField,
    values: &[Option<u32>],
    bidirectional: bool,
    translated: bool,
) -> Option<String> {
    let fixed = values.iter().flatten().count();
    let why = match () {
        () if fixed == 0 => return None,
        () if translated => {
            "addresses are translated, and replies come under other ones".to_owned()
        }
        () if fixed < values.len() => {
            format!("{fixed} of {} classes that share this table fix it", values.len())
        }
        () if same(values.iter().copied()).is_none() => {
            "classes that share this table fix it to different values".to_owned()
        }
        () if bidirectional => {
            "a session's replies carry it on the other side, and so can its own \
                            packets: its class does not show the direction"
                .to_owned()
        }
        () => "a key has at least one field".to_owned(),
    };
    Some(format!("'{field}' is kept: {why}"))
}

/// A field's value, for people.
fn shown(field: &KeyField, value: u32) -> String {
    match field {
        KeyField::Protocol => protocol_name(value),
        KeyField::Src | KeyField::Dst => std::net::Ipv4Addr::from(value).to_string(),
        KeyField::Word(_) => format!("{value:08x}"),
        _ => value.to_string(),
    }
}
