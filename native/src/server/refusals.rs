//! What a server says when it does not do what it was asked. Each code has one meaning; clients make exceptions of them.

use super::service::Refusal;
use super::steps::Disorder;

fn refusal(code: &'static str, message: impl Into<String>, hint: Option<&str>) -> Refusal {
    Refusal { code, message: message.into(), hint: hint.map(str::to_owned) }
}

pub fn bad_request(message: impl Into<String>) -> Refusal {
    refusal("bad-request", message, None)
}

pub fn not_allowed(message: impl Into<String>) -> Refusal {
    refusal("not-allowed", message, None)
}

pub fn no_such_rank(rank: u32, world: usize) -> Refusal {
    let message = format!("there is no trainer {rank}: this job has {world} trainers, counted from 0");
    refusal("no-such-rank", message, Some("start servers and trainers with the same number of trainers"))
}

pub fn replaced(rank: u32) -> Refusal {
    let message = format!("trainer {rank} has a newer connection: this one is not listened to any more");
    refusal("replaced", message, Some("two processes may have been started with the same rank"))
}

pub fn unknown_table(number: u32) -> Refusal {
    refusal("unknown-table", format!("there is no table with the number {number} here"), Some("create it first"))
}

pub fn other_spec(message: impl Into<String>) -> Refusal {
    refusal("other-spec", message, Some("all trainers, and a state directory, must describe a table in the same way"))
}

pub fn not_set(name: &str) -> Refusal {
    let message = format!("the values of dense table {name:?} have not been set yet");
    refusal("not-set", message, Some("let one trainer set them, and the others wait at a barrier"))
}

pub fn trainer_lost(doing: &str, who: &str) -> Refusal {
    let message = format!("{doing} can't go on: {who}");
    refusal("trainer-lost", message, Some("its own log tells why; on_loss says whether the others go on without it"))
}

pub fn mutual_wait(message: &str) -> Refusal {
    let hint = "every trainer takes the same number of steps and meets the others as often as they do; \
                one that has no more steps says so before it waits: job.finish_steps()";
    refusal("mutual-wait", message, Some(hint))
}

pub fn server_forgot(message: impl Into<String>) -> Refusal {
    let hint = "load the newest checkpoint; with a log (state directory) a server comes back with everything";
    refusal("server-forgot", message, Some(hint))
}

pub fn turn_past(message: impl Into<String>) -> Refusal {
    refusal("turn-past", message, Some("a trainer that was restarted begins again with a name that is not in use"))
}

pub fn disorder(disorder: &Disorder) -> Refusal {
    let code = match disorder {
        Disorder::Past { .. } => "step-past",
        Disorder::Outside { .. } => "given-up",
        _ => "step-order",
    };
    refusal(code, disorder.to_string(), None)
}

pub fn step_order(message: impl Into<String>) -> Refusal {
    refusal("step-order", message, None)
}

pub fn step_past(message: impl Into<String>) -> Refusal {
    refusal("step-past", message, None)
}

pub fn log_failed(failure: &str) -> Refusal {
    let message = format!("nothing can be changed any more, because it could not be kept: {failure}");
    refusal("log-failed", message, Some("make room on the disk of the state directory and start the server again"))
}

pub fn stopping() -> Refusal {
    refusal("stopping", "this server is being stopped", None)
}

pub fn busy() -> Refusal {
    refusal("busy", "this server is busy loading a checkpoint", None)
}

pub fn save_failed(message: impl Into<String>) -> Refusal {
    refusal("save-failed", message, None)
}

pub fn load_failed(message: impl Into<String>) -> Refusal {
    refusal("load-failed", message, None)
}
