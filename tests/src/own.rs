//! What a program can tell of itself.

/// The most memory this process ever held, in megabytes; 0 where the system does not say.
pub fn peak_rss_mb() -> f64 {
    // Not getrusage: its figure outlives exec, so it can be that of a larger parent.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    peak_rss_kib(&status).unwrap_or(0) as f64 / 1024.0
}

fn peak_rss_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read() {
        assert_eq!(peak_rss_kib("Name:\tx\nVmHWM:\t    3584 kB\nVmRSS:\t 10 kB\n"), Some(3584));
        assert_eq!(peak_rss_kib("Name:\tx\n"), None);
    }
}
