//! Stopping on SIGINT and SIGTERM, for programs that ask for it.
//!
//! A thread of its own waits for them, so that a handler that blocks its thread cannot hold up the second
//! signal. Does nothing unless asked, as the signals belong to the program, not to a library in it.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::Stop;

/// After the second signal the threads drop what they hold and end by themselves; a thread that is stuck in a
/// handler cannot. It has this long before the process ends without it.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// Exit status of a process ended by signal N is 128 + N where a shell reports it; this is SIGTERM's.
const EXIT_STATUS: i32 = 128 + 15;

/// Keeps the signals' thread alive; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    _alive: oneshot::Sender<()>,
}

impl Signals {
    /// From now on the first signal stops the server and the second cuts it.
    pub(crate) fn listen(stop: Stop) -> io::Result<Signals> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut source = {
            let _context = runtime.enter();
            Source::new()?
        };
        let (alive, ended) = oneshot::channel();
        let wait = async move {
            tokio::select! {
                // The sender is only ever dropped.
                _ = ended => {}
                () = obey(&mut source, &stop) => std::process::exit(EXIT_STATUS),
            }
        };
        thread::Builder::new().name("cenote-http-sig".into()).spawn(move || runtime.block_on(wait))?;
        Ok(Signals { _alive: alive })
    }
}

/// Returns when the process has to end by force.
async fn obey(source: &mut Source, stop: &Stop) {
    source.next().await;
    stop.stop();
    source.next().await;
    stop.stop_now();
    tokio::time::sleep(CUT_GRACE).await;
}

/// Where the signals come from.
#[cfg(unix)]
struct Source {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Source {
    fn new() -> io::Result<Source> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Source { interrupt, terminate })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Where the signals come from: elsewhere than on Unix, Ctrl-C only.
#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    fn new() -> io::Result<Source> {
        Ok(Source)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
