//! `PublicKey`: the server's RSA key, by which a password travels over a connection that anybody can listen in on.
//!
//! Encryption only: there is no private key here, and nothing of this kind's timing gives one away.

use std::fmt;

use rsa::pkcs8::DecodePublicKey;
use sha1::Sha1;

use super::scramble;
use crate::wire::handshake::NONCE_BYTES;

/// A server's RSA key, of 1,024 to 8,192 bits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PublicKey(rsa::PublicKey);

impl PublicKey {
    /// Reads a PEM text (`-----BEGIN PUBLIC KEY-----`), as servers keep and send it.
    pub(crate) fn parse(pem: &[u8]) -> Option<PublicKey> {
        let text = std::str::from_utf8(pem).ok()?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        rsa::PublicKey::from_public_key_pem(text).ok().map(PublicKey)
    }

    /// The password as the server that has the key can read it, in answer to `nonce`. `None` if the password is too long
    /// for the key: one of 2,048 bits takes 213 bytes.
    pub(super) fn encrypt(&self, password: &[u8], nonce: &[u8; NONCE_BYTES]) -> Option<Vec<u8>> {
        self.0.oaep_encrypt::<Sha1>(&scramble::masked(password, nonce)).ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use rsa::pkcs8::DecodePrivateKey;

    use super::*;

    /// Made for these tests, and short so that they are quick.
    const PRIVATE_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAMcZQ5nwodDSiHhO
VtsyAE1Skgl+Jsi4NW2rTLjj7Uu/e2aSFrXLeKRJYHnyDkyxtSRQn/llRghVZUs3
bxMLkOTSTOwWJYEOGVCLQGyDV4dOXnJaN4pk1302eSEKi+lRdigTwmdjfG5a3G/a
UzBoH0WbeXQhimhxbC86fHyTsqwnAgMBAAECgYAeT0lMUSbBPJvL/NkaK4WCP/S9
fzf2TJzNoktexkwkwPTPS6Qrbtth303Rorjskg0qhx+jfvhnYmC2T60YMCWRe3iv
UrJUA42SicLqvJ9Yj1v/nfMyzQGPM23lTRmlMWvezfxfdpD5z+R4JTmCyMH1sBf/
pG1jnHUAovZTy0/RmQJBAOOZGzqbDKQ1JmwIc54J/3eoUBTQfKM2sPh1wm7GTZZ4
aAQNEoiR8i6jF52hGb4pXGAhw0aJNJ9AJf/bu7uSgOMCQQDf8bXudeI2LF3eHCu2
XtHzE3TRRksnM/JsU0DEZDmOrSzVaA+Gqoh3gBXqmHsI+4TaNJ8qXgKV1Pj83hw5
ql7tAkBBZYnkYg7U1AzRN/B4tai5KhywjmNxxlI9YiDXEZXTqY9BsrvjkAQFkIlF
mre540qOuMTSbLQ5GgaRKQMdV3A/AkEAwOEwb0g9I6em2WyuAY89iPzS+oRuqj9F
pyM1f3FLWaWyHcRYywYKL9K0DbBzF9N6I257QERkOaSLJ1AuQ0SIKQJAdKxHv7i2
ZCj4cEdbwLacGni2/Rcg7FRlaHUbJi/7MZhANPB9+8CU/zozdfNHTkQCuVaYgvwE
0oHJWO0mwkwlqQ==
-----END PRIVATE KEY-----
";

    pub(crate) const PUBLIC_KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDHGUOZ8KHQ0oh4TlbbMgBNUpIJ
fibIuDVtq0y44+1Lv3tmkha1y3ikSWB58g5MsbUkUJ/5ZUYIVWVLN28TC5Dk0kzs
FiWBDhlQi0Bsg1eHTl5yWjeKZNd9NnkhCovpUXYoE8JnY3xuWtxv2lMwaB9Fm3l0
IYpocWwvOnx8k7KsJwIDAQAB
-----END PUBLIC KEY-----
";

    /// What a server that has the key reads.
    pub(crate) fn decrypt(encrypted: &[u8], nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
        let key = rsa::PrivateKey::from_pkcs8_pem(PRIVATE_KEY).unwrap();
        let masked = key.oaep_decrypt::<Sha1>(encrypted).unwrap();
        masked.iter().enumerate().map(|(at, byte)| byte ^ nonce[at % NONCE_BYTES]).collect()
    }

    #[test]
    fn the_server_reads_what_was_encrypted() {
        let key = PublicKey::parse(PUBLIC_KEY.as_bytes()).unwrap();
        let nonce = b"abcdefghijklmnopqrst";
        for password in [&b""[..], b"secret", &[b'x'; 85]] {
            let encrypted = key.encrypt(password, nonce).unwrap();
            assert_eq!(decrypt(&encrypted, nonce), [password, b"\0"].concat());
            assert_ne!(key.encrypt(password, nonce), Some(encrypted), "twice the same");
        }
        assert_eq!(key.encrypt(&[b'x'; 86], nonce), None, "longer than the key can take");
    }

    #[test]
    fn keys_with_something_around_them() {
        let key = PublicKey::parse(PUBLIC_KEY.as_bytes());
        for around in [format!("{PUBLIC_KEY}\0"), format!("\n{PUBLIC_KEY}\r\n"), PUBLIC_KEY.replace('\n', "\r\n")] {
            assert_eq!(PublicKey::parse(around.as_bytes()), key);
        }
    }

    #[test]
    fn what_is_no_key() {
        for pem in
            [&b""[..], b"\xff", b"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n", PRIVATE_KEY.as_bytes()]
        {
            assert_eq!(PublicKey::parse(pem), None);
        }
        for cut in 0..PUBLIC_KEY.trim_end().len() {
            assert_eq!(PublicKey::parse(&PUBLIC_KEY.as_bytes()[..cut]), None, "cut to {cut}");
        }
    }

    proptest! {
        #[test]
        fn a_key_with_a_wrong_letter_does_no_harm(at in 0..PUBLIC_KEY.len(), letter in any::<u8>()) {
            let mut pem = PUBLIC_KEY.as_bytes().to_vec();
            pem[at] = letter;
            if let Some(key) = PublicKey::parse(&pem) {
                let _ = key.encrypt(b"secret", b"abcdefghijklmnopqrst");
            }
        }
    }
}
