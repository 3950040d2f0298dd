//! Appends what is written by others' code straight into a message: its length comes first and is known last.

use bytes::BytesMut;

use crate::wire::cursor::lenenc;

/// Appends what `write` appends, its length first, which is known only then.
pub(crate) fn append_with<E>(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<(), E>) -> Result<(), E> {
    let length_at = out.len();
    // For most values one byte is all their length takes; the others have to move.
    out.extend_from_slice(&[0]);
    let begins_at = out.len();
    write(out)?;
    let ends_at = out.len();
    let (bytes, used) = lenenc((ends_at - begins_at) as u64);
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
    use crate::wire::cursor::append_lenenc_bytes;

    #[test]
    fn it_is_as_if_the_length_had_been_known() {
        for length in [0, 1, 0xFA, 0xFB, 0xFC, 0xFF, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000] {
            let mut out = BytesMut::from(&b"before"[..]);
            let mut written = out.clone();
            append_lenenc_bytes(&vec![7; length], &mut out);
            append_with(&mut written, |written| {
                written.resize(written.len() + length, 7);
                Ok::<(), std::convert::Infallible>(())
            })
            .unwrap();
            assert_eq!(written, out, "{length}");
        }
    }
}
