//! The header that ICMP has in both versions of IP.

/// Declares it, for a layer and with the types that are its protocol's.
macro_rules! icmp_header {
    ($(#[$doc:meta])* $name:ident: $layer:ident) => {
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::KnownLayout,
            zerocopy::Immutable,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            icmp_type: u8,
            code: u8,
            checksum: zerocopy::byteorder::network_endian::U16,
            rest: zerocopy::byteorder::network_endian::U32,
        }

        impl $crate::Header for $name {
            const LAYER: $crate::Layer = $crate::Layer::$layer;
        }

        impl $name {
            /// A header without its checksum; `rest` is the last four bytes.
            #[must_use]
            pub fn new(icmp_type: u8, code: u8, rest: u32) -> Self {
                Self { icmp_type, code, checksum: 0_u16.into(), rest: rest.into() }
            }

            accessors! {
                /// Message type: one of this module's types.
                icmp_type, set_icmp_type: u8;
                /// Code.
                code, set_code: u8;
                /// Checksum of the whole message, in IPv6 with the pseudo header.
                checksum, set_checksum: u16;
                /// The last four bytes as a number: identifier and sequence number of an echo, MTU
                /// or pointer of an error.
                rest, set_rest: u32;
            }

            /// Identifier of an echo, timestamp... message.
            #[must_use]
            #[inline]
            pub fn ident(&self) -> u16 {
                (self.rest() >> 16) as u16
            }

            /// Sequence number of an echo, timestamp... message.
            #[must_use]
            #[inline]
            pub fn sequence(&self) -> u16 {
                self.rest() as u16
            }

            /// Changes the checksum by `delta`.
            #[inline]
            pub fn update_checksum(&mut self, delta: $crate::checksum::Delta) {
                self.checksum = delta.apply(self.checksum()).into();
            }

            updates! {
                update_type: icmp_type, set_icmp_type, u8, of_high;
                update_rest: rest, set_rest, u32, of_u32;
            }
        }
    };
}
