//! How two sides come to trust each other: both know the job's token, and each shows it without saying it.
//!
//! The caller sends a nonce and who it is, the server a nonce; then each sends an HMAC-SHA256, keyed with the token, over
//! everything both have said, with its own role in front. So a proof fits one conversation, one direction, one identity
//! and one version of the protocol. Pure but for `random`; a job without a token has the empty one.

use std::io;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::frame::VERSION;

pub const NONCE: usize = 32;

/// What a caller says first (`Hello`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// 32 random bytes in hexadecimal.
    pub nonce: String,
    pub rank: u32,
    pub incarnation: u64,
    /// "data", "control" or "observer".
    pub kind: String,
    pub job: String,
}

/// The server's answer (`Challenge`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    pub nonce: String,
}

/// The caller's proof (`Proof`); the server's is the field `proof` of its `Welcome`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    pub proof: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// Random bytes from the system.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    let mut have = 0;
    while have < N {
        // SAFETY: the pointer and the length are those of the rest of `bytes`.
        let got = unsafe { libc::getrandom(bytes[have..].as_mut_ptr().cast(), N - have, 0) };
        if got < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        have += got as usize;
    }
    Ok(bytes)
}

pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(|c| (c as char).to_digit(16).map(|d| d as u8)).collect();
    let digits = digits?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The proof of one side, in hexadecimal. `None` if a nonce is not what it should be.
pub fn prove(token: &[u8], role: Role, hello: &Hello, challenge: &Challenge) -> Option<String> {
    Some(to_hex(&transcript(token, role, hello, challenge)?.finalize().into_bytes()))
}

/// Whether the other side's proof is right; takes equally long whatever is wrong with it.
pub fn verify(token: &[u8], role: Role, hello: &Hello, challenge: &Challenge, proof: &str) -> bool {
    match (transcript(token, role, hello, challenge), from_hex(proof)) {
        (Some(mac), Some(proof)) => mac.verify_slice(&proof).is_ok(),
        _ => false,
    }
}

fn transcript(token: &[u8], role: Role, hello: &Hello, challenge: &Challenge) -> Option<Hmac<Sha256>> {
    let client = from_hex(&hello.nonce).filter(|nonce| nonce.len() == NONCE)?;
    let server = from_hex(&challenge.nonce).filter(|nonce| nonce.len() == NONCE)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(token).ok()?;
    mac.update(b"umiak-ps\0");
    mac.update(match role {
        Role::Client => b"client\0",
        Role::Server => b"server\0",
    });
    mac.update(&[VERSION]);
    mac.update(&hello.rank.to_le_bytes());
    mac.update(&hello.incarnation.to_le_bytes());
    for text in [&hello.kind, &hello.job] {
        mac.update(&(text.len() as u64).to_le_bytes());
        mac.update(text.as_bytes());
    }
    mac.update(&client);
    mac.update(&server);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Hello, Challenge) {
        let hello = Hello {
            nonce: to_hex(&random::<NONCE>().unwrap()),
            rank: 3,
            incarnation: 9,
            kind: "data".into(),
            job: "a".into(),
        };
        (hello, Challenge { nonce: to_hex(&random::<NONCE>().unwrap()) })
    }

    #[test]
    fn a_proof_fits_one_conversation_only() {
        let (hello, challenge) = both();
        let proof = prove(b"secret", Role::Client, &hello, &challenge).unwrap();
        let holds = |role, hello: &Hello, challenge: &Challenge| verify(b"secret", role, hello, challenge, &proof);
        assert!(holds(Role::Client, &hello, &challenge));
        assert!(!verify(b"other", Role::Client, &hello, &challenge, &proof));
        assert!(!holds(Role::Server, &hello, &challenge));
        assert!(!holds(Role::Client, &Hello { rank: 4, ..hello.clone() }, &challenge));
        assert!(!holds(Role::Client, &Hello { incarnation: 8, ..hello.clone() }, &challenge));
        assert!(!holds(Role::Client, &Hello { kind: "control".into(), ..hello.clone() }, &challenge));
        assert!(!holds(Role::Client, &Hello { kind: "dataa".into(), job: String::new(), ..hello.clone() }, &challenge));
        assert!(!holds(Role::Client, &hello, &both().1));
        assert!(!holds(Role::Client, &both().0, &challenge));
        for wrong in ["", "00", "zz", "ä", &proof[2..]] {
            assert!(!verify(b"secret", Role::Client, &hello, &challenge, wrong));
        }
    }

    #[test]
    fn nonces_have_one_length() {
        let (hello, challenge) = both();
        assert!(prove(b"", Role::Client, &hello, &challenge).is_some());
        assert!(prove(b"", Role::Client, &hello, &Challenge { nonce: "00".into() }).is_none());
        assert!(prove(b"", Role::Client, &Hello { nonce: String::new(), ..hello }, &challenge).is_none());
    }
}
