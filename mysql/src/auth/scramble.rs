//! The hashed answers: what shows that one has the password without showing the password.
//!
//! ```text
//! mysql_native_password    SHA1(password)   xor SHA1(nonce, SHA1(SHA1(password)))
//! caching_sha2_password    SHA256(password) xor SHA256(SHA256(SHA256(password)), nonce)
//! ```
//!
//! Source: the servers' manuals on the plugins, "Secure Password Authentication" and "Caching_sha2_password".

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::wire::handshake::NONCE_BYTES;

/// The answer of `mysql_native_password`; empty for an empty password.
pub(super) fn native(password: &[u8], nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    xor(&once, &mask)
}

/// The answer of `caching_sha2_password` that is enough if the server has seen the password before.
pub(super) fn caching_sha2(password: &[u8], nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    xor(&once, &mask)
}

/// The password with the NUL that ends it.
pub(super) fn clear(password: &[u8]) -> Vec<u8> {
    [password, b"\0"].concat()
}

/// What is encrypted by RSA: the password with its NUL under the nonce, again and again.
pub(super) fn masked(password: &[u8], nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
    let mask = nonce.iter().cycle();
    clear(password).iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &[u8; NONCE_BYTES] = b"abcdefghijklmnopqrst";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Computed from the formulas above with other programs.
    #[test]
    fn answers_that_are_known() {
        for (password, native_answer, sha2_answer) in [
            (
                "secret",
                "8817c50fa779daef010ee7577825b0847df9842e",
                "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809",
            ),
            (
                "pä\u{df}wort",
                "680dad0534f711456298c4f1c47d45ac2a0c25a6",
                "7c727ddc052474261218a2ac4edc1f9f7d4b1b15b932dfd0242160ede967eab7",
            ),
        ] {
            assert_eq!(hex(&native(password.as_bytes(), NONCE)), native_answer, "{password}");
            assert_eq!(hex(&caching_sha2(password.as_bytes(), NONCE)), sha2_answer, "{password}");
        }
        assert_eq!(native(b"", NONCE), b"");
    }

    #[test]
    fn a_mask_goes_round() {
        let password = [7; 50];
        let masked = masked(&password, NONCE);
        assert_eq!(masked.len(), 51);
        let unmasked: Vec<u8> = masked.iter().enumerate().map(|(at, byte)| byte ^ NONCE[at % NONCE_BYTES]).collect();
        assert_eq!(unmasked, clear(&password));
    }
}
