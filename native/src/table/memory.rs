//! Memory that is there before it is needed: one thread of the process asks the system for pages that rows will soon be put
//! on. What it does not get to in time, the row itself asks for.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use memmap2::{Advice, MmapMut};

/// Requests that may wait; more are not worth waiting.
const WAITING: usize = 8;

type Request = (Arc<MmapMut>, usize, usize);

/// Asks for some bytes of a map, from an offset on, without waiting for them.
pub fn make_ready(map: &Arc<MmapMut>, offset: usize, bytes: usize) {
    static THREAD: OnceLock<Option<SyncSender<Request>>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (sender, receiver) = sync_channel(WAITING);
        thread::Builder::new().name("ps-memory".into()).spawn(move || serve(receiver)).ok().map(|_| sender)
    });
    if let Some(thread) = thread {
        let _ = thread.try_send((Arc::clone(map), offset, bytes));
    }
}

fn serve(requests: Receiver<Request>) {
    for (map, offset, bytes) in requests {
        // Contents stay as they are, no matter who writes there meanwhile. A system that does not know this advice says no.
        #[cfg(target_os = "linux")]
        let _ = map.advise_range(Advice::PopulateWrite, offset, bytes);
    }
}
