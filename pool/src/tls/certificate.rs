//! What rustls does not tell of a certificate: by what it is bound to a channel, and when it is valid.
//!
//! A few steps into DER, each checked; what cannot be read gives `None`. It does not check signatures or names.
//!
//! Source: RFC 5280 (4.1), RFC 5929 (4), RFC 4055, RFC 5758.

use std::ops::RangeInclusive;

use ring::digest::{self, Algorithm};

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, constructed: a certificate's version, and the hash of RSASSA-PSS.
const CONTEXT_0: u8 = 0xa0;

/// pkcs-1 (1.2.840.113549.1.1), followed by a number for each algorithm.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const RSA_MD5: u8 = 4;
const RSA_SHA1: u8 = 5;
const RSA_PSS: u8 = 10;
const RSA_SHA256: u8 = 11;
const RSA_SHA384: u8 = 12;
const RSA_SHA512: u8 = 13;

/// ecdsa-with-SHA1 (1.2.840.10045.4.1).
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
/// ecdsa-with-SHA2 (1.2.840.10045.4.3), followed by 2, 3 or 4.
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];

/// SHA-1 (1.3.14.3.2.26).
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
/// nistAlgorithms.hashAlgs (2.16.840.1.101.3.4.2), followed by 1, 2 or 3.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

const SECONDS_PER_DAY: i64 = 86_400;

/// The certificate's hash as `tls-server-end-point` wants it: by the hash of its own signature, SHA-256 in place of MD5
/// and SHA-1. `None` where its signature has none (Ed25519): for those no such binding is defined.
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, algorithm) = parts(certificate)?;
    let hash = signature_hash(algorithm)?;
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

/// From when to when it is valid, in seconds since 1970.
pub(super) fn validity(certificate: &[u8]) -> Option<RangeInclusive<i64>> {
    let (mut fields, _) = parts(certificate)?;
    if fields.first() == Some(&CONTEXT_0) {
        (_, fields) = expect(CONTEXT_0, fields)?;
    }
    let (_serial, fields) = expect(INTEGER, fields)?;
    let (_algorithm, fields) = expect(SEQUENCE, fields)?;
    let (_issuer, fields) = expect(SEQUENCE, fields)?;
    let (validity, _) = expect(SEQUENCE, fields)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(not_before..=not_after)
}

/// The fields that are signed, and by which algorithm.
fn parts(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (fields, rest) = expect(SEQUENCE, certificate)?;
    let (algorithm, _) = expect(SEQUENCE, rest)?;
    Some((fields, algorithm))
}

fn signature_hash(algorithm: &[u8]) -> Option<&'static Algorithm> {
    let (identifier, parameters) = expect(OBJECT_IDENTIFIER, algorithm)?;
    if identifier == ECDSA_SHA1 {
        return Some(&digest::SHA256);
    }
    match identifier.split_last()? {
        (&RSA_PSS, RSA) => pss_hash(parameters),
        (&(RSA_MD5 | RSA_SHA1 | RSA_SHA256), RSA) | (2, ECDSA_SHA2) => Some(&digest::SHA256),
        (&RSA_SHA384, RSA) | (3, ECDSA_SHA2) => Some(&digest::SHA384),
        (&RSA_SHA512, RSA) | (4, ECDSA_SHA2) => Some(&digest::SHA512),
        _ => None,
    }
}

fn pss_hash(parameters: &[u8]) -> Option<&'static Algorithm> {
    let (parameters, _) = expect(SEQUENCE, parameters)?;
    // Left out it is SHA-1.
    let Some((hash, _)) = expect(CONTEXT_0, parameters) else { return Some(&digest::SHA256) };
    let (hash, _) = expect(SEQUENCE, hash)?;
    let (identifier, _) = expect(OBJECT_IDENTIFIER, hash)?;
    if identifier == SHA1 {
        return Some(&digest::SHA256);
    }
    match identifier.split_last()? {
        (1, SHA2) => Some(&digest::SHA256),
        (2, SHA2) => Some(&digest::SHA384),
        (3, SHA2) => Some(&digest::SHA512),
        _ => None,
    }
}

/// The content of the element at the front, which has this tag, and what follows it.
fn expect(tag: u8, input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = input.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            let length = digits.iter().fold(0_u32, |length, digit| length << 8 | u32::from(*digit));
            (usize::try_from(length).ok()?, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| found == tag)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, as certificates write it.
fn time(input: &[u8]) -> Option<(i64, &[u8])> {
    let (century, digits, rest) = match expect(GENERALIZED_TIME, input) {
        Some((text, rest)) => {
            let (century, digits) = text.split_at_checked(2)?;
            (number(century)?, digits, rest)
        }
        None => {
            let (text, rest) = expect(UTC_TIME, input)?;
            // Two digits of a year stand for 1950 to 2049.
            let century = if text.first()? >= &b'5' { 19 } else { 20 };
            (century, text, rest)
        }
    };
    let digits = digits.strip_suffix(b"Z").filter(|digits| digits.len() == 12)?;
    let mut pairs = digits.chunks(2).map(number);
    let mut next = || pairs.next().flatten();
    let (year, month, day) = (century * 100 + next()?, next()?, next()?);
    let seconds = next()? * 3_600 + next()? * 60 + next()?;
    Some((days_since_1970(year, month, day) * SECONDS_PER_DAY + seconds, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

/// Days of the Gregorian calendar, in which a year begins in March: so the leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    // From the 1st of March of the year 0 to the 1st of January 1970 it is 719,468 days.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    use super::*;

    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2000, 2, 29);
        parameters.not_after = rcgen::date_time_ymd(2051, 3, 1);
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let table = [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Some(&digest::SHA256)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Some(&digest::SHA384)),
            (&rcgen::PKCS_ED25519, None),
        ];
        for (algorithm, hash) in table {
            let certificate = certificate(algorithm);
            let expected = hash.map(|hash| digest::digest(hash, &certificate).as_ref().to_vec());
            assert_eq!(server_end_point(&certificate), expected, "{algorithm:?}");
        }
    }

    #[test]
    fn every_algorithm_has_its_hash() {
        let rsa = |number: u8| [&[OBJECT_IDENTIFIER, 9], RSA, &[number, 5, 0]].concat();
        let ecdsa = |number: u8| [&[OBJECT_IDENTIFIER, 8], ECDSA_SHA2, &[number]].concat();
        let pss = |hash: &[u8]| {
            let hash = [&[OBJECT_IDENTIFIER, hash.len() as u8], hash].concat();
            let hash = [&[SEQUENCE, hash.len() as u8], &hash[..]].concat();
            let hash = [&[CONTEXT_0, hash.len() as u8], &hash[..]].concat();
            let parameters = [&[SEQUENCE, hash.len() as u8], &hash[..]].concat();
            [&[OBJECT_IDENTIFIER, 9], RSA, &[RSA_PSS], &parameters].concat()
        };
        let sha2 = |number: u8| [SHA2, &[number]].concat();
        let table = [
            (rsa(4), Some(&digest::SHA256)),
            (rsa(5), Some(&digest::SHA256)),
            (rsa(11), Some(&digest::SHA256)),
            (rsa(12), Some(&digest::SHA384)),
            (rsa(13), Some(&digest::SHA512)),
            (rsa(14), None),
            ([&[OBJECT_IDENTIFIER, 7], ECDSA_SHA1].concat(), Some(&digest::SHA256)),
            (ecdsa(1), None),
            (ecdsa(2), Some(&digest::SHA256)),
            (ecdsa(3), Some(&digest::SHA384)),
            (ecdsa(4), Some(&digest::SHA512)),
            (pss(SHA1), Some(&digest::SHA256)),
            (pss(&sha2(1)), Some(&digest::SHA256)),
            (pss(&sha2(2)), Some(&digest::SHA384)),
            (pss(&sha2(3)), Some(&digest::SHA512)),
            (pss(&sha2(4)), None),
            ([&[OBJECT_IDENTIFIER, 9], RSA, &[RSA_PSS, SEQUENCE, 0]].concat(), Some(&digest::SHA256)),
            ([&[OBJECT_IDENTIFIER, 9], RSA, &[RSA_PSS]].concat(), None),
            (vec![OBJECT_IDENTIFIER, 3, 0x2b, 0x65, 0x70], None),
            (vec![], None),
        ];
        for (algorithm, hash) in table {
            assert_eq!(signature_hash(&algorithm), hash, "{algorithm:02x?}");
        }
    }

    #[test]
    fn times() {
        let table: [(&[u8], Option<i64>); 12] = [
            (b"\x17\x0d700101000000Z", Some(0)),
            (b"\x17\x0d691231235959Z", Some(-1)),
            (b"\x17\x0d491231235959Z", Some(2_524_607_999)),
            (b"\x17\x0d500101000000Z", Some(-631_152_000)),
            (b"\x17\x0d000229123456Z", Some(951_827_696)),
            (b"\x18\x0f20510301000000Z", Some(2_561_241_600)),
            (b"\x18\x0f99991231235959Z", Some(253_402_300_799)),
            (b"\x17\x0d70010100000xZ", None),
            (b"\x17\x0b7001010000Z", None),
            (b"\x17\x0d7001010000000", None),
            (b"\x16\x0d700101000000Z", None),
            (b"\x17\x0d700101", None),
        ];
        for (input, seconds) in table {
            assert_eq!(time(input).map(|(seconds, _)| seconds), seconds, "{}", input.escape_ascii());
        }
    }

    #[test]
    fn a_certificate_says_when_it_is_valid() {
        let certificate = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(validity(&certificate), Some(951_782_400..=2_561_241_600));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..64), cut in any::<prop::sample::Index>()) {
            static CERTIFICATE: LazyLock<Vec<u8>> = LazyLock::new(|| certificate(&rcgen::PKCS_ECDSA_P256_SHA256));
            let _ = (server_end_point(&bytes), validity(&bytes), time(&bytes), signature_hash(&bytes));
            let certificate = &*CERTIFICATE;
            let cut = cut.index(certificate.len());
            prop_assert_eq!(server_end_point(&certificate[..cut]), None);
            let spoilt = [&certificate[..cut], &bytes, &certificate[cut..]].concat();
            let _ = (server_end_point(&spoilt), validity(&spoilt));
        }
    }
}
