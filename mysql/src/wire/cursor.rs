//! `Cursor`: reads the protocol's basic data types off the front of some bytes.
//!
//! Everything says `None` when the bytes end too early or make no sense; what that means is up to the reader. Nothing
//! is allocated, whatever a length claims.
//!
//! Source: client/server protocol, "Basic Data Types".

use bytes::BufMut;

/// The bytes that are left to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor(bytes)
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length-encoded integer. 0xFB (NULL in text rows) and 0xFF (an error) are none.
    #[inline]
    pub(crate) fn lenenc(&mut self) -> Option<u64> {
        match self.u8()? {
            small @ ..=0xFA => Some(u64::from(small)),
            0xFC => self.u16().map(u64::from),
            0xFD => self.u24().map(u64::from),
            0xFE => self.u64(),
            0xFB | 0xFF => None,
        }
    }

    /// A length-encoded string.
    #[inline]
    pub(crate) fn lenenc_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.lenenc()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    /// A string that ends with a NUL, without it.
    pub(crate) fn nul_bytes(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Some(text)
    }
}

/// A length-encoded integer as it is written, and how many of the bytes it takes.
#[inline]
pub(crate) fn lenenc(value: u64) -> ([u8; 9], usize) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    match value {
        0..=0xFA => ([a, 0, 0, 0, 0, 0, 0, 0, 0], 1),
        0xFB..=0xFFFF => ([0xFC, a, b, 0, 0, 0, 0, 0, 0], 3),
        0x1_0000..=0xFF_FFFF => ([0xFD, a, b, c, 0, 0, 0, 0, 0], 4),
        _ => ([0xFE, a, b, c, d, e, f, g, h], 9),
    }
}

/// Appends a length-encoded integer.
#[inline]
pub(crate) fn append_lenenc(value: u64, out: &mut impl BufMut) {
    let (bytes, used) = lenenc(value);
    out.put_slice(&bytes[..used]);
}

/// Appends a length-encoded string.
#[inline]
pub(crate) fn append_lenenc_bytes(bytes: &[u8], out: &mut impl BufMut) {
    append_lenenc(bytes.len() as u64, out);
    out.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    #[test]
    fn length_encoded_integers_round_trip_at_their_edges() {
        for value in [0, 1, 0xFA, 0xFB, 0xFC, 0xFF, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, u64::MAX] {
            let mut bytes = Vec::new();
            append_lenenc(value, &mut bytes);
            let mut message = BytesMut::new();
            append_lenenc(value, &mut message);
            assert_eq!(message, bytes, "{value:#x}");
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.lenenc(), Some(value), "{value:#x}");
            assert!(cursor.is_empty(), "{value:#x}");
            for cut in 0..bytes.len() {
                assert_eq!(Cursor::new(&bytes[..cut]).lenenc(), None, "{value:#x} cut to {cut}");
            }
        }
        assert_eq!(Cursor::new(&[0xFB]).lenenc(), None);
        assert_eq!(Cursor::new(&[0xFF]).lenenc(), None);
    }

    #[test]
    fn a_length_past_the_end_is_no_string() {
        assert_eq!(Cursor::new(&[3, b'a', b'b']).lenenc_bytes(), None);
        assert_eq!(Cursor::new(&[0xFE, 255, 255, 255, 255, 255, 255, 255, 255]).lenenc_bytes(), None);
        assert_eq!(Cursor::new(b"abc").nul_bytes(), None);
        let mut cursor = Cursor::new(b"ab\0c");
        assert_eq!((cursor.nul_bytes(), cursor.rest()), (Some(&b"ab"[..]), &b"c"[..]));
    }
}
