//! What one outage gave, and whether that is what is asked.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Of one processor, while the server is down.
const DOWN_PERCENT_MAX: f64 = 20.0;

const CONNECTING_MAX: usize = 2;

/// From the server's taking connections until everybody has been served.
const SERVED_AGAIN_MAX: Duration = Duration::from_secs(1);

type Errors = BTreeMap<String, u64>;

#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) down_percent: f64,
    /// From the order to start until it takes connections, with what it costs to try that.
    pub(crate) starting_percent: f64,
    /// The most connects under way at once that were seen.
    pub(crate) connecting_max: usize,
    /// Connects that failed while it was down.
    pub(crate) connect_failures: u64,
    pub(crate) starting: Duration,
    pub(crate) served_again: Duration,
    pub(crate) errors_down: Errors,
    /// From the order to start until everybody has been served.
    pub(crate) errors_starting: Errors,
    /// After that.
    pub(crate) errors_after: Errors,
}

impl Figures {
    pub(crate) fn met(&self) -> bool {
        self.down_percent < DOWN_PERCENT_MAX
            && self.connecting_max <= CONNECTING_MAX
            && self.served_again < SERVED_AGAIN_MAX
            && self.errors_after.is_empty()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = |f: &mut fmt::Formatter<'_>, figure: String, asked: String, met: bool| {
            writeln!(f, "  {figure:<66} asked: {asked:<10} {}", if met { "met" } else { "MISSED" })
        };
        let figure = format!("CPU while down {:.1} % of a core", self.down_percent);
        asked(f, figure, format!("< {DOWN_PERCENT_MAX} %"), self.down_percent < DOWN_PERCENT_MAX)?;
        let figure = format!("connects under way at once {}", self.connecting_max);
        asked(f, figure, format!("<= {CONNECTING_MAX}"), self.connecting_max <= CONNECTING_MAX)?;
        let figure = format!("all served {:.3} s after it takes connections", self.served_again.as_secs_f64());
        asked(f, figure, format!("< {SERVED_AGAIN_MAX:?}"), self.served_again < SERVED_AGAIN_MAX)?;
        let figure = format!("errors after that {}", sum(&self.errors_after));
        asked(f, figure, "none".to_owned(), self.errors_after.is_empty())?;
        writeln!(
            f,
            "  failed connects while down {}; start {:.2} s with CPU {:.1} % of a core, of which some is this program's own tries",
            self.connect_failures,
            self.starting.as_secs_f64(),
            self.starting_percent
        )?;
        write_errors(f, "while down", &self.errors_down)?;
        write_errors(f, "while starting", &self.errors_starting)?;
        write_errors(f, "afterwards", &self.errors_after)
    }
}

fn sum(errors: &Errors) -> u64 {
    errors.values().sum()
}

fn write_errors(f: &mut fmt::Formatter<'_>, when: &str, errors: &Errors) -> fmt::Result {
    writeln!(f, "  errors {when}: {}", sum(errors))?;
    errors.iter().try_for_each(|(text, count)| writeln!(f, "    {count} x {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Figures {
        Figures {
            down_percent: 3.0,
            starting_percent: 90.0,
            connecting_max: 2,
            connect_failures: 12,
            starting: Duration::from_secs(2),
            served_again: Duration::from_millis(400),
            errors_down: Errors::from([("lost".to_owned(), 256)]),
            errors_starting: Errors::from([("timed out".to_owned(), 3)]),
            errors_after: Errors::new(),
        }
    }

    #[test]
    fn each_number_that_is_asked_for_can_be_missed() {
        assert!(good().met() && !good().to_string().contains("MISSED"), "{}", good());
        let error = Errors::from([("closed".to_owned(), 1)]);
        for bad in [
            Figures { down_percent: 20.0, ..good() },
            Figures { connecting_max: 3, ..good() },
            Figures { served_again: SERVED_AGAIN_MAX, ..good() },
            Figures { errors_after: error, ..good() },
        ] {
            assert!(!bad.met(), "{bad}");
            assert_eq!(bad.to_string().matches("MISSED").count(), 1, "{bad}");
        }
    }
}
