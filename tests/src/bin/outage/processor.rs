//! What this process has used of the processors, all threads together. Linux only.

use std::fs;
use std::time::Duration;

/// The unit in which the kernel tells it, on every common architecture: a hundredth of a second.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of this process, without that of programs it has started.
pub(crate) fn used() -> Duration {
    let line = fs::read_to_string("/proc/self/stat").expect("the kernel tells about this process");
    TICK * ticks(&line).expect("it tells the time used")
}

/// The 14th and the 15th field. The second one, the program's name in brackets, may have spaces in it.
fn ticks(line: &str) -> Option<u32> {
    let (_, behind_name) = line.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let line = "17 (a name) b) S 1 17 17 0 -1 4194304 1 2 3 4 250 31 70 80 20 0 3 0 99";
        assert_eq!(ticks(line), Some(281));
        assert_eq!(ticks("17 (short) S 1"), None);
    }

    #[test]
    fn work_is_seen() {
        let before = used();
        let mut number = 1_u64;
        while used() == before {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(used() > before);
    }
}
