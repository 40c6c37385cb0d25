//! VhostUser: a virtual machine's network device, with the configuration at its other end.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, HotSwap, Operation,
    Replicas, Run, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_vhost::{Address, Port};

use thruway_elements_support::virtio_link::{self, Lost, VirtioLink};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "VhostUser",
        topic: Topic::Devices,
        summary: "is the network device of a virtual machine, by vhost-user",
        docs: "A virtual machine monitor (QEMU, cloud-hypervisor and others) connects to SOCKET, and \
               its guest sees a network card (virtio-net) with a driver that every system has. What \
               the guest sends is emitted, with Ethernet header, timestamp and packet type; what \
               enters is given to the guest. Packets come in pushed or are pulled.\n\
               SOCKET is made and listened at, for the owner of this process alone. With CLIENT \
               true the monitor listens there, and this end connects, again and again until it \
               succeeds; so either end may be started anew while the other goes on. The \
               monitor must share the guest's memory, as files of memory: with QEMU \
               `-object memory-backend-memfd,id=m,size=1G,share=on -machine memory-backend=m \
               -chardev socket,id=c,path=SOCKET,reconnect=1 -netdev vhost-user,id=n,chardev=c \
               -device virtio-net-pci,netdev=n`.\n\
               The guest is a stranger: each address, index and length that it writes is checked, \
               and what no driver writes ends the device, with a line that says why (faults, \
               last_end). The monitor may connect again. Packets that come while no driver is \
               there are dropped (no-guest); while the guest has no buffer, QUEUE packets wait, and \
               what is more is dropped (no-buffer).\n\
               Merged buffers and indirect descriptors are supported. Checksums and segments are \
               not left to this end (no CSUM, no TSO): the guest's own stack completes them. There \
               is one queue pair.",
        example: "vm :: VhostUser(/tmp/vm.sock) -> Counter -> vm",
        ports: "0-1/0-1",
        processing: "a/h",
        flow: "x/y",
        args: &[
            Arg::required("SOCKET", Ty::Str, "the socket's path"),
            Arg::keyword("CLIENT", Ty::Bool, "whether the monitor listens, and this end connects")
                .or("false"),
            virtio_link::QUEUE,
            virtio_link::BURST,
        ],
        drops: Lost::DROPS,
        handlers: &[
            Handler::sum("count", "packets from the guest"),
            Handler::sum("byte_count", "bytes from the guest"),
            Handler::sum("sent", "packets given to the guest"),
            Handler::sum("sent_bytes", "bytes given to the guest"),
            Handler::read("state", "waiting, connected, or ready: its driver uses the device"),
            Handler::read("connections", "monitors that connected"),
            Handler::read("faults", "connections that ended for a breach of the protocol"),
            Handler::read("last_end", "why the last connection ended; - if none did"),
            Handler::read("features", "what was agreed on with the driver, as a number"),
        ],
        threading: Threading::Task,
        cost: &[Operation::PortReceive.once()],
        replicas: Replicas::OneThread(
            "its device has one queue pair; a Queue in front does, too",
        ),
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<VhostUser>()
.with_handlers::<VhostUser>();

struct VhostUser {
    address: Address,
    burst: Option<usize>,
    link: VirtioLink,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let path: PathBuf = args.get::<String>("SOCKET")?.into();
    let is_client: bool = args.get("CLIENT")?;
    let address = if is_client { Address::Connect(path) } else { Address::Listen(path) };
    Ok(Box::new(VhostUser {
        address,
        burst: virtio_link::burst(args)?,
        link: VirtioLink::of(args)?,
        batch: Batch::with_room(),
    }))
}

impl Element for VhostUser {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.link.port().is_none() {
            let name = cx.name();
            self.link.set_port(Arc::new(Port::open(&name, self.address.clone())?));
        }
        self.link.watch(cx)
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.link.send(cx, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        let has_sent = self.link.resume(cx);
        let mut has_pulled = false;
        if cx.inputs() > 0 && cx.is_pull_input(0) && !self.link.is_waiting() {
            cx.pull(0, burst, &mut self.batch);
            has_pulled = !self.batch.is_empty();
            self.link.send(cx, &mut self.batch);
        }
        self.link.receive(cx, burst, &mut self.batch);
        let has_received = !self.batch.is_empty();
        if has_received {
            cx.emit_all(0, &mut self.batch);
        }
        if has_received || has_pulled || has_sent { Run::Again } else { Run::Idle }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.link.finish(cx);
        Ok(())
    }
}

impl Handlers for VhostUser {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.link.read(name).ok_or_else(|| HandlerError::no_read(name))
    }
}

impl HotSwap for VhostUser {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let port = self.link.take_port()?;
        Some(Box::new((self.address.clone(), port)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(state) = state.downcast::<(Address, Arc<Port>)>() else { return };
        let (address, port) = *state;
        // Another socket: that device ends here.
        if address == self.address {
            self.link.set_port(port);
        }
    }
}
