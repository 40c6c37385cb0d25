//! NSHDecap: takes network service headers off.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Operation, Replicas, Spec, Topic, Ty, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::nsh::{NshHeader, PATH_MAX};
use thruway_wire::{Defect, Header};

use crate::inner::{self, Inner};
use crate::metadata::Notes;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "NSHDecap",
        topic: Topic::Hops,
        summary: "takes network service headers off",
        docs: "Expects packets that begin with a network service header (RFC 8300) and takes it \
               off. Where its metadata are those of NSHEncap, the annotations VLAN_TCI (the tag of \
               the packet's class), AGGREGATE and PAINT get the other host's values, else 0. \
               Metadata of others are passed over. So a FlowClassifier behind, with TAG_ANNO \
               VLAN_TCI, need not classify again.\n\n\
               Headers that are wrong, index 0, packets of operation and maintenance (O bit), \
               paths and indexes other than PATH and INDEX, and what carries something else than \
               PROTOCOL, leave by output 1, or are dropped where there is none.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> NSHEncap(5, 255) -> NSHDecap(5, 255) -> CheckIPHeader -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::optional("PATH", Ty::UInt, "service path identifier; any if not given"),
            Arg::optional("INDEX", Ty::UInt, "service index; any but 0 if not given"),
            Arg::keyword("PROTOCOL", Ty::Choice(inner::PLAIN_WORDS), "what they carry").or("ip"),
        ],
        drops: NoService::DROPS,
        cost: &[Operation::HeaderParse.once(), Operation::HeaderMove.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a header is not taken.
    pub(crate) enum NoService {
        Short = "truncated": "it ends before its service header does",
        Version = "bad-version": "that header has another version than 0",
        MetadataType = "metadata-type": "its metadata type is neither 1 nor 2",
        Length = "bad-length": "the header's length is not that of its metadata",
        Metadata = "bad-metadata": "its metadata are cut",
        Oam = "oam": "it is an OAM packet, not a user's",
        Index = "index-zero": "its service index is 0: it went through more functions than its path has",
        Path = "other-path": "its path or index is another one",
        Protocol = "other-protocol": "its payload is not PROTOCOL",
        Ttl = "ttl-expired": "it was forwarded by as many hosts as it may be",
    }
}

/// A header that is right, and of a user's packet.
#[inline]
pub(crate) fn service_header(bytes: &[u8]) -> Result<(&NshHeader, &[u8]), NoService> {
    let parsed = NshHeader::parse_with_options(bytes);
    let (header, metadata, _) = parsed.map_err(|error| match error.defect {
        Defect::BadVersion { .. } => NoService::Version,
        Defect::BadField { .. } => NoService::MetadataType,
        Defect::BadHeaderLength { .. } => NoService::Length,
        _ => NoService::Short,
    })?;
    match (header.is_oam(), header.index()) {
        (true, _) => Err(NoService::Oam),
        (_, 0) => Err(NoService::Index),
        _ => Ok((header, metadata)),
    }
}

struct NshDecap {
    path: Option<u32>,
    index: Option<u8>,
    inner: Inner,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let path = args.opt("PATH")?;
    if path.is_some_and(|path| path > PATH_MAX) {
        return Err(args.error("PATH", format!("must be from 0 to {PATH_MAX}")).into());
    }
    let index = args.opt("INDEX")?;
    if index == Some(0) {
        return Err(args.error("INDEX", "must be from 1 to 255: 0 is dropped").into());
    }
    Ok(Box::new(NshDecap { path, index, inner: Inner::ALL[args.choice("PROTOCOL")?] }))
}

impl NshDecap {
    #[inline]
    fn decap(&self, packet: &mut Packet) -> Result<(), NoService> {
        let (header, metadata) = service_header(packet.data())?;
        let is_path = self.path.is_none_or(|path| path == header.path());
        if !is_path || self.index.is_some_and(|index| index != header.index()) {
            return Err(NoService::Path);
        }
        if !self.inner.is_next_protocol(header.next_protocol()) {
            return Err(NoService::Protocol);
        }
        let notes = Notes::find(header.md_type(), metadata).map_err(|()| NoService::Metadata)?;
        let len = NshHeader::LEN + metadata.len();
        if !packet.pull(len) {
            return Err(NoService::Short);
        }
        notes.unwrap_or_default().annotate(packet);
        Ok(())
    }
}

impl Element for NshDecap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match self.decap(packet) {
            Ok(()) => Verdict::Pass,
            Err(why) => Verdict::reject(1, why),
        });
    }
}
