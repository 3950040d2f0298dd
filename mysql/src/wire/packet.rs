//! Packets: the protocol's envelope, a length of three bytes and a sequence id before each payload.
//!
//! ```text
//! payload shorter than 2^24-1     [length, id][payload]
//! payload of 2^24-1 or more       [2^24-1, 0][..] [2^24-1, 1][..] .. [less than that, perhaps nothing, n][..]
//! ```
//!
//! Ids count the packets of one command and its answer, and wrap after 255. What a payload means is not known here.
//!
//! Source: client/server protocol, "MySQL Packets".

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

/// Length and sequence id.
pub(crate) const HEADER_BYTES: usize = 4;

/// What one packet can carry. A packet this long says that the payload goes on in the next.
pub(crate) const PACKET_PAYLOAD_BYTES_MAX: usize = (1 << 24) - 1;

/// What stands before a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of this packet.
    pub(crate) payload_bytes: usize,
    pub(crate) sequence: u8,
}

impl Header {
    /// Reads the header at the front of `bytes`; `None` while it is not all there.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Header> {
        let &[a, b, c, sequence] = bytes.first_chunk()?;
        Some(Header { payload_bytes: u32::from_le_bytes([a, b, c, 0]) as usize, sequence })
    }

    /// Whether the payload goes on in the packet that follows.
    #[inline]
    pub(crate) fn goes_on(self) -> bool {
        self.payload_bytes == PACKET_PAYLOAD_BYTES_MAX
    }

    /// A packet is never longer than its length field can say: see [`append_with`].
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, ..] = self.payload_bytes.to_le_bytes();
        [a, b, c, self.sequence]
    }
}

/// Appends `payload` as one packet or more, the first with the id `sequence`. Gives the id that comes next.
pub(crate) fn append(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> u8 {
    append_with(sequence, out, |out| out.extend_from_slice(payload))
}

/// Appends what `encode` appends as the payload of one packet or more, without a copy where one is enough. Gives the
/// id that comes next.
#[inline]
pub(crate) fn append_with(sequence: u8, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let header_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    encode(out);
    let payload_bytes = out.len() - header_at - HEADER_BYTES;
    if payload_bytes >= PACKET_PAYLOAD_BYTES_MAX {
        return split(header_at, sequence, out);
    }
    set_header(header_at, Header { payload_bytes, sequence }, out);
    sequence.wrapping_add(1)
}

/// Cuts the payload behind the header at `header_at` into packets.
#[cold]
fn split(header_at: usize, mut sequence: u8, out: &mut Vec<u8>) -> u8 {
    let payload = out.split_off(header_at + HEADER_BYTES);
    out.truncate(header_at);
    let packets = payload.len() / PACKET_PAYLOAD_BYTES_MAX + 1;
    out.reserve(payload.len() + packets * HEADER_BYTES);
    // The last packet is shorter than the others, so it is there even when it has nothing left to carry.
    for packet in 0..packets {
        let rest = payload.get(packet * PACKET_PAYLOAD_BYTES_MAX..).unwrap_or_default();
        let part = rest.get(..PACKET_PAYLOAD_BYTES_MAX).unwrap_or(rest);
        out.extend_from_slice(&Header { payload_bytes: part.len(), sequence }.to_bytes());
        out.extend_from_slice(part);
        sequence = sequence.wrapping_add(1);
    }
    sequence
}

fn set_header(at: usize, header: Header, out: &mut [u8]) {
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = header.to_bytes();
    }
}

/// Takes the next whole payload off the front of `input`, joined if it came in several packets; `None` while it is not
/// all there. `sequence` is the id that is due, and moves on.
///
/// # Errors
///
/// If a packet's id is not the one that is due, or the payload is longer than `bytes_max`, which is known from the
/// header: the payload itself is not waited for.
pub(crate) fn take(input: &mut BytesMut, sequence: &mut u8, bytes_max: usize) -> Result<Option<Bytes>, PacketFault> {
    let mut due = *sequence;
    let mut payload_bytes = 0;
    let mut packets = 0;
    loop {
        let at = payload_bytes + packets * HEADER_BYTES;
        let rest = input.get(at..).unwrap_or_default();
        let Some(header) = Header::parse(rest) else { return Ok(None) };
        if header.sequence != due {
            return Err(PacketFault::OutOfOrder { due, sequence: header.sequence });
        }
        payload_bytes += header.payload_bytes;
        if payload_bytes > bytes_max {
            return Err(PacketFault::TooLong { bytes_max });
        }
        if rest.len() - HEADER_BYTES < header.payload_bytes {
            return Ok(None);
        }
        due = due.wrapping_add(1);
        packets += 1;
        if !header.goes_on() {
            break;
        }
    }
    *sequence = due;
    Ok(Some(join(input, payload_bytes, packets)))
}

/// Takes `packets` packets, all of them there, off `input`.
fn join(input: &mut BytesMut, payload_bytes: usize, packets: usize) -> Bytes {
    if packets == 1 {
        input.advance(HEADER_BYTES);
        return input.split_to(payload_bytes).freeze();
    }
    let mut joined = BytesMut::with_capacity(payload_bytes);
    for _ in 0..packets {
        input.advance(HEADER_BYTES);
        let part_bytes = (payload_bytes - joined.len()).min(PACKET_PAYLOAD_BYTES_MAX);
        joined.extend_from_slice(&input.split_to(part_bytes));
    }
    joined.freeze()
}

/// What is wrong with a packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketFault {
    OutOfOrder { due: u8, sequence: u8 },
    TooLong { bytes_max: usize },
}

impl fmt::Display for PacketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketFault::OutOfOrder { due, sequence } => {
                write!(f, "a packet with number {sequence} where {due} is due")
            }
            PacketFault::TooLong { bytes_max } => write!(f, "a packet of more than {bytes_max} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each packet's length and id.
    fn headers(mut bytes: &[u8]) -> Vec<(usize, u8)> {
        let mut found = Vec::new();
        while let Some(header) = Header::parse(bytes) {
            found.push((header.payload_bytes, header.sequence));
            bytes = &bytes[HEADER_BYTES + header.payload_bytes..];
        }
        assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
        found
    }

    #[test]
    fn payloads_are_split_where_a_packet_is_full() {
        const FULL: usize = PACKET_PAYLOAD_BYTES_MAX;
        let table: [(usize, &[(usize, u8)]); 6] = [
            (0, &[(0, 254)]),
            (5, &[(5, 254)]),
            (FULL - 1, &[(FULL - 1, 254)]),
            (FULL, &[(FULL, 254), (0, 255)]),
            (FULL + 1, &[(FULL, 254), (1, 255)]),
            (2 * FULL, &[(FULL, 254), (FULL, 255), (0, 0)]),
        ];
        for (payload_bytes, expected) in table {
            let payload: Vec<u8> = (0..payload_bytes).map(|at| (at % 251) as u8).collect();
            let mut out = b"before".to_vec();
            let next = append(&payload, 254, &mut out);
            assert_eq!(headers(&out[6..]), expected, "{payload_bytes}");
            assert_eq!(next, expected.last().unwrap().1.wrapping_add(1), "{payload_bytes}");

            let mut input = BytesMut::from(&out[6..]);
            input.extend_from_slice(b"behind");
            let mut sequence = 254;
            let taken = take(&mut input, &mut sequence, payload_bytes).unwrap().unwrap();
            assert!(taken == payload, "{payload_bytes}: the payload came back changed");
            assert_eq!((sequence, &input[..]), (next, &b"behind"[..]), "{payload_bytes}");
        }
    }

    #[test]
    fn a_payload_is_taken_only_whole() {
        let mut out = Vec::new();
        append(b"hello", 3, &mut out);
        for cut in 0..out.len() {
            let (mut input, mut sequence) = (BytesMut::from(&out[..cut]), 3);
            assert_eq!(take(&mut input, &mut sequence, 5), Ok(None), "cut to {cut}");
            assert_eq!((input.len(), sequence), (cut, 3), "cut to {cut}");
        }
    }

    #[test]
    fn faults_are_seen_in_the_header() {
        let refused = |bytes: &[u8], bytes_max| take(&mut BytesMut::from(bytes), &mut 1, bytes_max);
        assert_eq!(refused(b"\x05\0\0\x01", 5), Ok(None));
        assert_eq!(refused(b"\x05\0\0\x01", 4), Err(PacketFault::TooLong { bytes_max: 4 }));
        assert_eq!(refused(b"\x05\0\0\x02", 5), Err(PacketFault::OutOfOrder { due: 1, sequence: 2 }));
        assert_eq!(refused(b"\xff\xff\xff\x01", 1 << 20), Err(PacketFault::TooLong { bytes_max: 1 << 20 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), bytes_max in 0..80_usize) {
            let (mut input, mut sequence) = (BytesMut::from(&bytes[..]), bytes.get(3).copied().unwrap_or(0));
            if let Ok(Some(payload)) = take(&mut input, &mut sequence, bytes_max) {
                prop_assert!(payload.len() <= bytes_max);
                prop_assert_eq!(payload.len() + HEADER_BYTES + input.len(), bytes.len());
            }
        }
    }
}
