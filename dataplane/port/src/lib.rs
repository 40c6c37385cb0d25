//! Receive and transmit: captures, AF_PACKET, TAP.
