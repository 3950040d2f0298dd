//! Appends length-encoded bytes to a message.

use bytes::BytesMut;

/// Appends a length-encoded integer.
#[inline]
pub(crate) fn append_length(length: usize, out: &mut BytesMut) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=0xFA => out.extend_from_slice(&bytes[..1]),
        0xFB..=0xFFFF => {
            out.extend_from_slice(&[0xFC]);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.extend_from_slice(&[0xFD]);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.extend_from_slice(&[0xFE]);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends bytes, their length first.
#[inline]
pub(crate) fn append_bytes(bytes: &[u8], out: &mut BytesMut) {
    append_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::cursor::Cursor;

    #[test]
    fn what_is_appended_is_read_again() {
        for length in [0, 1, 0xFA, 0xFB, 0xFC, 0xFF, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000] {
            let mut out = BytesMut::new();
            append_bytes(&vec![7; length], &mut out);
            let mut cursor = Cursor::new(&out);
            assert_eq!(cursor.lenenc_bytes().map(<[u8]>::len), Some(length));
            assert!(cursor.is_empty(), "{length}");
        }
    }
}
