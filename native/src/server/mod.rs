//! A server: its part of the tables, and everything that trainers ask of it.
//!
//! # What a client does, so that nothing is lost and nothing counts twice
//!
//! **Connections.** One data and one control connection per rank and server, both with the process's incarnation. The
//! newest data connection of a rank counts; requests on an older one are refused (`replaced`), and so is, for ever, an
//! incarnation that was replaced. Observers have no rank: they create, pull, set, save, load and look.
//!
//! **Welcome** is JSON: `life` (text; another one after a restart), `server`, `servers`, `shards`, `world`, `job`, `log`
//! (whether there is one), `applied` and `durable` (numbers of this rank's operations), `step`, `next` (the step that this
//! rank does next here), `prepared` (whether `next` is prepared), `yours` (by this very incarnation), `joined`, `done`,
//! `tables` (name to number; the number is made of the name and the same everywhere).
//!
//! **Numbered operations**: Push and PushDense outside of steps, SetDense, Set, Add, LearningRate, Shrink. `seq` rises per
//! rank and server, from above `applied`; gaps are fine; 0 is unnumbered. One with a number that was applied is answered
//! and not done again. An answer's `seq` is the newest durable number (without a log: the newest applied). After a
//! reconnect, those above `applied` are sent again in order. The server forgot if `applied` is below what was reported durable,
//! or if it has another `life`, no log, and had answered more than Create.
//! A Push without rows is a push all the same: a rule such as Adam counts those of the whole table, on every server.
//! Changed has a number too: asked again with the same one, it tells the same keys again; a higher one acknowledges.
//!
//! **Steps.** Push, PushDense and LearningRate with the flag STEP: `seq` is the step. First the pieces of t, then Prepare(t)
//! on *every* server, and when all have answered Commit(t) on every server. Pieces are kept until Prepare is answered. A new
//! data connection drops what was not prepared. After a reconnect while the client is at step t, by what Welcome says:
//!
//! ```text
//! next == t + 1                      committed here: nothing to do
//! next == t, prepared and yours      Commit(t), if the client had decided to commit
//! next == t, prepared, not yours     Abort(t), then as if not prepared: a kill brought back what an earlier life left
//! next == t, not prepared            all pieces of t again, and Prepare(t) if it was sent
//! next == t - 1 (then prepared)      the commit was lost in a kill: Commit(t - 1), then as above
//! ```
//!
//! A trainer that was restarted connects to all servers, takes t = the highest `next`, and goes by the same table. Not
//! `joined`: it was done or had been given up. It takes t, or the highest `step` + 2 if a `step` is beyond t, and says Abort(t)
//! everywhere, which means "I take part from t on"; refused with `step-past`, it tries a higher one.
//! Pull and PullDense with `seq` = s wait until the server's step is s.
//!
//! **Barrier** `{name, turn = 0}`: once complete it is complete for ever, so a trainer that walks the same way again
//! passes; the next one has another name or a higher turn. **Gather** is a barrier at which everybody leaves bytes and
//! takes all away; the last turn of a name can be asked for again. **Take** counts: asked again with the same turn, it tells
//! the same number again; the next turn is one higher. **Post** leaves a trainer's latest bytes and takes everybody's, and
//! waits for nobody. **Save** `{path, mode, step?}` answers `{server, step, tables,
//! files}`; **Load** `{path, files?, step?, check?}` takes the place of everything in the tables, or
//! changes nothing; with `check` it is read and waits for the same request without it, so that all servers load or none.
//! **Done** is refused while a step is prepared; with the flag STEP the trainer takes no more steps, and stays. Servers linger for two seconds after the last Done, or until the trainers'
//! connections are closed, so that an answer that was lost can be asked for again.

mod applications;
mod barriers;
mod blackboard;
pub mod config;
pub mod connection;
mod coordination;
mod counters;
mod durability;
pub mod engine;
mod gate;
mod gathers;
mod geo;
mod latencies;
mod lifetime;
pub mod listener;
mod loading;
mod locks;
mod meetings;
mod members;
mod operations;
mod payloads;
mod pieces;
mod records;
mod recovery;
mod refusals;
mod registry;
mod requests;
mod schedule;
pub mod service;
mod session;
mod snapshots;
mod staging;
mod state_dir;
mod steps;
mod traffic;
pub mod upkeep;
mod verdict;
mod waiting;
mod waits;

#[cfg(test)]
mod tests;
