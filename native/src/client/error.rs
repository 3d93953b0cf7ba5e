//! What can come of an operation other than its result. Values.

use std::fmt;

/// What a server's `Error` frame says, or this side's own refusal in the same shape.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct ErrorDetail {
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub hint: Option<String>,
}

impl ErrorDetail {
    pub fn new(code: &str, message: impl Into<String>, hint: Option<&str>) -> ErrorDetail {
        ErrorDetail { code: code.into(), message: message.into(), hint: hint.map(Into::into) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    Refused(ErrorDetail),
    TrainerLost(ErrorDetail),
    ServerLost(ErrorDetail),
    ServerForgot(ErrorDetail),
    Timeout(ErrorDetail),
    /// The caller's pulse said stop.
    Interrupted,
}

pub type Outcome<T> = Result<T, ClientError>;

impl ClientError {
    pub fn refused(code: &str, message: impl Into<String>) -> ClientError {
        ClientError::Refused(ErrorDetail::new(code, message, None))
    }

    /// What a server said becomes the error that callers know.
    pub fn from_server(detail: ErrorDetail) -> ClientError {
        match detail.code.as_str() {
            "trainer-lost" => ClientError::TrainerLost(detail),
            "server-forgot" => ClientError::ServerForgot(detail),
            _ => ClientError::Refused(detail),
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Refused(detail)
            | ClientError::TrainerLost(detail)
            | ClientError::ServerLost(detail)
            | ClientError::ServerForgot(detail)
            | ClientError::Timeout(detail) => match &detail.hint {
                None => to.write_str(&detail.message),
                Some(hint) => write!(to, "{}\nhint: {hint}", detail.message),
            },
            ClientError::Interrupted => to.write_str("interrupted"),
        }
    }
}
