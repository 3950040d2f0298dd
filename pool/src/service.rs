//! How long a server takes for a statement, from what has been seen of it. No I/O, no clock.

/// What the server takes for a statement: time and statements, of the recent past. A sum for both, because replies come in
/// bursts: where the server's processes take turns, the first after a pause takes milliseconds and the next ones none.
#[derive(Debug, Default)]
pub(crate) struct Service {
    busy_us: u64,
    statements: u64,
}

impl Service {
    /// Older statements than this count less and less.
    const STATEMENTS_MAX: u64 = 128;

    /// One slow statement says little of the others.
    const BUSY_US_MAX: u64 = 100_000;

    /// Adds what has been answered; the time for each, in microseconds.
    pub(crate) fn add(&mut self, busy_us: u64, statements: u64) -> u64 {
        self.busy_us += busy_us.min(Self::BUSY_US_MAX);
        self.statements += statements;
        let each_us = self.busy_us / self.statements.max(1);
        if self.statements >= Self::STATEMENTS_MAX {
            self.busy_us /= 2;
            self.statements /= 2;
        }
        each_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_counts_as_what_it_was_and_one_slow_statement_says_little() {
        let mut service = Service::default();
        assert_eq!(service.add(10_000, 100), 100, "the first of a burst took all the time");
        assert_eq!(service.add(0, 20), 83, "the rest of it none");
        let mut service = Service::default();
        service.add(1_000, 100);
        assert_eq!(service.add(60_000_000, 1), 1_000, "a minute counts as a tenth of a second");
    }
}
