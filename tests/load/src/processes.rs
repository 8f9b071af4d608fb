//! CPU time and memory of processes, as Linux counts them in /proc. Elsewhere: not measured.

use std::collections::BTreeSet;

/// CPU seconds that a process and everything under it have used, also what has ended and was
/// waited for. `None` where there is no /proc.
pub(crate) fn cpu_seconds(root: u32) -> Option<f64> {
    let mut members = BTreeSet::from([root]);
    let mut ticks = Stat::read(root)?.ticks;
    let mut rest: Vec<(u32, Stat)> = std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, Stat::read(pid)?)))
        .collect();
    loop {
        let (children, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|(pid, stat)| members.contains(&stat.parent) && !members.contains(pid));
        if children.is_empty() {
            break;
        }
        for (pid, stat) in children {
            members.insert(pid);
            ticks += stat.ticks;
        }
        rest = others;
    }
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run are few")]
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU seconds of one process alone.
pub(crate) fn own_cpu_seconds() -> Option<f64> {
    let stat = Stat::read(std::process::id())?;
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run are few")]
    Some(stat.own_ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Bytes of memory that a process has for itself and in files it maps.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

struct Stat {
    parent: u32,
    own_ticks: u64,
    /// With those of children that were waited for.
    ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name, in brackets, may contain anything; the fields after it are numbers.
    fn parse(line: &str) -> Option<Self> {
        let (_, fields) = line.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let own_ticks = number(11)? + number(12)?;
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            own_ticks,
            ticks: own_ticks + number(13)? + number(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 7 1 1 0 -1 0 0 0 0 0 10 20 300 4000 20 0 1 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.own_ticks, stat.ticks), (7, 30, 4330));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_used_time_and_memory() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= own_cpu_seconds().unwrap());
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }
}
