//! What can come of an operation other than its result. Values.

use std::fmt;

/// A server's `Error` frame, or this side's own refusal in the same shape.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Told {
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub hint: Option<String>,
}

impl Told {
    pub fn new(code: &str, message: impl Into<String>, hint: Option<&str>) -> Told {
        Told { code: code.into(), message: message.into(), hint: hint.map(Into::into) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    Refused(Told),
    TrainerLost(Told),
    ServerLost(Told),
    ServerForgot(Told),
    Timeout(Told),
    /// The caller's pulse said stop.
    Interrupted,
}

pub type Outcome<T> = Result<T, ClientError>;

impl ClientError {
    pub fn refused(code: &str, message: impl Into<String>) -> ClientError {
        ClientError::Refused(Told::new(code, message, None))
    }

    /// What a server said becomes the error that callers know.
    pub fn told(told: Told) -> ClientError {
        match told.code.as_str() {
            "trainer-lost" => ClientError::TrainerLost(told),
            "server-forgot" => ClientError::ServerForgot(told),
            _ => ClientError::Refused(told),
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Refused(told)
            | ClientError::TrainerLost(told)
            | ClientError::ServerLost(told)
            | ClientError::ServerForgot(told)
            | ClientError::Timeout(told) => match &told.hint {
                None => to.write_str(&told.message),
                Some(hint) => write!(to, "{}\nhint: {hint}", told.message),
            },
            ClientError::Interrupted => to.write_str("interrupted"),
        }
    }
}
