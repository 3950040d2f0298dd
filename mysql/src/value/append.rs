//! Appends length-encoded bytes to a message.

use bytes::BytesMut;

/// A length as it is written, and how many of the bytes it takes.
#[inline]
fn length_encoded(length: usize) -> ([u8; 9], usize) {
    let [a, b, c, d, e, f, g, h] = (length as u64).to_le_bytes();
    match length {
        0..=0xFA => ([a, 0, 0, 0, 0, 0, 0, 0, 0], 1),
        0xFB..=0xFFFF => ([0xFC, a, b, 0, 0, 0, 0, 0, 0], 3),
        0x1_0000..=0xFF_FFFF => ([0xFD, a, b, c, 0, 0, 0, 0, 0], 4),
        _ => ([0xFE, a, b, c, d, e, f, g, h], 9),
    }
}

/// Appends a length-encoded length.
#[inline]
pub(crate) fn append_length(length: usize, out: &mut BytesMut) {
    let (bytes, used) = length_encoded(length);
    out.extend_from_slice(&bytes[..used]);
}

/// Appends bytes, their length first.
#[inline]
pub(crate) fn append_bytes(bytes: &[u8], out: &mut BytesMut) {
    append_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends what `write` appends, its length first, which is known only then.
#[cfg(any(feature = "rust_decimal", feature = "serde_json", feature = "uuid"))]
pub(crate) fn append_with<E>(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<(), E>) -> Result<(), E> {
    let length_at = out.len();
    // For most values one byte is all their length takes; the others have to move.
    out.extend_from_slice(&[0]);
    let begins_at = out.len();
    write(out)?;
    let ends_at = out.len();
    let (bytes, used) = length_encoded(ends_at - begins_at);
    out.resize(ends_at + used - 1, 0);
    if used > 1 {
        out.copy_within(begins_at..ends_at, length_at + used);
    }
    out[length_at..length_at + used].copy_from_slice(&bytes[..used]);
    Ok(())
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
            #[cfg(any(feature = "rust_decimal", feature = "serde_json", feature = "uuid"))]
            {
                let mut written = BytesMut::new();
                append_with(&mut written, |written| {
                    written.resize(written.len() + length, 7);
                    Ok::<(), std::convert::Infallible>(())
                })
                .unwrap();
                assert_eq!(written, out, "{length}");
            }
        }
    }
}
